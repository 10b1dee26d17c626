//! The machine against a simulated bench with noise.

#![expect(clippy::unwrap_used, reason = "a test program: a panic is a failed test")]

use kernelseek_core::kernel_file::Choice;
use kernelseek_core::verdict::Ratio;
use kernelseek_tuning::Assignment;
use kernelseek_tuning::halving::{Budget, Decision, Halving, Pick, Space, Step, Told, Trial};
use kernelseek_tuning::known::{Feature, FeatureKind, Spot};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A bench whose truth is known: log-ratios by arm and scenario, and by flag.
struct World {
    truth: Vec<Vec<f64>>,
    flags: Vec<f64>,
    /// Standard deviation of a quick measurement's logarithm; a whole one has half of it.
    noise: f64,
    fails: Vec<usize>,
    routable: bool,
    state: u64,
}

impl World {
    fn new(truth: &[&[f64]]) -> Self {
        let truth = truth.iter().map(|r| r.iter().map(|x| x.ln()).collect()).collect();
        Self { truth, flags: Vec::new(), noise: 0.02, fails: Vec::new(), routable: true, state: 1 }
    }

    /// About normal, from a fixed stream.
    fn normal(&mut self) -> f64 {
        let mut sum = 0.0;
        for _ in 0..12 {
            self.state =
                self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            sum += (self.state >> 33) as f64 / (1u64 << 31) as f64;
        }
        sum - 6.0
    }

    fn space(&self) -> Space {
        let n = self.truth[0].len();
        Space {
            features: vec![Feature { expression: "call->n".into(), kind: FeatureKind::Int }],
            spots: (0..n).map(|i| Spot { id: format!("s{i}"), values: vec![(16 << i) as f64] }).collect(),
            arms: (0..self.truth.len())
                .map(|i| Assignment::from([("tile".to_owned(), Choice::Int(i as i64))]))
                .collect(),
            permitted: Vec::new(),
            flags: (0..self.flags.len()).map(|i| format!("-f{i}")).collect(),
        }
    }

    /// The true log-ratio of a trial's build in a scenario.
    fn truth_of(&self, pick: &Pick, flags: &[String], scenario: usize) -> f64 {
        let arm = |a: &Assignment| match a["tile"] {
            Choice::Int(i) => i as usize,
            Choice::Word(_) => unreachable!(),
        };
        let own = match pick {
            Pick::Home => 0,
            Pick::One(i) => *i,
            Pick::Routed(r) => arm(r.assignment(&[(16 << scenario) as f64]).unwrap()),
        };
        let flag = |f: &String| self.flags[f[2..].parse::<usize>().unwrap()];
        self.truth[own][scenario] + flags.iter().map(flag).sum::<f64>()
    }

    fn measure(&mut self, trial: &Trial) -> Told {
        if let Pick::One(i) = trial.pick
            && self.fails.contains(&i)
        {
            return Told { failed: Some("outputs differ".into()), seconds: 0.5, ..Told::default() };
        }
        let noise = if trial.whole { self.noise / 2.0 } else { self.noise };
        let mut ratios = BTreeMap::new();
        for id in &trial.only {
            let truth = self.truth_of(&trial.pick, &trial.flags, id[1..].parse().unwrap());
            let log = truth + noise * self.normal();
            let half = 2.6 * noise.max(0.001);
            let ratio = Ratio {
                point: log.exp(),
                lo: (log - half).exp(),
                hi: (log + half).exp(),
                instances: 5,
                pairs: 30,
                correlation: None,
            };
            ratios.insert(id.clone(), ratio);
        }
        let seconds = trial.only.len() as f64 * if trial.whole { 2.0 } else { 0.5 };
        Told { ratios, failed: None, seconds, routable: self.routable }
    }

    fn play(&mut self, budget: Budget) -> (Decision, usize, f64) {
        let mut halving = Halving::new(self.space(), budget);
        let (mut trials, mut seconds) = (0, 0.0);
        loop {
            match halving.step() {
                Step::Try(trial) => {
                    assert_eq!(halving.step(), Step::Try(trial.clone()), "asked again it says the same");
                    let told = self.measure(&trial);
                    trials += 1;
                    seconds += told.seconds;
                    assert!(trials <= 10_000);
                    halving.told(&told);
                }
                Step::Done(decision) => return (*decision, trials, seconds),
            }
        }
    }
}

const PLENTY: Budget = Budget { evaluations: 200, seconds: 1e6 };

#[test]
fn the_best_is_found_where_it_is_best() {
    let mut world = World::new(&[&[1.0, 1.0, 1.0], &[1.5, 0.7, 0.5], &[0.5, 0.8, 1.8], &[1.1, 1.0, 0.9]]);
    let (decision, ..) = world.play(PLENTY);
    let gain = decision.outcome.gain.as_ref().unwrap();
    assert!((gain.ratio.point() / (1.5f64 * 1.8).cbrt() - 1.0).abs() < 0.05, "{gain:?}");
    let Some((Pick::Routed(routes), flags)) = &decision.chosen else { panic!("{decision:?}") };
    assert!(flags.is_empty());
    let taken: Vec<String> =
        [16.0, 32.0, 64.0].iter().map(|n| routes.assignment(&[*n]).unwrap()["tile"].to_string()).collect();
    assert_eq!(taken, ["1", "0", "2"]);
    assert!(decision.outcome.words.contains("faster than before"), "{}", decision.outcome.words);
}

#[test]
fn where_every_alternative_is_worse_it_says_so_and_keeps_the_kernel() {
    for state in 1..=200 {
        let mut world = World::new(&[&[1.0, 1.0], &[0.5, 0.6], &[0.8, 0.75], &[0.7, 0.7]]);
        world.flags = vec![0.75f64.ln(), 0.7f64.ln()];
        world.state = state;
        let (decision, ..) = world.play(PLENTY);
        assert_eq!(decision.chosen, None);
        assert!(decision.outcome.words.starts_with("no gain: "), "{}", decision.outcome.words);
        assert!(decision.outcome.words.contains("slower than the default"), "{}", decision.outcome.words);
    }
}

#[test]
fn what_is_the_same_is_never_declared_a_gain() {
    let mut declared = 0;
    for state in 1..=300 {
        let mut world = World::new(&[[1.0, 1.0, 1.0].as_slice(); 9]);
        world.flags = vec![0.0; 3];
        world.state = state;
        let (decision, ..) = world.play(PLENTY);
        declared += usize::from(decision.chosen.is_some());
    }
    assert_eq!(declared, 0, "of 300 sweeps over nine copies of one kernel");
}

#[test]
fn one_that_is_best_everywhere_needs_no_routes_and_flags_add_up() {
    let mut world = World::new(&[&[1.0, 1.0], &[1.4, 1.4]]);
    world.flags = vec![1.2f64.ln(), 0.8f64.ln(), 1.15f64.ln()];
    let (decision, ..) = world.play(PLENTY);
    assert_eq!(decision.chosen, Some((Pick::One(1), vec!["-f0".to_owned(), "-f2".to_owned()])));
    assert!(decision.outcome.flags.iter().any(|f| f.name == "-f1" && f.rung.is_some()));
}

#[test]
fn without_the_header_one_assignment_serves_all() {
    let mut world = World::new(&[&[1.0, 1.0], &[1.5, 0.9], &[0.5, 1.5]]);
    world.routable = false;
    let (decision, ..) = world.play(PLENTY);
    assert!(matches!(decision.chosen, None | Some((Pick::One(1), _))), "{decision:?}");
    assert!(decision.outcome.notes.iter().any(|n| n.contains("does not include the header")));
}

#[test]
fn what_fails_is_dropped_and_a_failing_kernel_ends_it() {
    let mut world = World::new(&[&[1.0], &[5.0], &[1.3]]);
    world.fails = vec![1];
    let (decision, ..) = world.play(PLENTY);
    assert_eq!(decision.chosen, Some((Pick::One(2), Vec::new())));
    assert!(decision.outcome.arms[1].why.contains("outputs differ"));
    world.fails = vec![0];
    let (decision, trials, _) = world.play(PLENTY);
    assert_eq!((decision.chosen, trials), (None, 1));
    assert!(decision.outcome.words.contains("with its defaults fails"));
}

#[test]
fn nothing_to_tune_and_too_small_a_budget_are_said() {
    let (decision, ..) = World::new(&[&[1.0]]).play(PLENTY);
    assert!(decision.outcome.words.contains("nothing to tune"), "{}", decision.outcome.words);
    let (decision, trials, _) = World::new(&[&[1.0], &[2.0]]).play(Budget { evaluations: 5, seconds: 1e6 });
    assert_eq!(trials, 0);
    assert!(decision.outcome.words.contains("fewer than 6"), "{}", decision.outcome.words);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn it_ends_within_the_budget_and_never_with_something_worse(
        truth in proptest::collection::vec(proptest::collection::vec(0.4f64..2.5, 7), 1..24),
        flags in proptest::collection::vec(0.8f64..1.25, 0..4),
        evaluations in 0usize..80,
        seconds in 1.0f64..300.0,
        noise in 0.001f64..0.1,
        state in any::<u64>(),
        fails in proptest::collection::vec(1usize..24, 0..4),
        routable in any::<bool>(),
    ) {
        let mut truth = truth;
        truth[0] = vec![1.0; 7];
        let rows: Vec<&[f64]> = truth.iter().map(Vec::as_slice).collect();
        let mut world = World::new(&rows);
        world.flags = flags.iter().map(|f| f.ln()).collect();
        (world.noise, world.state, world.fails, world.routable) = (noise, state, fails, routable);
        let (decision, trials, spent) = world.play(Budget { evaluations, seconds });
        prop_assert!(trials <= evaluations.max(1));
        // The first evaluation of a kind is begun on an estimate.
        prop_assert!(spent <= seconds + 14.0 + 7.0, "{} of {}", spent, seconds);
        if let Some((pick, flags)) = &decision.chosen {
            let mean = (0..7).map(|s| world.truth_of(pick, flags, s)).sum::<f64>() / 7.0;
            prop_assert!(mean > 0.0, "a gain that is none: {}", mean.exp());
        }
        prop_assert!(!decision.outcome.words.is_empty());
    }
}
