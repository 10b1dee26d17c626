//! What an evaluation says: words, stages, scenario verdicts, and how they add up. Pure.

use crate::finding::{Finding, Severity};
use serde::{Deserialize, Serialize};

/// Version of the verdict's JSON form. Readers refuse a larger major.
pub const FORMAT: u32 = 1;

/// The verdict's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Word {
    /// Everything asked for was shown.
    Pass,
    /// Correct, but an interval is wider than its margin.
    Unresolved,
    /// An anomaly is not cleared.
    Unproven,
    /// Something is wrong, with evidence.
    Fail,
    /// Sources, problem, toolchain or device changed since.
    Stale,
}

impl Word {
    /// The word as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Unresolved => "UNRESOLVED",
            Self::Unproven => "UNPROVEN",
            Self::Fail => "FAIL",
            Self::Stale => "STALE",
        }
    }
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The gates of an evaluation, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The candidate was built.
    Built,
    /// Its binary keeps the constraints.
    Allowed,
    /// Its outputs are right.
    Correct,
    /// It was timed against its partner.
    Timed,
    /// Its times are possible and its anomalies cleared.
    Plausible,
}

impl Stage {
    /// The stage as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::Allowed => "allowed",
            Self::Correct => "correct",
            Self::Timed => "timed",
            Self::Plausible => "plausible",
        }
    }
}

/// JSON has no infinity and no NaN: both are written as null. Where a number must be, null reads as NaN, which no
/// comparison is true of.
fn nan_for_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// The same for a ratio of an error to its bound, which is infinite when an output is not a number where it should be.
fn infinity_for_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::INFINITY))
}

/// Seed time over candidate time with its interval: above 1 is faster than the seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Median of paired ratios.
    #[serde(deserialize_with = "nan_for_null")]
    pub point: f64,
    /// Lower end.
    #[serde(deserialize_with = "nan_for_null")]
    pub lo: f64,
    /// Upper end.
    #[serde(deserialize_with = "nan_for_null")]
    pub hi: f64,
    /// Worker instances of each side.
    pub instances: usize,
    /// Pairs.
    pub pairs: usize,
    /// How alike the evaluation's scenarios deviate from instance to instance: the correlation between the estimates of two
    /// of them, from 0 to 1, the same for all. `None` where it was not estimated; then they count as independent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
}

impl Ratio {
    /// Half of the interval's width relative to the point.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.hi - self.lo) / (2.0 * self.point)
    }
    /// What the interval says.
    #[must_use]
    pub fn standing(&self, margin: f64) -> Standing {
        if self.lo > 1.0 {
            Standing::Faster
        } else if self.hi < 1.0 {
            Standing::Slower
        } else if self.half_width() <= margin {
            Standing::Tie
        } else {
            Standing::Unresolved
        }
    }
}

/// Which side of 1 an interval lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Wholly above 1.
    Faster,
    /// Contains 1 and is narrow.
    Tie,
    /// Wholly below 1.
    Slower,
    /// Contains 1 and is wide.
    Unresolved,
}

/// The largest error seen in a scenario, next to what was allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorstError {
    /// Output tensor.
    pub tensor: String,
    /// Rule that came closest to its bound (`max`, `rms`, `class large`, …).
    pub rule: String,
    /// Error divided by bound; above 1 fails.
    #[serde(deserialize_with = "infinity_for_null")]
    pub ratio: f64,
}

/// Verdict on one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioVerdict {
    /// Scenario id; held-out scenarios have none to show.
    pub id: String,
    /// Word.
    pub word: Word,
    /// Last stage that was passed.
    pub passed: Stage,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
    /// Ratio to the seed.
    pub ratio: Option<Ratio>,
    /// What the ratio's interval says.
    pub standing: Option<Standing>,
    /// Median time of one seed call, nanoseconds.
    pub seed_ns: Option<f64>,
    /// Median time of one candidate call, nanoseconds.
    pub candidate_ns: Option<f64>,
    /// Least possible time of one call, nanoseconds; `None` without a cost model.
    pub floor_ns: Option<f64>,
    /// Closest approach to a bound.
    pub worst_error: Option<WorstError>,
    /// Contents whose outputs were compared.
    pub contents: usize,
    /// Contents compared with the reference.
    pub referenced: usize,
    /// First request of a fresh worker, nanoseconds for each call.
    pub first_call_ns: Option<f64>,
    /// Time of `prepare`, nanoseconds.
    pub prepare_ns: Option<f64>,
    /// The candidate declined the scenario and the seed runs it.
    pub fallback: bool,
    /// A suspicious win was audited and found clean.
    pub audited: bool,
    /// Where the time of a call goes, for calls on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuSplit>,
}

/// Where the time of one call goes on a GPU: medians, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GpuTimes {
    /// The device works on the call.
    pub device_ns: f64,
    /// The device waits between one call and the next, although both have been enqueued.
    pub idle_ns: f64,
    /// The host makes the call: until it returns. Beside the device's time where calls are enqueued ahead, before it where
    /// they are not.
    pub host_ns: f64,
}

/// [`GpuTimes`] of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GpuSplit {
    /// The seed's.
    pub seed: GpuTimes,
    /// The candidate's.
    pub candidate: GpuTimes,
}

/// Word that findings amount to.
#[must_use]
pub fn word_of(findings: &[Finding]) -> Word {
    match findings.iter().map(|f| f.severity).max() {
        Some(Severity::Fail) => Word::Fail,
        Some(Severity::Unproven) => Word::Unproven,
        _ => Word::Pass,
    }
}

/// Word of an evaluation: the worst of its findings and of its scenarios.
#[must_use]
pub fn word_of_all(findings: &[Finding], scenarios: &[ScenarioVerdict]) -> Word {
    scenarios.iter().map(|s| s.word).chain([word_of(findings)]).max().unwrap_or(Word::Pass)
}

/// Geometric mean of ratios. Its interval combines the scenarios' half-widths on the logarithm, and regards what their instances
/// have in common ([`Ratio::correlation`]).
#[must_use]
pub fn geomean(ratios: &[Ratio]) -> Option<Ratio> {
    if ratios.is_empty() || ratios.iter().any(|r| !(r.point > 0.0 && r.lo > 0.0 && r.hi.is_finite())) {
        return None;
    }
    let mean = ratios.iter().map(|r| r.point.ln()).sum::<f64>() / ratios.len() as f64;
    // A ledger may say anything: what is no correlation is the worst one.
    let alike = |r: &Ratio| r.correlation.map_or(0.0, |c| if c.is_nan() { 1.0 } else { c.clamp(0.0, 1.0) });
    let spread =
        |side: &dyn Fn(&Ratio) -> f64| half_width_of_mean(ratios.iter().map(|r| (side(r), alike(r))));
    let down = spread(&|r| r.point.ln() - r.lo.ln());
    let up = spread(&|r| r.hi.ln() - r.point.ln());
    Some(Ratio {
        point: mean.exp(),
        lo: (mean - down).exp(),
        hi: (mean + up).exp(),
        instances: ratios.iter().map(|r| r.instances).min().unwrap_or(0),
        pairs: ratios.iter().map(|r| r.pairs).sum(),
        correlation: None,
    })
}

/// Half-width of the mean of estimates, each given as its half-width and its correlation to the others.
#[must_use]
pub fn half_width_of_mean(estimates: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut own, mut shared, mut n) = (0.0, 0.0, 0.0);
    for (half, correlation) in estimates {
        own += (1.0 - correlation) * half * half;
        shared += correlation.sqrt() * half;
        n += 1.0;
    }
    if n > 0.0 { f64::hypot(f64::sqrt(own), shared) / n } else { 0.0 }
}

/// How much of the trust model holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Both sandbox layers hold.
    Full,
    /// A layer is missing: good for tuning, not for a goal that asks for full trust.
    Reduced,
}

/// Result of the held-out scenarios: a class and counts, never the cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Cases drawn.
    pub drawn: usize,
    /// Cases that passed.
    pub passed: usize,
    /// Defence ids of the misses with their counts.
    pub misses: Vec<(String, usize)>,
    /// Geometric mean over the held-out cases.
    pub geomean: Option<Ratio>,
    /// Geomean of the scenarios that they were drawn from over that of the held-out ones, minus 1.
    pub gap: Option<f64>,
}

/// What a campaign needs of a verdict. It is read from the verdict's own JSON, whatever target made it: fields that are
/// not named here are left where they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// Version of the verdict's form.
    pub format: u32,
    /// Word.
    pub word: Word,
    /// Last stage that every scenario passed.
    pub passed: Stage,
    /// Problem hash.
    pub problem_hash: String,
    /// Candidate hash; empty if it could not be built.
    pub candidate_hash: String,
    /// Seed hash.
    pub seed_hash: String,
    /// Tier: `quick`, `default`, `full`.
    pub tier: String,
    /// Mode.
    pub mode: String,
    /// Mode, and the column where it is not the one that counts; the mode alone where this is not told.
    #[serde(default)]
    pub timed: Option<String>,
    /// How much of the trust model held.
    pub trust: Trust,
    /// Findings about the candidate as a whole.
    pub findings: Vec<Finding>,
    /// Verdict on each scenario.
    pub scenarios: Vec<ScenarioVerdict>,
    /// Geometric mean of the ratios.
    pub geomean: Option<Ratio>,
    /// Standard deviation of the seed against itself between instances.
    #[serde(deserialize_with = "nan_for_null")]
    pub aa_spread: f64,
    /// Held-out scenarios.
    pub held_out: Option<HeldOut>,
}

/// How a goal's times are taken.
const USUAL: &str = "cold";

impl Digest {
    /// The evidence that a goal is judged from.
    #[must_use]
    pub fn evidence<'a>(
        &'a self,
        baselines: &'a std::collections::BTreeMap<String, std::collections::BTreeMap<String, Ratio>>,
    ) -> crate::goal::Evidence<'a> {
        crate::goal::Evidence {
            full: self.tier == "full",
            usual: self.timed.as_deref().unwrap_or(&self.mode) == USUAL,
            word: self.word,
            passed: self.passed,
            trust: self.trust,
            findings: &self.findings,
            scenarios: &self.scenarios,
            held_out: self.held_out.as_ref(),
            baselines,
        }
    }

    /// The verdict on a scenario.
    #[must_use]
    pub fn scenario(&self, id: &str) -> Option<&ScenarioVerdict> {
        self.scenarios.iter().find(|s| s.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(point: f64, half: f64) -> Ratio {
        Ratio {
            point,
            lo: point * (1.0 - half),
            hi: point * (1.0 + half),
            instances: 3,
            pairs: 9,
            correlation: None,
        }
    }

    #[test]
    fn standing_follows_the_interval() {
        for (r, expected) in [
            (ratio(1.2, 0.01), Standing::Faster),
            (ratio(0.9, 0.01), Standing::Slower),
            (ratio(1.0, 0.01), Standing::Tie),
            (ratio(1.1, 0.2), Standing::Unresolved),
        ] {
            assert_eq!(r.standing(0.02), expected);
        }
    }

    #[test]
    fn the_worst_word_wins() {
        let f = |severity| Finding::new("x.y", severity, "m");
        assert_eq!(word_of(&[]), Word::Pass);
        assert_eq!(word_of(&[f(Severity::Warning)]), Word::Pass);
        assert_eq!(word_of(&[f(Severity::Unproven), f(Severity::Note)]), Word::Unproven);
        assert_eq!(word_of(&[f(Severity::Unproven), f(Severity::Fail)]), Word::Fail);
        assert!(
            Word::Fail > Word::Unproven && Word::Unproven > Word::Unresolved && Word::Unresolved > Word::Pass
        );
    }

    #[test]
    fn what_json_cannot_say_comes_back_as_what_it_was() {
        let worst = WorstError { tensor: "y".into(), rule: "max".into(), ratio: f64::INFINITY };
        let text = serde_json::to_string(&worst).unwrap();
        assert!(text.contains("null"));
        assert_eq!(serde_json::from_str::<WorstError>(&text).unwrap(), worst);
        let none = Ratio {
            point: f64::NAN,
            lo: f64::NAN,
            hi: f64::INFINITY,
            instances: 1,
            pairs: 1,
            correlation: None,
        };
        let back: Ratio = serde_json::from_str(&serde_json::to_string(&none).unwrap()).unwrap();
        assert!(back.point.is_nan() && back.hi.is_nan());
    }

    #[test]
    fn what_scenarios_have_in_common_widens_their_mean() {
        let of = |correlation: Option<f64>| {
            let ratios = [1.0, 1.1, 0.9, 1.2].map(|point| Ratio { correlation, ..ratio(point, 0.01) });
            geomean(&ratios).unwrap().half_width()
        };
        let alone = ratio(1.0, 0.01).half_width();
        assert!((of(None) - alone / 2.0).abs() < 1e-5);
        assert_eq!(of(None), of(Some(0.0)));
        assert!((of(Some(1.0)) - alone).abs() < 1e-5);
        assert!((of(Some(0.25)) - alone * (0.75f64 / 4.0 + 0.25).sqrt()).abs() < 1e-5);
        // A ledger may say anything.
        assert_eq!((of(Some(7.0)), of(Some(f64::NAN))), (of(Some(1.0)), of(Some(1.0))));
        // Older verdicts have no word on it, and a word is kept.
        let old: Ratio =
            serde_json::from_str(r#"{"point":1.0,"lo":0.9,"hi":1.1,"instances":3,"pairs":9}"#).unwrap();
        assert_eq!(old.correlation, None);
        assert!(!serde_json::to_string(&old).unwrap().contains("correlation"));
        let said = Ratio { correlation: Some(0.5), ..old };
        assert_eq!(serde_json::from_str::<Ratio>(&serde_json::to_string(&said).unwrap()).unwrap(), said);
    }

    #[test]
    fn geomean_is_a_mean_of_logarithms() {
        let mean = geomean(&[ratio(2.0, 0.01), ratio(0.5, 0.01)]).unwrap();
        assert!((mean.point - 1.0).abs() < 1e-12);
        assert!(mean.half_width() < 0.01, "independent errors average out");
        assert!(geomean(&[]).is_none());
        assert!(geomean(&[ratio(0.0, 0.0)]).is_none());
    }
}
