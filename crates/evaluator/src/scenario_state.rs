//! What is known about one scenario while it is being evaluated.

use crate::blank;
use crate::outputs::Outputs;
use crate::settings::Column;
use crate::staging::{Drawn, StorageKinds};
use crate::work::Work;
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::WorstError;
use kernelseek_numerics::content::{Content, Distribution};
use kernelseek_numerics::judge::Yardstick;
use kernelseek_numerics::stats::{self, Leveled};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Answers that are kept of one scenario.
const MOST_ANSWERS: usize = 4096;
/// Times of one pair of requests on the same contents, nanoseconds by the supervisor's clock unless named inner.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Calls in each request.
    pub n: u32,
    /// The seed's request.
    pub seed_ns: f64,
    /// The candidate's request.
    pub candidate_ns: f64,
    /// Sum of the seed's calls by its worker's clock.
    pub seed_inner_ns: f64,
    /// Sum of the candidate's calls by its worker's clock.
    pub candidate_inner_ns: f64,
    /// How long the candidate's worker was runnable without running: somebody else's doing.
    #[serde(default)]
    pub candidate_waited_ns: f64,
    /// Whether the seed went first.
    pub seed_first: bool,
    /// What else a GPU tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuPair>,
}

/// What a GPU tells about one request.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct GpuSide {
    /// From the opening of the gate until the whole device was idle, by the supervisor's clock, nanoseconds.
    pub wall_ns: f64,
    /// From the opening of the gate until the call's stream was through, by the supervisor's clock, nanoseconds.
    pub stream_ns: f64,
    /// From before the first call to after the last, by the device's clock, nanoseconds.
    pub span_ns: f64,
    /// The calls alone, without what lies between them, by the device's clock, nanoseconds.
    #[serde(default)]
    pub device_ns: f64,
    /// What the host took to make the calls, nanoseconds, by the worker's clock.
    pub host_ns: f64,
    /// Clock of the multiprocessors right after the request, MHz; 0 where it was not taken.
    pub sm_mhz: f64,
}

/// What a GPU tells about a pair.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct GpuPair {
    /// The seed's request.
    pub seed: GpuSide,
    /// The candidate's.
    pub candidate: GpuSide,
}

impl GpuPair {
    /// Whether both requests were held at a gate on their stream.
    #[must_use]
    pub fn held(&self) -> bool {
        self.seed.stream_ns > 0.0 && self.candidate.stream_ns > 0.0
    }
}

/// What one worker instance of each side contributed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Instance {
    /// Its pairs, warm-up excluded.
    pub pairs: Vec<Pair>,
    /// First request of the seed's fresh worker, nanoseconds a call.
    pub seed_first_ns: f64,
    /// First request of the candidate's fresh worker, nanoseconds a call.
    pub candidate_first_ns: f64,
    /// `prepare` of the candidate, nanoseconds.
    pub prepare_ns: Option<f64>,
    /// Whether the sides had each other's places in device memory: those of the instance before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub swapped: bool,
    /// On a GPU, where calls are timed one by one on a stream: how far apart events around a launch of nothing are in the
    /// seed's process and in the candidate's, nanoseconds, taken before anything was loaded into them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blank_ns: Option<[f64; 2]>,
}

/// A fixed content with the reference's outputs.
#[derive(Debug, Clone)]
pub struct FixedContent {
    /// The content.
    pub content: Content,
    /// The reference's outputs on it.
    pub reference: Outputs,
}

/// State of one scenario.
#[derive(Debug)]
pub struct ScenarioState {
    /// The resolved scenario.
    pub case: Case,
    /// Its storages.
    pub kinds: StorageKinds,
    /// Whether constants exist.
    pub constant: Vec<bool>,
    /// Fixed contents with cached references, drawn on fixed constants.
    pub fixed: Vec<FixedContent>,
    /// Error yardstick of each output tensor and distribution.
    pub yardsticks: BTreeMap<(usize, Distribution), Yardstick>,
    /// Instances measured so far.
    pub instances: Vec<Instance>,
    /// Findings so far.
    pub findings: Vec<Finding>,
    /// Closest approach to a bound.
    pub worst: Option<WorstError>,
    /// Contents compared.
    pub contents: usize,
    /// Contents compared with the reference.
    pub referenced: usize,
    /// Mismatches with the partner that the reference still has to settle, beyond the arbitration budget.
    pub unsettled: usize,
    /// Arbitrations done.
    pub arbitrated: usize,
    /// Calls answered `KS_OK` and `KS_UNSUPPORTED`.
    pub answered: usize,
    /// Calls that the candidate declined.
    pub declined: usize,
    /// First output seen for each fixed content, for problems that ask for bit-equal repeats.
    pub repeats: BTreeMap<u64, Outputs>,
    /// First content on which each output was seen, by tensor and hash of its bytes.
    pub answers: BTreeMap<(usize, [u8; 32]), Drawn>,
    /// Processor time used without a request, and how long the probe ran, in seconds.
    pub idle: (f64, f64),
    /// Distributions whose yardstick was widened.
    pub widened: BTreeSet<Distribution>,
    /// Audited and found clean.
    pub audited: bool,
    /// Index of the next secret content.
    pub next_content: u64,
    /// Instances, pairs and calls.
    pub work: Work,
    /// One call of the seed, nanoseconds, as the fixed contents showed it; `None` before.
    pub seed_ns: Option<f64>,
    /// What is timed. It is `call` on both sides once either waits for the device inside a call.
    pub column: Column,
    /// Wall times of the supervisor's canary after requests.
    pub canary: Canary,
}

/// How long the supervisor's canary kernel took by the wall, nanoseconds: work that a call left on the device shares the
/// device with it by turns.
#[derive(Debug, Clone, Default)]
pub struct Canary {
    /// After the seed's requests.
    pub seed: Vec<f64>,
    /// After the candidate's.
    pub candidate: Vec<f64>,
}

impl Canary {
    /// The median after either side's requests; `None` where none was looked at.
    #[must_use]
    pub fn medians(&self) -> Option<[f64; 2]> {
        Some([stats::median(&self.seed)?, stats::median(&self.candidate)?])
    }
}

impl ScenarioState {
    /// Nothing measured yet, and nothing to be timed.
    #[must_use]
    pub fn new(case: Case) -> Self {
        let kinds = StorageKinds::of(&case);
        let constant = kernelseek_device::layout::ArenaLayout::new(&case, 1).constant;
        Self {
            case,
            kinds,
            constant,
            fixed: Vec::new(),
            yardsticks: BTreeMap::new(),
            instances: Vec::new(),
            findings: Vec::new(),
            worst: None,
            contents: 0,
            referenced: 0,
            unsettled: 0,
            arbitrated: 0,
            answered: 0,
            declined: 0,
            repeats: BTreeMap::new(),
            answers: BTreeMap::new(),
            idle: (0.0, 0.0),
            widened: BTreeSet::new(),
            audited: false,
            next_content: 0,
            work: Work::NONE,
            seed_ns: None,
            column: Column::default(),
            canary: Canary::default(),
        }
    }

    /// Adds a finding; one of each defence is enough, later ones only add evidence.
    pub fn find(&mut self, finding: Finding) {
        const MOST_EVIDENCE: usize = 6;
        match self
            .findings
            .iter_mut()
            .find(|f| f.defence == finding.defence && f.severity == finding.severity)
        {
            Some(known) => {
                for evidence in finding.evidence {
                    if known.evidence.len() < MOST_EVIDENCE && !known.evidence.contains(&evidence) {
                        known.evidence.push(evidence);
                    }
                }
            }
            None => self.findings.push(finding),
        }
    }

    /// Keeps what the candidate answered, to recognise an answer that comes again where it is wrong. `digests` are those of
    /// the outputs, if they are known.
    pub fn remember(&mut self, ours: &Outputs, digests: Option<&[[u8; 32]]>, drawn: Drawn) {
        for (index, data) in ours.tensors.iter().enumerate() {
            if self.answers.len() < MOST_ANSWERS && !data.is_empty() {
                let digest = digests.and_then(|d| d.get(index).copied()).unwrap_or_else(|| data.digest());
                self.answers.entry((index, digest)).or_insert(drawn);
            }
        }
    }

    /// Whether this output is, bit for bit, what was answered before to another content.
    #[must_use]
    pub fn answered_before(&self, index: usize, ours: &Outputs, drawn: Drawn) -> bool {
        let Some(data) = ours.tensors.get(index).filter(|d| d.is_telling(self.element(index))) else {
            return false;
        };
        self.answers.get(&(index, data.digest())).is_some_and(|first| *first != drawn)
    }

    fn element(&self, index: usize) -> usize {
        self.case.tensors.get(index).map_or(1, |t| t.dtype.size().max(1))
    }

    /// Whether a failure makes further measurement pointless.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Fail)
    }

    /// Notes how close an output came to its bound.
    pub fn note_worst(&mut self, tensor: &str, rule: &str, ratio: f64) {
        if self.worst.as_ref().is_none_or(|w| ratio > w.ratio || ratio.is_nan()) {
            self.worst = Some(WorstError { tensor: tensor.to_owned(), rule: rule.to_owned(), ratio });
        }
    }

    /// Median time of one call of each side over all pairs, nanoseconds, overhead of the request removed.
    #[must_use]
    pub fn per_call(&self, side: impl Fn(&Pair) -> f64) -> Option<f64> {
        let overhead = self.overhead_ns();
        let times: Vec<f64> = self
            .instances
            .iter()
            .flat_map(|i| &i.pairs)
            .map(|p| (side(p) - overhead).max(0.0) / f64::from(p.n.max(1)))
            .collect();
        kernelseek_numerics::stats::median(&times)
    }

    /// Fixed cost of a request by the supervisor's clock: what the seed's requests take beyond the sum of their
    /// calls. The seed's worker is trusted, so its clock may be believed here, and the same cost is taken off both
    /// sides: a candidate cannot change it.
    #[must_use]
    pub fn overhead_ns(&self) -> f64 {
        let extra: Vec<f64> = self
            .instances
            .iter()
            .flat_map(|i| &i.pairs)
            .map(|p| (p.seed_ns - p.seed_inner_ns).max(0.0))
            .collect();
        kernelseek_numerics::stats::median(&extra).unwrap_or(0.0)
    }

    /// Logarithms of seed time over candidate time, instance by instance.
    #[must_use]
    pub fn log_ratios(&self) -> Vec<Vec<f64>> {
        self.ratios_and_places().0
    }

    /// [`Self::log_ratios`] without what the places of the two sides make of them, where there are `least` instances.
    #[must_use]
    pub fn leveled(&self, least: usize) -> Leveled {
        let (ratios, swapped) = self.ratios_and_places();
        stats::level(ratios, &swapped, least)
    }

    /// Log-ratios of every instance that has any, and whether its places were swapped.
    fn ratios_and_places(&self) -> (Vec<Vec<f64>>, Vec<bool>) {
        let overhead = self.overhead_ns();
        let usual = blank::usual_ns(&self.instances);
        self.instances
            .iter()
            .map(|i| {
                let pairs: Vec<f64> =
                    i.pairs.iter().filter_map(|p| blank::log_ratio(i, p, overhead, usual)).collect();
                (pairs, i.swapped)
            })
            .filter(|(pairs, _)| !pairs.is_empty())
            .unzip()
    }
}
