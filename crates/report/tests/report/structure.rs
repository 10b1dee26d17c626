//! What agents write forms nothing: a parser of GFM sees the same structure whatever they wrote.

use crate::corpus::Told;
use kernelseek_ledger::Entry;
use kernelseek_ledger::entry::Led;
use kernelseek_report::{cell, code, inline, markdown};
use markdown::mdast::Node;
use markdown::{ParseOptions, to_mdast};
use proptest::prelude::*;

/// The kinds of all nodes in order. Text and code spans, one after the other, are one kind: how much of a text becomes
/// code is no matter of structure.
pub(crate) fn skeleton(text: &str) -> String {
    fn walk(node: &Node, depth: usize, out: &mut Vec<String>) {
        let kind = match node {
            Node::Text(_) | Node::InlineCode(_) => "words".to_owned(),
            Node::Heading(h) => format!("heading {}", h.depth),
            Node::Table(t) => format!("table {}", t.align.len()),
            Node::List(l) => format!("list {}", l.ordered),
            Node::Code(_) => "fence".to_owned(),
            other => format!("{other:?}").split([' ', '{', '(']).next().unwrap_or_default().to_lowercase(),
        };
        let kind = format!("{depth} {kind}");
        if kind.ends_with("words") && out.last() == Some(&kind) {
            return;
        }
        out.push(kind);
        for child in node.children().into_iter().flatten() {
            walk(child, depth + 1, out);
        }
    }
    let mut out = Vec::new();
    walk(&to_mdast(text, &ParseOptions::gfm()).unwrap(), 0, &mut out);
    out.join("\n")
}

/// What a reader sees.
fn visible(text: &str) -> String {
    fn walk(node: &Node, out: &mut String) {
        match node {
            Node::Text(t) => out.push_str(&t.value),
            Node::InlineCode(c) => out.push_str(&c.value),
            _ => {}
        }
        node.children().into_iter().flatten().for_each(|child| walk(child, out));
    }
    let mut out = String::new();
    walk(&to_mdast(text, &ParseOptions::gfm()).unwrap(), &mut out);
    out
}

/// Signs that mean something in Markdown, in GFM, or on the way to a page, and what they are mixed with.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "`",
        "``",
        "```",
        "*",
        "**",
        "_",
        "__",
        "~",
        "~~",
        "|",
        "||",
        "\\",
        "\\\\",
        "\\|",
        "\\`",
        "[",
        "]",
        "(",
        ")",
        "![",
        "](",
        "](http://a.b)",
        "[^1]",
        "[^1]: ",
        "[x]: http://a.b",
        "<",
        ">",
        "<b>",
        "</td>",
        "<!--",
        "-->",
        "<script>",
        "<http://a.b>",
        "&",
        "&lt;",
        "&#124;",
        "&#x7c;",
        "#",
        "##",
        "# ",
        "-",
        "- ",
        "--",
        "---",
        "===",
        "+ ",
        "* ",
        "1. ",
        "12) ",
        ":-:",
        ":--",
        "|-|",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\t",
        " ",
        "  ",
        "    ",
        "\u{a0}",
        "\u{2028}",
        "http://a.b/c_d",
        "https://a.b|c",
        "www.a.b",
        "WWW.A.B",
        "a@b.c",
        "@team",
        "#12",
        "GH-1",
        "mailto:a@b.c",
        "$",
        "$$",
        "$x$",
        ":smile:",
        "a",
        "word",
        "Wort",
        "row_max",
        "std::vector",
        "é",
        "中",
        "\u{202e}",
        "\u{200b}",
        "\u{0}",
        "\u{1b}[0m",
        ".",
        ",",
        "!",
        "?",
        "\"",
        "'",
        "{",
        "}",
        "^",
        "=",
        "%",
        "~~~",
        "- [ ] ",
        "- [x] ",
        "> ",
        "1",
        "setext\n===",
        "a|b\n-|-\nc|d",
        "~~~\ncode",
        "    code",
        "\\\n",
        "  \n",
    ]);
    prop_oneof![
        4 => prop::collection::vec(pieces, 0..14).prop_map(|p| p.concat()),
        1 => any::<String>(),
        1 => "[ -~]{0,60}",
    ]
}

/// The same text without what cannot be seen, white space as single spaces.
fn plain(text: &str) -> String {
    let code = code(text);
    code.trim_matches('`').trim().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn a_text_is_words_wherever_it_stands(text in hostile()) {
        let inline = inline(&text);
        prop_assert!(!inline.contains('\n'));
        for (before, after) in [("", ""), ("- ", "\n"), ("a ", " b"), ("> ", ""), ("- a\n  - ", ""), ("**a** ", ": *b*")] {
            let shown = skeleton(&format!("{before}{inline}{after}"));
            let meant = skeleton(&format!("{before}{}{after}", if inline.is_empty() { "" } else { "word" }));
            prop_assert_eq!(shown, meant, "{:?} in {:?}", inline, before);
        }
    }

    #[test]
    fn a_code_span_is_words_wherever_it_stands(text in hostile()) {
        let code = code(&text);
        let shown = skeleton(&format!("a {code} b"));
        prop_assert_eq!(shown, skeleton("a word b"), "{:?}", code);
    }

    #[test]
    fn a_cell_stays_one_cell(text in hostile(), other in hostile()) {
        let table = |a: &str, b: &str| format!("| x | y | z |\n|---|---:|---|\n| {a} | {b} | {a} {b} |\n\nafter\n");
        let word = |text: &str| if text.is_empty() { "" } else { "word" };
        let (a, b) = (cell(&text), cell(&other));
        prop_assert_eq!(skeleton(&table(&a, &b)), skeleton(&table(word(&a), word(&b))), "{:?} {:?}", a, b);
    }

    /// Nothing is lost: who reads the page reads what was written. Backticks that pair become code, and two spans in a row
    /// get a space between them.
    #[test]
    fn a_text_is_read_as_it_was_written(text in hostile()) {
        let squeeze = |s: &str| s.chars().filter(|c| !matches!(c, '`' | ' ')).collect::<String>();
        let meant = inline(&text.replace('`', "'"));
        prop_assert_eq!(squeeze(&visible(&format!("a {meant}"))), squeeze(&format!("a {}", plain(&text.replace('`', "'")))));
    }
}

/// Replaces everything that somebody wrote freely.
fn say(told: &Told, words: &str) -> Told {
    let mut told = told.clone();
    let name = words.to_owned();
    told.map(|entry| match entry {
        Entry::Hypothesis(h) => h.text.clone_from(&name),
        Entry::Answered(a) => (a.text, a.why) = (name.clone(), name.clone()),
        Entry::StopAttempted(s) => (s.words, s.reason) = (name.clone(), name.clone()),
        Entry::Asked(a) => (a.question, a.reason) = (name.clone(), name.clone()),
        Entry::PersonAsked(p) => p.question.clone_from(&name),
        Entry::Sealed(s) => s.because.clone_from(&name),
        Entry::NotPromoted(n) => (n.why, n.fallen) = (name.clone(), vec![name.clone(); 2]),
        Entry::Abandoned(a) => a.why.clone_from(&name),
        Entry::Ended(e) => e.reason.clone_from(&name),
        Entry::Created(c) => c.tool.clone_from(&name),
        Entry::Led(Led::Started { command, layers, .. }) => {
            (*command, *layers) = (vec![name.clone(); 2], vec![name.clone()]);
        }
        Entry::Led(Led::Left { ended, .. }) => ended.clone_from(&name),
        Entry::Led(Led::Refused { request, why }) => (*request, *why) = (name.clone(), name.clone()),
        Entry::Evaluated(e) => {
            e.failing = vec![name.clone(); e.failing.len()];
            e.candidate.clone_from(&name);
            e.sources.iter_mut().for_each(|s| s.path.clone_from(&name));
        }
        _ => {}
    });
    // Scenario ids, messages and what the verdict says about its machine.
    for bytes in told.artefacts.values_mut() {
        let Ok(mut verdict) = serde_json::from_slice::<serde_json::Value>(bytes) else { continue };
        if verdict.get("scenarios").is_none() {
            continue;
        }
        let word = |v: &mut serde_json::Value| *v = serde_json::Value::String(name.clone());
        for finding in verdict["findings"].as_array_mut().into_iter().flatten() {
            word(&mut finding["message"]);
            word(&mut finding["next"]);
        }
        for scenario in verdict["scenarios"].as_array_mut().into_iter().flatten() {
            word(&mut scenario["id"]);
            for finding in scenario["findings"].as_array_mut().into_iter().flatten() {
                word(&mut finding["message"]);
                word(&mut finding["defence"]);
            }
        }
        for key in ["problem", "set", "compiler"] {
            word(&mut verdict[key]);
        }
        verdict["notes"] = serde_json::json!([name, name]);
        verdict["layers"] = serde_json::json!([name]);
        verdict["device"] = serde_json::json!({"model": name, "cores": 2, "kernel": name});
        *bytes = serde_json::to_vec(&verdict).unwrap();
    }
    told
}

/// A ledger with everything in it that somebody can write.
fn wordy() -> Told {
    let mut told = Told::named("correctness_break/fires-three-candidates-carry-one-failure");
    for entry in crate::days::everything() {
        told.push(&entry);
    }
    told
}

#[test]
fn a_report_has_one_structure_whatever_was_written() {
    let told = wordy();
    let meant = markdown(&say(&told, "word").report());
    let structure = skeleton(&meant);
    let count = |what: &str| structure.lines().filter(|l| l.ends_with(what)).count();
    assert!(count("heading 1") == 1 && count("heading 2") >= 5, "{structure}");
    assert!(!structure.contains("link") && !structure.contains("html") && !structure.contains("image"));
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { cases: 60, ..ProptestConfig::default() });
    runner
        .run(&hostile(), |text| {
            // An empty text leaves its place out.
            let text = format!("word {text}");
            let shown = markdown(&say(&told, &text).report());
            prop_assert_eq!(skeleton(&shown), structure.clone(), "{}", text);
            Ok(())
        })
        .unwrap();
}

/// Wrapping begins no block either: a list of texts is a list of paragraphs.
#[test]
fn limits_of_any_length_are_items() {
    let told = Told::named("claimed_limit/silent-no-stop").at_home();
    let mut runner =
        proptest::test_runner::TestRunner::new(ProptestConfig { cases: 60, ..ProptestConfig::default() });
    runner
        .run(&prop::collection::vec(hostile(), 1..20), |texts| {
            let long = texts.join(" word ");
            let mut report = told.report();
            for limit in &mut report.limits {
                limit.text.clone_from(&format!("word {long}"));
                limit.names.clear();
            }
            report.state.reason = format!("word {long}");
            let shown = skeleton(&markdown(&report));
            for limit in &mut report.limits {
                limit.text = "word".to_owned();
            }
            report.state.reason = "word".to_owned();
            prop_assert_eq!(shown, skeleton(&markdown(&report)), "{}", long);
            Ok(())
        })
        .unwrap();
}
