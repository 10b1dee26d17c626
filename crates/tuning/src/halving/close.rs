//! What follows when a phase has measured what it wanted, or what it could.

use super::rung::{self, Contender};
use super::{Arm, Decision, Halving, Phase, Pick, Slot};
use crate::estimate::Estimate;
use crate::outcome::{ArmReport, Gain, Outcome};
use crate::routes::{self, Routes};
use std::collections::BTreeMap;

/// Alternatives that are few enough for the grid.
const FEW: usize = 3;
/// Quick rungs at most.
const RUNGS: usize = 3;
/// Flags that are measured a second time, with more effort.
const FLAGS_AGAIN: usize = 3;
/// The least gain that is worth a change, as a ratio.
const LEAST_GAIN: f64 = 1.01;
/// Rounds of the confirmation at most.
const ROUNDS: usize = 2;

impl Halving {
    fn drop(&mut self, arm: usize, rung: &str, why: &str) {
        let arm = &mut self.arms[arm];
        if arm.dropped.is_none() {
            arm.dropped = Some((rung.to_owned(), why.to_owned()));
        }
    }

    fn alive(&self) -> Vec<usize> {
        (1..self.arms.len()).filter(|i| self.arms[*i].dropped.is_none()).collect()
    }

    /// The budget does not reach for the rest of the queue.
    pub(super) fn cut(&mut self) {
        let rest: Vec<Slot> = self.queue.drain(..).collect();
        let grid = self.phase == Phase::Grid;
        for slot in rest {
            match slot {
                // Without the defaults on the grid nothing can be compared there.
                Slot::Arm(0) => {}
                Slot::Arm(i) if grid => self.drop(i, "the grid", "the budget does not reach for it"),
                Slot::Arm(i) if self.arms[i].ratios.is_empty() => {
                    self.drop(i, "rung 1", "not tried: the budget does not reach for it");
                }
                Slot::Arm(_) => {}
                Slot::Flag(i) => {
                    let why = ("flags".to_owned(), "the budget does not reach for it".to_owned());
                    self.flags[i].dropped.get_or_insert(why);
                }
                Slot::Together => {}
                Slot::Home | Slot::Chosen => {
                    let round = matches!(self.phase, Phase::Confirm { round } if round > 1);
                    if !round {
                        let what = self.chosen_name();
                        self.end(
                            None,
                            format!("{what} may be faster, but the budget does not reach to confirm it"),
                        );
                        return;
                    }
                }
            }
        }
        self.close();
    }

    /// Closes the phase and opens the next.
    pub(super) fn close(&mut self) {
        if self.decision.is_some() {
            return;
        }
        match self.phase.clone() {
            Phase::Quick { rung } => self.close_quick(rung),
            Phase::Grid => self.close_grid(),
            Phase::Flags { whole } => self.close_flags(whole),
            Phase::Together => self.close_together(),
            Phase::Confirm { round } => self.close_confirm(round),
            Phase::Done => {}
        }
    }

    fn close_quick(&mut self, rung: usize) {
        let name = format!("rung {rung}");
        let alive = self.alive();
        let contenders: Vec<Contender<'_>> =
            alive.iter().map(|i| Contender { arm: *i, ratios: &self.arms[*i].ratios }).collect();
        let drops = rung::drops(&self.arms[0].ratios, &contenders);
        for (arm, why) in &drops {
            self.drop(*arm, &name, why);
        }
        let mut alive = self.alive();
        if alive.is_empty() {
            self.open_flags();
        } else if alive.len() > FEW && rung < RUNGS && (rung == 1 || !drops.is_empty()) {
            self.phase = Phase::Quick { rung: rung + 1 };
            self.queue = std::iter::once(0).chain(alive).map(Slot::Arm).collect();
        } else {
            let best = rung::best(self.arms.iter().map(|a| &a.ratios));
            let score = |i: &usize| rung::score(&self.arms[*i].ratios, &best);
            alive.sort_by(|a, b| score(b).total_cmp(&score(a)));
            self.phase = Phase::Grid;
            self.queue = std::iter::once(0).chain(alive).map(Slot::Arm).collect();
        }
    }

    fn close_grid(&mut self) {
        let measured: Vec<BTreeMap<String, Estimate>> = self
            .arms
            .iter()
            .map(|a| if a.dropped.is_none() { a.ratios.clone() } else { BTreeMap::new() })
            .collect();
        let spots = &self.space.spots;
        let chosen = routes::choose(spots, &measured);
        let everywhere = chosen.first().copied().filter(|f| chosen.iter().all(|c| c == f));
        let all_scenarios = |arm: usize| self.space.permitted[arm].len() == spots.len();
        self.pick = match everywhere {
            Some(arm) if all_scenarios(arm) => Pick::One(arm),
            _ if self.routable => {
                let routes = Routes::new(&self.space.features, spots, &self.space.arms, &chosen);
                Pick::Routed(Box::new(routes))
            }
            _ => {
                self.notes.push(
                    "another assignment is best in another scenario, but the kernel does not include the header with \
                     the routes, so one assignment must serve them all"
                        .to_owned(),
                );
                Pick::One(routes::choose_one(spots, &measured))
            }
        };
        for (index, arm) in self.arms.iter_mut().enumerate().skip(1) {
            if arm.dropped.is_none() && !self.pick.uses(index, &chosen) {
                let above = arm.ratios.iter().any(|(s, e)| measured[0].get(s).is_some_and(|d| e.above(d)));
                let slower = |(s, e): (&String, &Estimate)| measured[0].get(s).is_some_and(|d| d.above(e));
                let why = if above {
                    "another one is faster"
                } else if !arm.ratios.is_empty() && arm.ratios.iter().all(slower) {
                    "slower than the defaults in every scenario"
                } else {
                    "not told apart from the defaults"
                };
                arm.dropped = Some(("the grid".to_owned(), why.to_owned()));
            }
        }
        self.open_flags();
    }

    fn open_flags(&mut self) {
        if self.space.flags.is_empty() {
            self.open_confirm();
            return;
        }
        self.phase = Phase::Flags { whole: false };
        self.queue = (0..self.flags.len()).map(Slot::Flag).collect();
    }

    fn close_flags(&mut self, whole: bool) {
        let base = self.flags[0].mean();
        let mut faster: Vec<(usize, Estimate)> = Vec::new();
        for (index, arm) in self.flags.iter_mut().enumerate().skip(1).filter(|(_, a)| a.dropped.is_none()) {
            let rung = if whole { "flags again" } else { "flags" }.to_owned();
            match (arm.mean(), base) {
                (Some(e), Some(b)) if e.above(&b) || (!whole && e.log > b.log) => faster.push((index, e)),
                (Some(e), Some(b)) if b.above(&e) => {
                    arm.dropped = Some((rung, "slower than without it".to_owned()));
                }
                (Some(_), Some(_)) => {
                    arm.dropped = Some((rung, "not told apart from without it".to_owned()));
                }
                _ => {
                    arm.dropped = Some((rung, "nothing could be timed".to_owned()));
                }
            }
        }
        faster.sort_by(|(_, a), (_, b)| b.log.total_cmp(&a.log));
        if !whole {
            for (index, _) in faster.iter().skip(FLAGS_AGAIN) {
                let why = "others promise more".to_owned();
                self.flags[*index].dropped = Some(("flags".to_owned(), why));
            }
            faster.truncate(FLAGS_AGAIN);
            if !faster.is_empty() {
                // Chosen by what was measured, so that what was measured no longer counts.
                self.flags.iter_mut().filter(|a| a.dropped.is_none()).for_each(|a| a.ratios.clear());
                self.phase = Phase::Flags { whole: true };
                self.queue =
                    std::iter::once(0).chain(faster.iter().map(|(i, _)| *i)).map(Slot::Flag).collect();
                return;
            }
        }
        let name = |i: usize| self.space.flags.get(i - 1).cloned();
        self.added = faster.first().and_then(|(i, _)| name(*i)).into_iter().collect();
        if faster.len() > 1 {
            let mut kept: Vec<usize> = faster.iter().map(|(i, _)| *i).collect();
            kept.sort_unstable();
            self.together = Some((kept, Arm::default()));
            self.phase = Phase::Together;
            self.queue = std::iter::once(Slot::Together).collect();
            return;
        }
        self.open_confirm();
    }

    fn close_together(&mut self) {
        if let Some((kept, arm)) = &self.together {
            let single =
                kept.iter().filter_map(|i| self.flags[*i].mean()).map(|e| e.log).fold(f64::MIN, f64::max);
            if arm.dropped.is_none() && arm.mean().is_some_and(|e| e.log > single) {
                self.added = kept.iter().filter_map(|i| self.space.flags.get(i - 1)).cloned().collect();
            }
        }
        self.open_confirm();
    }

    fn open_confirm(&mut self) {
        if self.pick == Pick::One(0) && self.added.is_empty() {
            let words = self.nothing();
            self.end(None, words);
            return;
        }
        self.phase = Phase::Confirm { round: 1 };
        self.queue = [Slot::Home, Slot::Chosen].into();
    }

    fn nothing(&self) -> String {
        let tried: Vec<&Arm> = self.arms.iter().skip(1).chain(self.flags.iter().skip(1)).collect();
        let slower = |a: &&Arm| {
            a.dropped.as_ref().is_some_and(|(_, why)| why.starts_with("slower") || why.starts_with("fails"))
        };
        if tried.is_empty() {
            "there is nothing to tune: no other value and no allowed flag".to_owned()
        } else if tried.iter().all(slower) {
            "no gain: every alternative is slower than the default, or fails".to_owned()
        } else {
            "no gain: no alternative is faster than the default within the noise".to_owned()
        }
    }

    fn close_confirm(&mut self, round: usize) {
        let what = self.chosen_name();
        if let Some((_, why)) = self.chosen_arm.dropped.clone().or_else(|| self.home.dropped.clone()) {
            self.end(None, format!("no gain: {what} does not hold in the confirmation: it {why}"));
            return;
        }
        let mut scenarios = BTreeMap::new();
        for spot in &self.space.spots {
            if let (Some(now), Some(before)) =
                (self.chosen_arm.ratios.get(&spot.id), self.home.ratios.get(&spot.id))
            {
                scenarios.insert(spot.id.clone(), (*now, *before));
            }
        }
        let fallen: Vec<&str> = scenarios
            .iter()
            .filter(|(_, (now, before))| before.above(now))
            .map(|(s, _)| s.as_str())
            .collect();
        if !fallen.is_empty() {
            let words = format!("no gain: {what} is slower than before on {}", fallen.join(", "));
            self.end(None, words);
            return;
        }
        if scenarios.len() < self.space.spots.len() {
            self.end(None, format!("no gain: {what} could not be timed in every scenario"));
            return;
        }
        let (now, before): (Vec<Estimate>, Vec<Estimate>) = scenarios.values().copied().unzip();
        let (Some(now), Some(before)) = (Estimate::mean(&now), Estimate::mean(&before)) else {
            self.end(None, "no gain: there is no scenario".to_owned());
            return;
        };
        let ratio = now.over(&before);
        if now.above(&before) && ratio.point() >= LEAST_GAIN {
            let scenarios = scenarios.iter().map(|(s, (n, b))| (s.clone(), n.over(b))).collect();
            let words = format!(
                "{:.2}× [{:.2}, {:.2}] faster than before with {what}",
                ratio.point(),
                ratio.lo(),
                ratio.hi()
            );
            self.end(Some(Gain { ratio, scenarios, what }), words);
        } else if round < ROUNDS && ratio.point() >= LEAST_GAIN {
            self.phase = Phase::Confirm { round: round + 1 };
            self.queue = [Slot::Home, Slot::Chosen].into();
        } else {
            self.end(None, format!(
                "no gain: {what} is not told apart from before in the confirmation: {:.2}× [{:.2}, {:.2}]",
                ratio.point(),
                ratio.lo(),
                ratio.hi()
            ));
        }
    }

    pub(super) fn end(&mut self, gain: Option<Gain>, words: String) {
        let report = |name: String, arm: &Arm, good: &str| {
            let (rung, why) = match &arm.dropped {
                Some((rung, why)) => (Some(rung.clone()), why.clone()),
                None => (None, good.to_owned()),
            };
            ArmReport { name, ratios: arm.ratios.clone(), rung, why }
        };
        let chosen = gain.is_some();
        let arms = self.arms.iter().enumerate().map(|(i, a)| {
            let good = match i {
                0 => "the defaults",
                _ if chosen => "chosen",
                _ => "not confirmed",
            };
            report(self.arm_name(i), a, good)
        });
        let flags = self
            .flags
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, a)| a.dropped.is_some() || !a.ratios.is_empty());
        let flags = flags.map(|(i, a)| {
            let name = self.space.flags[i - 1].clone();
            let good = match (chosen, self.added.contains(&name)) {
                (true, true) => "chosen",
                (_, true) => "not confirmed",
                _ => "another one is faster",
            };
            report(name, a, good)
        });
        let outcome = Outcome {
            arms: arms.collect(),
            flags: flags.collect(),
            words,
            evaluations: self.spent,
            seconds: self.seconds,
            notes: self.notes.clone(),
            gain,
        };
        let chosen = chosen.then(|| (self.pick.clone(), self.added.clone()));
        self.decision = Some(Decision { chosen, outcome });
        self.phase = Phase::Done;
        self.queue.clear();
    }
}

impl Arm {
    /// Geometric mean of everything measured.
    fn mean(&self) -> Option<Estimate> {
        let all: Vec<Estimate> = self.ratios.values().copied().collect();
        Estimate::mean(&all)
    }
}

impl Pick {
    /// Whether an arm is part of this.
    fn uses(&self, arm: usize, chosen: &[usize]) -> bool {
        match self {
            Self::Home => false,
            Self::One(one) => *one == arm,
            Self::Routed(_) => chosen.contains(&arm),
        }
    }
}
