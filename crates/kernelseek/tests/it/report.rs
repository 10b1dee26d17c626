//! `report` with the real binary: Markdown, JSON, a file, a folder that cannot be written.

use crate::campaign::{Campaigner, MET, UNMET};

#[test]
fn a_report_says_what_the_campaign_came_to() {
    let c = Campaigner::new(MET);
    let before = c.run(&["report"]);
    assert_eq!(before.code, 2, "{}", before.snapshot());
    assert!(before.stderr.contains("not sealed"), "{}", before.stderr);

    c.must(&["seal"]);
    let empty = c.must(&["report"]).stdout;
    assert!(empty.starts_with("# Campaign `rowscale`: goal open\n"), "{empty}");
    assert!(empty.contains("Nothing was evaluated under this seal yet"), "{empty}");

    c.must(&["hypothesis", "| fewer <b>calls</b> |", "--layer", "formulation", "--expect", "1.5"]);
    c.put("faster.c");
    let eval = c.meet();
    let text = c.must(&["report"]).stdout;
    assert!(text.starts_with("# Campaign `rowscale`: goal met\n"), "{text}");
    assert!(text.contains("`formulation`: \\| fewer \\<b>calls\\</b> \\| "), "{text}");
    assert!(text.contains("| 1.500× |"), "{text}");
    for section in
        ["Goal", "Scenarios, from", "Course", "Story", "What this report does not show", "To see for"]
    {
        assert!(text.contains(&format!("\n## {section}")), "{section}\n{text}");
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("attached: this evaluation was asked for in a session"), "{text}");
    assert!(words.contains("Held out: "), "{text}");
    // The ids are those of the ledger and of the verdict, whole.
    let exported = c.json(&["export", "out.jsonl"]);
    let head = exported["head"].as_str().unwrap();
    for whole in [head, exported["campaign"].as_str().unwrap(), eval["candidate_hash"].as_str().unwrap()] {
        assert!(text.contains(whole), "{whole}\n{text}");
    }

    let json = c.json(&["report"]);
    assert_eq!((json["format"].as_u64(), json["state"]["met"].as_bool()), (Some(1), Some(true)));
    assert_eq!(json["identity"]["head"], head);
    let device = &json["subject"]["setting"]["device"];
    assert_eq!(device["model"], eval["device"]["model"], "{json:#}");
    assert_eq!(json["subject"]["held_out"]["drawn"], eval["held_out"]["drawn"]);
    assert!(json["subject"]["held_out"].get("scenarios").is_none());

    let ran = c.must(&["report", "--output", "report.md"]);
    assert!(
        ran.stdout.is_empty() && ran.stderr.contains("report.md: report of rowscale-"),
        "{}",
        ran.snapshot()
    );
    let file = std::fs::read_to_string(c.context.problem().join("report.md")).unwrap();
    let without_date =
        |text: &str| text.lines().filter(|l| !l.starts_with("Made ")).collect::<Vec<_>>().join("\n");
    assert_eq!(without_date(&file), without_date(&text), "reading writes no row");
    let nowhere = c.run(&["report", "--output", "none/report.md"]);
    assert_eq!(nowhere.code, 3, "{}", nowhere.snapshot());
    assert!(nowhere.stderr.contains("none/report.md: "), "{}", nowhere.stderr);
    assert_eq!(c.run(&["report", "--in", "/"]).code, 2);
}

#[test]
fn a_report_tells_what_failed_and_what_was_refused() {
    let c = Campaigner::new(UNMET);
    c.must(&["seal"]);
    c.context.write("kernel.c", "#include \"rowscale.h\"\nint f( {\n").unwrap();
    c.must(&["eval", "--quick", "--quiet"]);
    let decision = c.stop(r##"{"words": "# I am *done*"}"##);
    assert_eq!(decision["decision"], "block");
    let text = c.must(&["report"]).stdout;
    assert!(text.starts_with("# Campaign `rowscale`: goal unmet\n"), "{text}");
    assert!(text.contains("does not compile (`built.compile`)"), "{text}");
    assert!(text.contains("**stop refused** (`unmet`)"), "{text}");
    assert!(text.contains("it said: \\# I am \\*done\\*"), "{text}");
}
