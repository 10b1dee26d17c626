//! What one scripted evaluation finds.

use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::{
    Digest, HeldOut, Ratio, ScenarioVerdict, Stage, Trust, Word, WorstError, geomean, word_of_all,
};
use kernelseek_ledger::artefact;

/// The sealed grid: id, and time of one call of the seed in nanoseconds.
pub(crate) const GRID: [(&str, f64); 4] =
    [("short", 2_000.0), ("odd", 9_000.0), ("square", 40_000.0), ("long", 800_000.0)];
/// Floor over the seed's time.
const FLOOR: f64 = 0.1;

/// An evaluation of one version. What is not said is ordinary: default tier, the whole grid, everything passes.
#[derive(Debug, Clone)]
pub(crate) struct Shot {
    pub(crate) version: String,
    pub(crate) tier: &'static str,
    pub(crate) digest: Digest,
}

/// Rounded, so that no file depends on the last bit of a logarithm.
fn round(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

fn scenario(id: &str, seed_ns: f64, point: f64) -> ScenarioVerdict {
    ScenarioVerdict {
        id: id.to_owned(),
        word: Word::Pass,
        passed: Stage::Plausible,
        findings: Vec::new(),
        ratio: Some(interval(point, 0.01)),
        standing: None,
        seed_ns: Some(seed_ns),
        candidate_ns: Some(round(seed_ns / point)),
        floor_ns: Some(seed_ns * FLOOR),
        worst_error: Some(WorstError { tensor: "y".to_owned(), rule: "max".to_owned(), ratio: 0.25 }),
        contents: 9,
        referenced: 4,
        first_call_ns: Some(2.0 * seed_ns),
        prepare_ns: None,
        fallback: false,
        audited: false,
        gpu: None,
    }
}

fn interval(point: f64, half: f64) -> Ratio {
    Ratio {
        point: round(point),
        lo: round(point * (1.0 - half)),
        hi: round(point * (1.0 + half)),
        instances: 3,
        pairs: 12,
        correlation: None,
    }
}

/// The candidate hash of a version.
pub(crate) fn hash_of(version: &str) -> String {
    artefact::hash(format!("candidate {version}").as_bytes())
}

/// The source of a version.
pub(crate) fn source_of(version: &str) -> String {
    format!("/* version {version} */\n")
}

impl Shot {
    /// The version with these ratios, in the order of the grid.
    pub(crate) fn of(version: &str, ratios: [f64; 4]) -> Self {
        let scenarios = GRID.iter().zip(ratios).map(|((id, ns), point)| scenario(id, *ns, point)).collect();
        let digest = Digest {
            format: 1,
            word: Word::Pass,
            passed: Stage::Plausible,
            problem_hash: artefact::hash(b"problem"),
            candidate_hash: hash_of(version),
            seed_hash: hash_of("seed"),
            tier: "default".to_owned(),
            mode: "cold".to_owned(),
            timed: None,
            trust: Trust::Full,
            findings: Vec::new(),
            scenarios,
            geomean: None,
            aa_spread: 0.005,
            held_out: None,
        };
        Self { version: version.to_owned(), tier: "default", digest }.added_up()
    }

    /// The version with one ratio everywhere.
    pub(crate) fn even(version: &str, ratio: f64) -> Self {
        Self::of(version, [ratio; 4])
    }

    /// A version that does not compile.
    pub(crate) fn unbuilt(version: &str) -> Self {
        let mut shot = Self::even(version, 1.0);
        shot.digest.scenarios.clear();
        shot.digest.candidate_hash.clear();
        shot.digest.passed = Stage::Built;
        shot.digest.findings =
            vec![Finding::new("built.compiler", Severity::Fail, "the compiler refused it")];
        shot.added_up()
    }

    /// Word and mean follow from the scenarios, as in every verdict.
    fn added_up(mut self) -> Self {
        let digest = &mut self.digest;
        digest.tier = self.tier.to_owned();
        digest.word = word_of_all(&digest.findings, &digest.scenarios);
        if let Some(passed) = digest.scenarios.iter().map(|s| s.passed).min() {
            digest.passed = passed;
        }
        let ratios: Vec<Ratio> = digest.scenarios.iter().filter_map(|s| s.ratio).collect();
        digest.geomean =
            geomean(&ratios).map(|g| Ratio { point: round(g.point), lo: round(g.lo), hi: round(g.hi), ..g });
        self
    }

    /// Changes the digest, then adds it up.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Digest)) -> Self {
        change(&mut self.digest);
        self.added_up()
    }

    fn at(self, id: &str, change: impl FnOnce(&mut ScenarioVerdict)) -> Self {
        self.with(|d| change(d.scenarios.iter_mut().find(|s| s.id == id).expect("a scenario of the grid")))
    }

    pub(crate) fn full(mut self) -> Self {
        self.tier = "full";
        self.with(|d| {
            d.held_out = Some(HeldOut {
                drawn: 2,
                passed: 2,
                misses: Vec::new(),
                geomean: d.geomean,
                gap: Some(0.01),
            });
        })
    }

    /// Only this scenario, as `--only` does it.
    pub(crate) fn only(self, id: &str) -> Self {
        self.with(|d| d.scenarios.retain(|s| s.id == id))
    }

    /// A quick one, of one scenario.
    pub(crate) fn quick(mut self, id: &str) -> Self {
        self.tier = "quick";
        self.only(id)
    }

    /// Outputs are wrong in a scenario.
    pub(crate) fn fails(self, id: &str) -> Self {
        self.at(id, |s| {
            s.word = Word::Fail;
            s.passed = Stage::Allowed;
            s.findings =
                vec![Finding::new("correct.reference", Severity::Fail, "`y` is outside its error bound")];
            (s.ratio, s.candidate_ns, s.first_call_ns) = (None, None, None);
            s.worst_error = Some(WorstError { tensor: "y".to_owned(), rule: "max".to_owned(), ratio: 40.0 });
        })
    }

    /// A finding that is not cleared.
    pub(crate) fn unproven(self, id: &str, defence: &str) -> Self {
        self.at(id, |s| {
            s.word = Word::Unproven;
            s.passed = Stage::Correct;
            s.findings = vec![Finding::new(defence, Severity::Unproven, "an anomaly is not cleared")];
        })
    }

    /// Half of the interval's width in every scenario, relative to the point.
    pub(crate) fn width(self, half: f64) -> Self {
        self.with(|d| {
            for s in &mut d.scenarios {
                s.ratio = s.ratio.map(|r| interval(r.point, half));
            }
        })
    }

    /// The same in one scenario.
    pub(crate) fn width_at(self, id: &str, half: f64) -> Self {
        self.at(id, |s| s.ratio = s.ratio.map(|r| interval(r.point, half)))
    }

    /// The time of a scenario as a share of its floor.
    pub(crate) fn over_floor(self, id: &str, times: f64) -> Self {
        self.at(id, |s| s.candidate_ns = s.floor_ns.map(|f| round(f * times)))
    }

    /// The seed runs a scenario.
    pub(crate) fn falls_back(self, id: &str) -> Self {
        self.at(id, |s| {
            s.fallback = true;
            (s.ratio, s.candidate_ns) = (None, None);
        })
    }

    pub(crate) fn reduced(self) -> Self {
        self.with(|d| d.trust = Trust::Reduced)
    }

    /// Every scenario was audited and found clean.
    pub(crate) fn audited(self) -> Self {
        self.with(|d| {
            for s in &mut d.scenarios {
                s.audited = true;
                s.findings =
                    vec![Finding::new("audit.clean", Severity::Note, "a win was audited and stands")];
            }
        })
    }
}
