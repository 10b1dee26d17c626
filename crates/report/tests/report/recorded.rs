//! Every recorded ledger gives a report, and what it says agrees with what the campaign crate says.

use crate::corpus::{Told, recorded};
use crate::structure::skeleton;
use kernelseek_campaign::Board;
use kernelseek_report::{Event, Outcome, Report, markdown};

/// What every report must hold.
fn faults(told: &Told, report: &Report, text: &str) -> Vec<String> {
    let board = Board::of(&told.rows);
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            faults.push(what.to_owned());
        }
    };
    must(text.lines().all(|l| !l.ends_with(' ') && !l.contains('\t')), "trailing spaces or tabs");
    must(!text.contains("NaN") && !text.contains("inf"), "a number that is none");
    let prose = |l: &&str| !l.starts_with('|') && !l.starts_with("kernelseek ");
    let long = text.lines().filter(prose).find(|l| l.chars().count() > 115);
    must(long.is_none(), &format!("a line that is not wrapped: {}", long.unwrap_or_default()));
    let structure = skeleton(text);
    must(structure.matches("heading 1").count() == 1, "one title");
    must(!structure.contains("html") && !structure.contains("link"), "nothing but words");
    must(structure.matches("table 7").count() == 1, "one story");
    must(
        report.state.met == text.starts_with("# Campaign `story`: goal met"),
        "the title says whether it is met",
    );
    let attempts = |l: &&kernelseek_report::Line| matches!(&l.event, Event::Attempt(a) if a.purpose == kernelseek_ledger::entry::Purpose::Attempt);
    let told_attempts = report.story.iter().filter(attempts).count();
    let all = board
        .evaluations
        .iter()
        .filter(|e| e.facts.purpose == kernelseek_ledger::entry::Purpose::Attempt)
        .count();
    must(told_attempts == all, "every attempt is told");
    let promoted: Vec<u64> = report
        .story
        .iter()
        .filter_map(|l| match &l.event {
            Event::Attempt(a) => match a.outcome {
                Outcome::Promoted { row, .. } => Some(row),
                _ => None,
            },
            _ => None,
        })
        .collect();
    must(promoted == board.promotions.iter().map(|p| p.row).collect::<Vec<_>>(), "every promotion is told");
    let best = board.incumbent().map_or(1.0, |p| p.what.geomean.point);
    must((report.best() - best).abs() < 1e-12, "the course ends at the incumbent");
    must(report.identity.head == told.rows.last().unwrap().hash, "the head is the last row's hash");
    must(text.contains(&report.identity.head), "the head is shown");
    must(text.len() < 64 << 10, "short");
    faults
}

#[test]
fn every_recorded_ledger_gives_a_report() {
    let scratch = tempfile::tempdir().unwrap();
    let all = recorded();
    assert!(all.len() > 100, "{}", all.len());
    let mut wrong = Vec::new();
    for (name, path) in all {
        let told = Told::import(&path, scratch.path());
        let report = told.report();
        let text = markdown(&report);
        wrong.extend(faults(&told, &report, &text).into_iter().map(|f| format!("{name}: {f}")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_few_look_like_this() {
    for name in [
        "claimed_limit/silent-stop-with-the-goal-met",
        "claimed_limit/fires-stop-with-one-scenario-short",
        "correctness_break/fires-three-candidates-carry-one-failure",
        "campaign_start/fires-sealed-again-with-another-seed",
        "plateau/fires-eight-attempts-without-a-promotion",
    ] {
        let told = Told::named(name).at_home();
        insta::assert_snapshot!(name.replace('/', "_"), markdown(&told.report()));
    }
}
