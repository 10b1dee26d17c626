//! Successive halving as a state machine: it says what to measure next and is told what came of it.
//!
//! First every assignment on a few scenarios with little effort; the better half stays, and whatever noise alone keeps
//! from the best. Then the whole grid with full effort, the routes, the flags one at a time, the flags together. What is
//! chosen counts only after a measurement that chose nothing: it and the kernel as it was, side by side.

mod close;
mod probes;
mod rung;

use crate::arms::{self, Assignment};
use crate::estimate::Estimate;
use crate::known::{Feature, Spot};
use crate::outcome::Outcome;
use crate::routes::Routes;
use kernelseek_core::verdict::Ratio;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Evaluations that are kept back for the grid and the confirmation.
const KEPT_BACK: usize = 4;
/// Fewest evaluations with which anything can be shown: the defaults, an alternative, both on the grid, both again.
pub const LEAST_EVALUATIONS: usize = 6;
/// A whole evaluation takes about this many times a quick one of the same scenarios, before one was timed.
const WHOLE_OVER_QUICK: f64 = 4.0;

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Evaluations; never exceeded.
    pub evaluations: usize,
    /// Seconds; nothing is begun that would not be done by then.
    pub seconds: f64,
}

/// What is to be tuned.
#[derive(Debug, Clone, Default)]
pub struct Space {
    /// What calls know.
    pub features: Vec<Feature>,
    /// The scenarios.
    pub spots: Vec<Spot>,
    /// The assignments, the defaults first.
    pub arms: Vec<Assignment>,
    /// For each assignment the ids of the scenarios in which it may be used.
    pub permitted: Vec<BTreeSet<String>>,
    /// Flags that may be added.
    pub flags: Vec<String>,
}

/// What to build.
#[derive(Debug, Clone, PartialEq)]
pub enum Pick {
    /// The kernel as it was found.
    Home,
    /// One assignment in every scenario.
    One(usize),
    /// Routes.
    Routed(Box<Routes>),
}

/// One measurement to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// What to build.
    pub pick: Pick,
    /// Flags to add to those it has.
    pub flags: Vec<String>,
    /// Whether with the effort of a default evaluation, or of a quick one.
    pub whole: bool,
    /// The scenarios.
    pub only: Vec<String>,
    /// The rung, in words.
    pub rung: String,
    /// What is measured, in words.
    pub name: String,
}

/// What came of a trial.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Ratio to the seed by scenario; scenarios without a ratio that can be used are left out.
    pub ratios: BTreeMap<String, Ratio>,
    /// Why it fails, if it does.
    pub failed: Option<String>,
    /// Seconds it took.
    pub seconds: f64,
    /// Whether the build read a header with routes.
    pub routable: bool,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Measure, and tell.
    Try(Box<Trial>),
    /// It is over.
    Done(Box<Decision>),
}

/// How it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What was chosen and confirmed; `None`: the kernel stays as it was.
    pub chosen: Option<(Pick, Vec<String>)>,
    /// Everything that is known.
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Default)]
struct Arm {
    ratios: BTreeMap<String, Estimate>,
    /// Rung and reason.
    dropped: Option<(String, String)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Quick { rung: usize },
    Grid,
    Flags { whole: bool },
    Together,
    Confirm { round: usize },
    Done,
}

/// What a trial's result belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Arm(usize),
    /// 0 is without a flag, then the flags in order.
    Flag(usize),
    Together,
    Home,
    Chosen,
}

/// The machine.
#[derive(Debug, Clone)]
pub struct Halving {
    space: Space,
    budget: Budget,
    probes: Vec<usize>,
    phase: Phase,
    queue: VecDeque<Slot>,
    asked: Option<(Slot, Trial)>,
    arms: Vec<Arm>,
    flags: Vec<Arm>,
    together: Option<(Vec<usize>, Arm)>,
    home: Arm,
    chosen_arm: Arm,
    pick: Pick,
    added: Vec<String>,
    routable: bool,
    spent: usize,
    seconds: f64,
    /// Seconds of the last quick and whole trial, for each scenario.
    pace: (Option<f64>, Option<f64>),
    notes: Vec<String>,
    decision: Option<Decision>,
}

impl Halving {
    /// A machine that has measured nothing.
    #[must_use]
    pub fn new(mut space: Space, budget: Budget) -> Self {
        if space.arms.is_empty() {
            space.arms.push(Assignment::new());
        }
        let everywhere: BTreeSet<String> = space.spots.iter().map(|s| s.id.clone()).collect();
        space.permitted.resize(space.arms.len(), everywhere.clone());
        space.permitted[0] = everywhere;
        let mut notes = Vec::new();
        let most = (budget.evaluations.saturating_sub(KEPT_BACK) * 2 / 3).max(2);
        if space.arms.len() > most {
            notes.push(format!(
                "{most} of {} assignments are tried: the budget allows no more",
                space.arms.len()
            ));
            let all = std::mem::take(&mut space.arms);
            let permitted: BTreeMap<Assignment, BTreeSet<String>> =
                all.iter().cloned().zip(std::mem::take(&mut space.permitted)).collect();
            space.arms = arms::sample(all, most);
            space.permitted = space.arms.iter().filter_map(|a| permitted.get(a).cloned()).collect();
        }
        let probes = probes::probes(&space.spots);
        let mut this = Self {
            arms: vec![Arm::default(); space.arms.len()],
            flags: vec![Arm::default(); space.flags.len() + 1],
            queue: VecDeque::new(),
            asked: None,
            phase: Phase::Quick { rung: 1 },
            together: None,
            home: Arm::default(),
            chosen_arm: Arm::default(),
            pick: Pick::One(0),
            added: Vec::new(),
            routable: false,
            spent: 0,
            seconds: 0.0,
            pace: (None, None),
            decision: None,
            probes,
            space,
            budget,
            notes,
        };
        for (index, permitted) in this.space.permitted.iter().enumerate() {
            if permitted.is_empty() {
                this.arms[index].dropped = Some((
                    "before the first rung".to_owned(),
                    "`where` permits it in no scenario".to_owned(),
                ));
            }
        }
        this.queue =
            (0..this.arms.len()).filter(|i| this.arms[*i].dropped.is_none()).map(Slot::Arm).collect();
        this
    }

    /// What to do next. Asked again without an answer, it says the same again.
    pub fn step(&mut self) -> Step {
        if let Some((_, trial)) = &self.asked {
            return Step::Try(Box::new(trial.clone()));
        }
        if self.spent == 0 && self.budget.evaluations < LEAST_EVALUATIONS && self.decision.is_none() {
            self.end(
                None,
                format!(
                    "nothing can be shown with fewer than {LEAST_EVALUATIONS} evaluations; the budget is {}",
                    self.budget.evaluations
                ),
            );
        }
        loop {
            if let Some(decision) = &self.decision {
                return Step::Done(Box::new(decision.clone()));
            }
            match self.queue.front().copied() {
                Some(slot) => {
                    let trial = self.trial(slot);
                    if self.affords(&trial) {
                        self.queue.pop_front();
                        self.asked = Some((slot, trial.clone()));
                        return Step::Try(Box::new(trial));
                    }
                    self.cut();
                }
                None => self.close(),
            }
        }
    }

    /// Takes what came of the trial that was asked for last.
    pub fn told(&mut self, told: &Told) {
        let Some((slot, trial)) = self.asked.take() else { return };
        self.spent += 1;
        self.seconds += told.seconds.max(0.0);
        let each = told.seconds.max(0.0) / trial.only.len().max(1) as f64;
        if trial.whole {
            self.pace.1 = Some(each);
        } else {
            self.pace.0 = Some(each);
        }
        if slot == Slot::Arm(0) {
            self.routable |= told.routable;
        }
        let rung = trial.rung.clone();
        let arm = match slot {
            Slot::Arm(i) => &mut self.arms[i],
            Slot::Flag(i) => &mut self.flags[i],
            Slot::Together => match &mut self.together {
                Some((_, arm)) => arm,
                None => return,
            },
            Slot::Home => &mut self.home,
            Slot::Chosen => &mut self.chosen_arm,
        };
        if let Some(why) = &told.failed {
            arm.dropped = Some((rung, format!("fails: {why}")));
            if slot == Slot::Arm(0) {
                self.end(None, format!("the kernel with its defaults fails: {why}"));
            }
            return;
        }
        for scenario in &trial.only {
            let Some(e) = told.ratios.get(scenario).and_then(Estimate::of) else { continue };
            arm.ratios.entry(scenario.clone()).and_modify(|k| *k = k.with(&e)).or_insert(e);
        }
    }

    /// Evaluations and seconds so far.
    #[must_use]
    pub const fn spent(&self) -> (usize, f64) {
        (self.spent, self.seconds)
    }

    /// The assignments that are tried, the defaults first.
    #[must_use]
    pub fn arms(&self) -> &[Assignment] {
        &self.space.arms
    }

    /// Alternatives that are left, and how many there were.
    #[must_use]
    pub fn standing(&self) -> (usize, usize) {
        let left = self.arms.iter().skip(1).filter(|a| a.dropped.is_none()).count();
        (left, self.arms.len().saturating_sub(1))
    }

    fn ids(&self, of: &[usize]) -> Vec<String> {
        of.iter().map(|i| self.space.spots[*i].id.clone()).collect()
    }

    fn grid(&self) -> Vec<String> {
        self.space.spots.iter().map(|s| s.id.clone()).collect()
    }

    /// The probes that an arm may be used in; the first scenarios that it may be used in if it may in none of them.
    fn probes_of(&self, arm: usize) -> Vec<String> {
        let permitted = &self.space.permitted[arm];
        if arm == 0 {
            // The defaults are measured wherever anything is compared with them.
            let mut all: BTreeSet<String> = self.ids(&self.probes).into_iter().collect();
            for i in 1..self.arms.len() {
                all.extend(self.probes_of(i));
            }
            return self.grid().into_iter().filter(|s| all.contains(s)).collect();
        }
        let probes: Vec<String> =
            self.ids(&self.probes).into_iter().filter(|s| permitted.contains(s)).collect();
        if probes.is_empty() {
            return self.grid().into_iter().filter(|s| permitted.contains(s)).take(2).collect();
        }
        probes
    }

    fn trial(&self, slot: Slot) -> Trial {
        let (whole, rung) = match &self.phase {
            Phase::Quick { rung } => (false, format!("rung {rung}")),
            Phase::Grid => (true, "the grid".to_owned()),
            Phase::Flags { whole } => (*whole, if *whole { "flags again" } else { "flags" }.to_owned()),
            Phase::Together => (true, "flags together".to_owned()),
            Phase::Confirm { .. } | Phase::Done => (true, "confirmation".to_owned()),
        };
        let flag = |i: usize| i.checked_sub(1).and_then(|i| self.space.flags.get(i)).cloned();
        let (pick, flags, only, name) = match slot {
            Slot::Arm(i) => {
                let permitted = &self.space.permitted[i];
                let only = match self.phase {
                    Phase::Quick { .. } => self.probes_of(i),
                    _ => self.grid().into_iter().filter(|s| permitted.contains(s)).collect(),
                };
                (Pick::One(i), Vec::new(), only, self.arm_name(i))
            }
            Slot::Flag(i) => {
                let flags: Vec<String> = flag(i).into_iter().collect();
                let name = flags.first().cloned().unwrap_or_else(|| "without a flag".to_owned());
                (self.pick.clone(), flags, self.ids(&self.probes), name)
            }
            Slot::Together => {
                let kept = self.together.as_ref().map(|(k, _)| k.clone()).unwrap_or_default();
                let flags: Vec<String> = kept.into_iter().filter_map(flag).collect();
                let name = flags.join(" ");
                (self.pick.clone(), flags, self.ids(&self.probes), name)
            }
            Slot::Home => (Pick::Home, Vec::new(), self.grid(), "as it was".to_owned()),
            Slot::Chosen => (self.pick.clone(), self.added.clone(), self.grid(), self.chosen_name()),
        };
        Trial { pick, flags, whole, only, rung, name }
    }

    fn arm_name(&self, arm: usize) -> String {
        let name = arms::words(&self.space.arms[arm]);
        if arm == 0 && !self.space.arms[0].is_empty() { format!("{name} (defaults)") } else { name }
    }

    fn chosen_name(&self) -> String {
        let mut parts = Vec::new();
        match &self.pick {
            Pick::One(0) | Pick::Home => {}
            Pick::One(i) => parts.push(arms::words(&self.space.arms[*i])),
            Pick::Routed(routes) => {
                let all: Vec<String> = routes.assignments.iter().map(arms::words).collect();
                parts.push(format!("routes to {}", all.join(" and ")));
            }
        }
        parts.extend(self.added.iter().cloned());
        parts.join(" ")
    }

    /// Seconds that a trial is expected to take.
    fn cost(&self, whole: bool, scenarios: usize) -> f64 {
        let n = scenarios as f64;
        match (whole, self.pace) {
            (false, (Some(quick), _)) => quick * n,
            (true, (_, Some(whole))) => whole * n,
            (true, (Some(quick), None)) => quick * WHOLE_OVER_QUICK * n,
            (false, (None, Some(whole))) => whole * n,
            (_, (None, None)) => 0.0,
        }
    }

    fn affords(&self, trial: &Trial) -> bool {
        let left = self.budget.evaluations.saturating_sub(self.spent);
        let grid = self.cost(true, self.space.spots.len());
        let (evaluations, seconds) = match self.phase {
            Phase::Quick { .. } => (KEPT_BACK, 4.0 * grid),
            Phase::Grid | Phase::Flags { .. } | Phase::Together => (2, 2.0 * grid),
            // The kernel as it was is of no use without the other.
            Phase::Confirm { .. } if self.queue.len() > 1 => (1, grid),
            Phase::Confirm { .. } | Phase::Done => (0, 0.0),
        };
        let first = self.spent == 0;
        let cost = self.cost(trial.whole, trial.only.len());
        left > evaluations && (first || self.seconds + cost + seconds <= self.budget.seconds)
    }
}
