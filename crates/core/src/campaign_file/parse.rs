//! Reading `campaign.toml`, with the place of everything that is wrong in it.

use super::{Budget, CampaignFile, FORMAT, Questions, Retention, Thresholds};
use crate::diagnostic::{Collector, Diagnostic, Diagnostics};
use crate::goal::{Clause, Goal, Metric};
use crate::kernel_file::flags;
use crate::problem::document::{self, Item, Table};
use std::ops::RangeInclusive;
use std::path::{Component, Path};
use std::time::Duration;

/// Longest file in bytes.
const LONGEST_FILE: usize = 1 << 20;
/// Half-width of an interval above which a missed speedup is unresolved.
const MARGIN: f64 = 0.05;

const KEYS: [&str; 11] = [
    "format",
    "name",
    "problem",
    "candidate",
    "set",
    "goal",
    "thresholds",
    "budget",
    "questions",
    "retention",
    "build",
];

/// Parses the text of a campaign file. `file` is the name to show in messages.
///
/// # Errors
/// Everything that is wrong with it, in the order of the text; if it is not TOML, only that.
pub fn parse_campaign(file: &str, text: &str) -> Result<CampaignFile, Diagnostics> {
    document::read(file, text, "campaign file", LONGEST_FILE, read)
}

fn read(root: &Table<'_>, errors: &mut Collector) -> Option<CampaignFile> {
    let item = root.require("format", errors)?;
    let format = item.int(1..=i64::MAX, errors)?;
    if format != FORMAT {
        errors.error_hint(
            &item.span,
            format!("format {format} is not known"),
            format!("this version reads format {FORMAT}"),
        );
        return None;
    }
    root.check_keys(&KEYS, errors);
    let name = name(root, errors);
    let problem = path(root, "problem", true, errors);
    let candidate = path(root, "candidate", false, errors);
    let set = root.get("set").map(|i| i.string(errors).map(str::to_owned));
    let goal = goal(root, errors);
    let thresholds = thresholds(root, errors);
    let budget = budget(root, errors);
    let questions = questions(root, errors);
    let retention = retention(root, errors);
    let candidate_flags = candidate_flags(root, errors);
    Some(CampaignFile {
        source: errors.source.clone(),
        name: name?,
        problem: problem?,
        candidate: candidate?,
        set: match set {
            Some(set) => Some(set?),
            None => None,
        },
        goal: goal?,
        thresholds: thresholds?,
        budget: budget?,
        questions: questions?,
        retention: retention?,
        candidate_flags: candidate_flags?,
    })
}

fn name(root: &Table<'_>, errors: &mut Collector) -> Option<String> {
    let item = root.require("name", errors)?;
    let name = item.string(errors)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
        errors.error_hint(
            &item.span,
            "a campaign's name is up to 64 letters, digits, `-` and `_`",
            "for example `softmax-cpu`",
        );
        return None;
    }
    Some(name.to_owned())
}

/// A relative path, which may climb out of the folder only where `climbs` says so.
fn path(root: &Table<'_>, key: &str, climbs: bool, errors: &mut Collector) -> Option<String> {
    let item = root.require(key, errors)?;
    let text = item.string(errors)?;
    let fine = !text.is_empty()
        && Path::new(text).components().all(|c| {
            matches!(c, Component::Normal(_) | Component::CurDir) || (climbs && c == Component::ParentDir)
        });
    if !fine {
        let where_to = if climbs { "a relative path" } else { "a relative path that stays in this folder" };
        errors.error_hint(&item.span, format!("`{key}` must be {where_to}"), "relative to this file");
        return None;
    }
    Some(text.to_owned())
}

/// An optional section: an empty table if it is absent.
fn section<'a>(
    root: &Table<'a>,
    key: &str,
    known: &[&str],
    errors: &mut Collector,
) -> Option<Option<Table<'a>>> {
    let Some(item) = root.get(key) else { return Some(None) };
    let table = item.table(&format!("[{key}]"), errors)?;
    table.check_keys(known, errors);
    Some(Some(table))
}

fn goal(root: &Table<'_>, errors: &mut Collector) -> Option<Goal> {
    let table = root.require("goal", errors)?.table("[goal]", errors)?;
    table.check_keys(&["clauses", "trust", "margin"], errors);
    let clauses = clauses(&table, errors);
    let accept_reduced_trust = match table.get("trust") {
        None => Some(false),
        Some(item) => match item.string(errors) {
            Some("full") => Some(false),
            Some("reduced") => Some(true),
            Some(_) => {
                errors.error_hint(&item.span, "`trust` is `full` or `reduced`", "`full` is the default");
                None
            }
            None => None,
        },
    };
    let margin = number(Some(&table), "margin", MARGIN, 0.001..=1.0, errors);
    Some(Goal { clauses: clauses?, accept_reduced_trust: accept_reduced_trust?, margin: margin? })
}

fn clauses(table: &Table<'_>, errors: &mut Collector) -> Option<Vec<Clause>> {
    let list = table.require("clauses", errors)?;
    let items = list.list(errors)?;
    if items.is_empty() {
        errors.error_hint(
            &list.span,
            "a goal without clauses is met by nothing",
            "start with `\"every scenario correct\"` and `\"every speedup >= 1.0\"`",
        );
        return None;
    }
    let mut found = Vec::new();
    for item in &items {
        let text = item.string(errors)?;
        match Clause::parse(text) {
            Ok(clause) => {
                if let Metric::Speedup { threshold, .. } = clause.metric
                    && threshold > 1000.0
                {
                    errors.error(&item.span, format!("a speedup of {threshold} cannot be meant"));
                }
                found.push(clause);
            }
            Err(error) => {
                let inner = item.inner(errors);
                let exact = errors.source.text().get(inner.clone()) == Some(text);
                let span = if exact {
                    inner.start + error.at.start..inner.start + error.at.end
                } else {
                    item.span.clone()
                };
                let diagnostic = Diagnostic::new(&errors.source, span, error.message);
                errors.push(diagnostic.with_hint_opt(error.hint));
            }
        }
    }
    (found.len() == items.len()).then_some(found)
}

fn number(
    table: Option<&Table<'_>>,
    key: &str,
    default: f64,
    range: RangeInclusive<f64>,
    errors: &mut Collector,
) -> Option<f64> {
    let Some(item) = table.and_then(|t| t.get(key)) else { return Some(default) };
    let x = item.number(errors)?;
    in_range(item, x, range, errors)
}

fn in_range(item: &Item<'_>, x: f64, range: RangeInclusive<f64>, errors: &mut Collector) -> Option<f64> {
    if range.contains(&x) {
        return Some(x);
    }
    errors.error(&item.span, format!("`{}` must be from {} to {}", item.key, range.start(), range.end()));
    None
}

fn count(
    table: Option<&Table<'_>>,
    key: &str,
    default: u64,
    range: RangeInclusive<i64>,
    errors: &mut Collector,
) -> Option<u64> {
    let Some(item) = table.and_then(|t| t.get(key)) else { return Some(default) };
    item.int(range, errors).map(i64::unsigned_abs)
}

fn limit(table: Option<&Table<'_>>, key: &str, errors: &mut Collector) -> Option<Option<u64>> {
    let Some(item) = table.and_then(|t| t.get(key)) else { return Some(None) };
    item.int(1..=1_000_000_000, errors).map(|n| Some(n.unsigned_abs()))
}

fn thresholds(root: &Table<'_>, errors: &mut Collector) -> Option<Thresholds> {
    let keys = [
        "suspicious",
        "suspicious_scenario",
        "plateau_evaluations",
        "plateau_minutes",
        "plateau_gain",
        "plateau_layer_run",
    ];
    let table = section(root, "thresholds", &keys, errors)?;
    let table = table.as_ref();
    let d = Thresholds::default();
    let suspicious = number(table, "suspicious", d.suspicious, 1.01..=100.0, errors);
    let scenario = number(table, "suspicious_scenario", d.suspicious_scenario, 1.01..=100.0, errors);
    let evaluations = count(table, "plateau_evaluations", d.plateau_evaluations, 1..=10_000, errors);
    let minutes =
        number(table, "plateau_minutes", d.plateau_time.as_secs_f64() / 60.0, 1.0..=100_000.0, errors);
    let gain = number(table, "plateau_gain", d.plateau_gain, 0.0..=1.0, errors);
    let run = count(table, "plateau_layer_run", d.plateau_layer_run, 2..=1000, errors);
    Some(Thresholds {
        suspicious: suspicious?,
        suspicious_scenario: scenario?,
        plateau_evaluations: evaluations?,
        plateau_time: Duration::from_secs_f64(60.0 * minutes?),
        plateau_gain: gain?,
        plateau_layer_run: run?,
    })
}

fn budget(root: &Table<'_>, errors: &mut Collector) -> Option<Budget> {
    let table = section(root, "budget", &["evaluations", "full_evaluations", "hours"], errors)?;
    let table = table.as_ref();
    let evaluations = limit(table, "evaluations", errors);
    let full_evaluations = limit(table, "full_evaluations", errors);
    let hours = match table.and_then(|t| t.get("hours")) {
        None => Some(None),
        Some(item) => item
            .number(errors)
            .and_then(|x| in_range(item, x, 0.01..=100_000.0, errors))
            .map(|h| Some(Duration::from_secs_f64(3600.0 * h))),
    };
    Some(Budget { evaluations: evaluations?, full_evaluations: full_evaluations?, time: hours? })
}

fn questions(root: &Table<'_>, errors: &mut Collector) -> Option<Questions> {
    let table = section(root, "questions", &["enabled", "silence", "bank"], errors)?;
    let table = table.as_ref();
    let d = Questions::default();
    let enabled = match table.and_then(|t| t.get("enabled")) {
        None => Some(d.enabled),
        Some(item) => item.bool(errors),
    };
    let silence = number(table, "silence", d.silence, 0.0..=1.0, errors);
    let bank = match table.filter(|t| t.get("bank").is_some()) {
        None => Some(None),
        Some(table) => path(table, "bank", true, errors).map(Some),
    };
    Some(Questions { enabled: enabled?, silence: silence?, bank: bank? })
}

fn retention(root: &Table<'_>, errors: &mut Collector) -> Option<Retention> {
    let table = section(root, "retention", &["raw", "builds"], errors)?;
    let table = table.as_ref();
    let d = Retention::default();
    let raw = count(table, "raw", d.raw, 1..=1_000_000_000, errors);
    let builds = count(table, "builds", d.builds, 1..=1_000_000_000, errors);
    Some(Retention { raw: raw?, builds: builds? })
}

fn candidate_flags(root: &Table<'_>, errors: &mut Collector) -> Option<Option<Vec<String>>> {
    let Some(table) = section(root, "build", &["flags"], errors)? else { return Some(None) };
    flags::allowed(table.require("flags", errors)?, errors).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: &str = "format = 1\nname = \"a-1\"\nproblem = \"problem\"\ncandidate = \"kernel.c\"\n[goal]\n\
                         clauses = [\"every scenario correct\", \"every speedup >= 1.0\"]\n";

    #[test]
    fn what_is_left_out_has_defaults() {
        let c = parse_campaign("campaign.toml", SMALL).unwrap();
        assert_eq!(
            (c.name.as_str(), c.problem.as_str(), c.candidate.as_str()),
            ("a-1", "problem", "kernel.c")
        );
        assert_eq!(c.goal.clauses.len(), 2);
        assert!(!c.goal.accept_reduced_trust && c.goal.warnings().is_empty());
        assert_eq!((c.thresholds, c.budget), (Thresholds::default(), Budget::default()));
        assert_eq!((c.questions, c.retention), (Questions::default(), Retention::default()));
    }

    #[test]
    fn everything_can_be_said() {
        let text = format!(
            "set = \"big\"\n{SMALL}trust = \"reduced\"\nmargin = 0.02\n[thresholds]\nsuspicious = 2\n\
             suspicious_scenario = 3.0\nplateau_evaluations = 5\nplateau_minutes = 30\nplateau_gain = 0.01\n\
             plateau_layer_run = 3\n[budget]\nevaluations = 100\nfull_evaluations = 7\nhours = 1.5\n[questions]\n\
             enabled = false\nsilence = 0\nbank = \"questions\"\n[retention]\nraw = 10\nbuilds = 5\n"
        );
        let c = parse_campaign("campaign.toml", &text).unwrap();
        assert_eq!(c.set.as_deref(), Some("big"));
        assert!(c.goal.accept_reduced_trust);
        assert_eq!(c.thresholds.suspicious, 2.0);
        assert_eq!(c.thresholds.plateau_time, Duration::from_secs(1800));
        assert_eq!(c.budget.time, Some(Duration::from_secs(5400)));
        assert_eq!(c.questions, Questions { enabled: false, silence: 0.0, bank: Some("questions".into()) });
        assert_eq!(c.retention, Retention { raw: 10, builds: 5 });
        assert_eq!(c.candidate_flags, None);
        let flags =
            parse_campaign("c", &format!("{SMALL}[build]\nflags = [\"-O2\"]\n")).unwrap().candidate_flags;
        assert_eq!(flags, Some(vec!["-O2".to_owned()]));
    }

    #[test]
    fn what_is_wrong_is_shown_where_it_stands() {
        for (from, to, place, message) in [
            ("format = 1", "format = 2", "1:10", "format 2 is not known"),
            ("name = \"a-1\"", "name = \"a b\"", "2:8", "a campaign's name"),
            ("\"kernel.c\"", "\"/kernel.c\"", "4:13", "relative path"),
            ("candidate", "candidat", "4:1", "did you mean `candidate`?"),
            (">= 1.0", "=> 1.0", "6:53", "`>=`"),
            ("every scenario correct", "every scenario fast", "6:28", "no clause"),
            ("[goal]", "[goals]", "5:2", "did you mean `goal`?"),
        ] {
            let text = SMALL.replace(from, to);
            let shown = parse_campaign("campaign.toml", &text).unwrap_err().to_string();
            assert!(shown.contains(&format!("campaign.toml:{place}:")) && shown.contains(message), "{shown}");
        }
        let empty = SMALL.replace("[\"every scenario correct\", \"every speedup >= 1.0\"]", "[]");
        assert!(parse_campaign("c", &empty).unwrap_err().to_string().contains("met by nothing"));
        for (section, message) in [
            ("[budget]\nevaluations = 0\n", "`evaluations` must be"),
            ("[budget]\nhours = -1\n", "`hours` must be"),
            ("[questions]\nsilence = 2\n", "`silence` must be"),
            ("[thresholds]\nsuspicious = 0.5\n", "`suspicious` must be"),
            ("[retention]\nrow = 1\n", "did you mean `raw`?"),
            ("[goal.x]\n", "unknown key `x`"),
            ("[build]\n", "has no `flags`"),
            ("[build]\nflags = [\"-O2\", \"-fplugin=x.so\"]\n", "cannot be tuned"),
        ] {
            let shown = parse_campaign("c", &format!("{SMALL}{section}")).unwrap_err().to_string();
            assert!(shown.contains(message), "{section}: {shown}");
        }
    }

    proptest! {
        #[test]
        fn a_mutated_file_never_panics(at in 0usize..200, byte in any::<u8>(), cut in 0usize..200) {
            let mut bytes = SMALL.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(bytes.len().saturating_sub(cut % 60));
            let _ = parse_campaign("campaign.toml", &String::from_utf8_lossy(&bytes));
        }
    }
}
