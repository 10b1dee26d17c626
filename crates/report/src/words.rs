//! Wording that the report and the terminal's views share.

use kernelseek_campaign::{StopDecision, StopRule};
use kernelseek_core::goal::ClauseJudgement;
use kernelseek_core::verdict::{Ratio, Word};
use kernelseek_ledger::entry::Purpose;

/// Heights of a bar, lowest first.
pub const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// `2.840× [2.801, 2.880]`.
#[must_use]
pub fn interval(r: &Ratio) -> String {
    format!("{:.3}× [{:.3}, {:.3}]", r.point, r.lo, r.hi)
}

/// The same, or that there is none.
#[must_use]
pub fn ratio(r: Option<&Ratio>) -> String {
    r.map_or_else(|| "no ratio".to_owned(), interval)
}

/// `1 row`, `2 rows`.
#[must_use]
pub fn count(n: u64, what: &str) -> String {
    kernelseek_core::wording::counted(usize::try_from(n).unwrap_or(usize::MAX), what)
}

/// A number of nanoseconds with its unit.
#[must_use]
pub fn time(ns: f64) -> String {
    match ns {
        ns if !ns.is_finite() => "-".to_owned(),
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e5 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// An error over its bound, which is infinite where an output is not a number.
#[must_use]
pub fn over_bound(x: f64) -> String {
    match x {
        x if !x.is_finite() => "∞".to_owned(),
        x if x >= 1000.0 => format!("{x:.1e}"),
        x => format!("{x:.2}"),
    }
}

/// A duration in its two largest units: `1 min 14 s`.
#[must_use]
pub fn lasted(ms: i64) -> String {
    let s = ms.max(0) / 1000;
    match s {
        ..=119 => format!("{s} s"),
        120..=7199 => format!("{} min {:02} s", s / 60, s % 60),
        7200..=172_799 => format!("{} h {:02} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {:02} h", s / 86_400, s / 3600 % 24),
    }
}

/// A moment, milliseconds since 1970, as `2026-01-31 23:59 UTC`.
#[must_use]
pub fn date(ms: i64) -> String {
    let minutes = ms.div_euclid(60_000);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    // Years that begin in March, in eras of 400: the leap day is the last of a year.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (date, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

/// What an evaluation was for, as a part of a sentence; nothing for an attempt.
#[must_use]
pub const fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Attempt => "",
        Purpose::Confirm => "confirming",
        Purpose::Remeasure => "measuring the fallen again",
        Purpose::Final => "the supervisor's own",
    }
}

/// A stop decision in one word.
#[must_use]
pub const fn state(decision: &StopDecision) -> &'static str {
    match decision.rule {
        _ if decision.met => "MET",
        StopRule::Ended | StopRule::Budget => "OVER",
        StopRule::Unmet => "UNMET",
        _ => "OPEN",
    }
}

/// Whether a verdict's ratios count: nothing is wrong and nothing is open about it.
#[must_use]
pub const fn counts(word: Word) -> bool {
    matches!(word, Word::Pass | Word::Unresolved)
}

/// What a clause reached, next to what it asks for.
#[must_use]
pub fn reached(clause: &ClauseJudgement) -> String {
    match (clause.reached, clause.needed) {
        (Some(r), Some(n)) if n.fract() == 0.0 && r.fract() == 0.0 && n >= 1.0 && clause.of > 1 => {
            format!("{r:.0} of {} ({n:.0} asked)", clause.of)
        }
        (Some(r), Some(n)) => format!("{r:.3} ({n:.3} asked)"),
        _ => format!("{} of {}", clause.satisfied, clause.of),
    }
}

/// The first two lines of a reason, which hold what it says and the first thing that it names.
#[must_use]
pub fn first_lines(text: &str) -> String {
    text.lines().take(2).map(|l| l.trim_start_matches(['-', ' '])).collect::<Vec<_>>().join(" ")
}

/// Layers as `name: state`; where all are enforced, their names alone.
#[must_use]
pub fn layers(layers: &[String]) -> Vec<String> {
    let enforced: Option<Vec<String>> =
        layers.iter().map(|l| l.strip_suffix(": enforced").map(str::to_owned)).collect();
    enforced.unwrap_or_else(|| layers.to_vec())
}

/// The first few of a list and how many more there are.
#[must_use]
pub fn list(items: &[String], most: usize) -> String {
    let mut text = items.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
    if items.len() > most {
        text.push_str(&format!(" and {} more", items.len() - most));
    }
    text
}

/// The last `room` aggregates in order as a line of bars on a logarithmic scale; a dot where there was none. Nothing
/// for fewer than two.
#[must_use]
pub fn course(points: &[Option<f64>], room: usize) -> Option<String> {
    let shown = &points[points.len().saturating_sub(room)..];
    let logs: Vec<f64> =
        shown.iter().flatten().filter(|p| p.is_finite() && **p > 0.0).map(|p| p.ln()).collect();
    let (low, high) = (
        logs.iter().copied().fold(f64::INFINITY, f64::min),
        logs.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    if logs.len() < 2 {
        return None;
    }
    let span = (high - low).max(1e-9);
    let bars: String = shown
        .iter()
        .map(|p| match p {
            Some(p) if p.is_finite() && *p > 0.0 => {
                let step = ((p.ln() - low) / span * 7.0).round().clamp(0.0, 7.0);
                BARS[step as usize]
            }
            _ => '·',
        })
        .collect();
    Some(format!("{:.2}× {bars} {:.2}×", low.exp(), high.exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_course_is_a_line_of_bars() {
        let points = [Some(1.0), None, Some(2.0), Some(4.0)];
        assert_eq!(course(&points, 60).unwrap(), "1.00× ▁·▅█ 4.00×");
        assert_eq!(course(&points, 2).unwrap(), "2.00× ▁█ 4.00×", "the last ones");
        assert_eq!(course(&[Some(1.0)], 60), None, "one point is no course");
        assert!(course(&[Some(1.0), Some(1.0), Some(f64::NAN)], 60).unwrap().contains("▁▁·"));
    }

    #[test]
    fn moments_are_dates() {
        for (ms, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (-1, "1969-12-31 23:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (951_868_800_000, "2000-03-01 00:00 UTC"),
            (1_767_225_600_000, "2026-01-01 00:00 UTC"),
            (1_772_323_199_999, "2026-02-28 23:59 UTC"),
            (4_107_542_340_000, "2100-02-28 23:59 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(ms), text);
        }
        // No moment that a row can hold panics.
        for ms in [i64::MIN, i64::MAX] {
            assert!(date(ms).ends_with("UTC"));
        }
    }

    #[test]
    fn layers_that_all_hold_are_names() {
        let of = |l: &[&str]| layers(&l.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["net: enforced", "pid: enforced"]), ["net", "pid"]);
        assert_eq!(of(&["net: enforced", "pid: off"]), ["net: enforced", "pid: off"]);
    }

    #[test]
    fn durations_have_two_units() {
        for (ms, text) in [
            (-5, "0 s"),
            (119_999, "119 s"),
            (125_000, "2 min 05 s"),
            (7_260_000, "2 h 01 min"),
            (180_000_000, "2 d 02 h"),
        ] {
            assert_eq!(lasted(ms), text);
        }
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!(time(12.0), "12 ns");
        assert_eq!(time(f64::NAN), "-");
        assert_eq!((over_bound(0.25), over_bound(f64::INFINITY)), ("0.25".into(), "∞".into()));
        assert_eq!(over_bound(12345.0), "1.2e4");
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!((list(&names, 3), list(&names, 1)), ("a, b, c".into(), "a and 2 more".into()));
    }
}
