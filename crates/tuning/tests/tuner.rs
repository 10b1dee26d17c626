//! The tuner over a bench that evaluates nothing: what it writes, says and leaves behind.

#![expect(clippy::unwrap_used, reason = "a test program: a panic is a failed test")]

use kernelseek_core::decision::Layer;
use kernelseek_core::kernel_file::{Choice, KernelFile, parse_kernel};
use kernelseek_core::problem::{Problem, parse_problem};
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::parse_scenarios;
use kernelseek_core::verdict::Ratio;
use kernelseek_tuning::Budget;
use kernelseek_tuning::tuner::{
    Bench, Files, Measured, Request, Subject, TuneError, Tuning, last_words, tune,
};
use std::cell::RefCell;
use std::path::Path;

const BUDGET: Budget = Budget { evaluations: 60, seconds: 60.0 };

/// What lies in the workspace, seen by both sides.
#[derive(Default)]
struct Workspace {
    kernel: RefCell<String>,
    routes: RefCell<Option<String>>,
}

struct Disk<'a>(&'a Workspace);

impl Files for Disk<'_> {
    type Error = ();
    fn write(&mut self, kernel: &str, routes: Option<&str>) -> Result<(), ()> {
        *self.0.kernel.borrow_mut() = kernel.to_owned();
        *self.0.routes.borrow_mut() = routes.map(str::to_owned);
        Ok(())
    }
}

/// Times follow from the kernel file that lies there.
struct Fake<'a> {
    problem: &'a Problem,
    workspace: &'a Workspace,
    /// Ratio of a tile in the short and in the long scenario.
    truth: fn(i64) -> (f64, f64),
    said: Vec<String>,
    hypotheses: Vec<Layer>,
    evaluations: usize,
    fails_at: Option<usize>,
}

impl Bench for Fake<'_> {
    type Error = &'static str;

    fn evaluate(&mut self, request: &Request) -> Result<Measured, &'static str> {
        self.evaluations += 1;
        if self.fails_at == Some(self.evaluations) {
            return Err("the bench broke");
        }
        let text = self.workspace.kernel.borrow().clone();
        let kernel = parse_kernel(self.problem, "kernel.toml", &text).unwrap();
        let tuned = kernel.tuned(true);
        let value = |scenario: &str| match tuned.values.get("tile") {
            Some(Choice::Int(i)) => *i,
            // The routes, read as a person reads them: the comment names the scenario.
            _ => {
                let routes = self.workspace.routes.borrow().clone().unwrap();
                let line =
                    routes.lines().find(|l| l.contains("return") && l.contains(scenario)).unwrap().to_owned();
                line.trim().trim_start_matches("return ").split(';').next().unwrap().parse().unwrap()
            }
        };
        let ratio = |scenario: &str| {
            let (short, long) = (self.truth)(value(scenario));
            let point = if scenario == "short" { short } else { long };
            Ratio { point, lo: point * 0.98, hi: point * 1.02, instances: 5, pairs: 30, correlation: None }
        };
        let ratios = request.only.iter().map(|s| (s.clone(), ratio(s))).collect();
        Ok(Measured { ratios, failed: None, tuned: Some(tuned), seconds: 0.1 })
    }

    fn state_hypothesis(&mut self, _: &str, layer: Layer, _: Option<f64>) -> Result<(), &'static str> {
        self.hypotheses.push(layer);
        Ok(())
    }

    fn say(&mut self, line: &str) {
        self.said.push(line.to_owned());
    }
}

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernelseek/tests/fixtures/tuning/tiles");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

struct Played {
    tuning: Result<Tuning, TuneError<&'static str, ()>>,
    workspace: Workspace,
    said: Vec<String>,
    hypotheses: Vec<Layer>,
}

fn play(truth: fn(i64) -> (f64, f64), fails_at: Option<usize>) -> (Played, KernelFile) {
    let problem = parse_problem("problem.toml", &fixture("problem.toml")).unwrap();
    let scenarios = parse_scenarios(&problem, "all.jsonl", &fixture("all.jsonl")).unwrap();
    let cases: Vec<_> = scenarios.iter().map(|s| resolve(&problem, s).unwrap()).collect();
    let kernel = parse_kernel(&problem, "kernel.toml", &fixture("kernel.toml")).unwrap();
    let subject = Subject {
        problem: &problem,
        scenarios: &scenarios,
        cases: &cases,
        kernel: &kernel,
        routes: None,
        allowed: &[],
    };
    let workspace = Workspace::default();
    let mut bench = Fake {
        problem: &problem,
        workspace: &workspace,
        truth,
        said: Vec::new(),
        hypotheses: Vec::new(),
        evaluations: 0,
        fails_at,
    };
    let tuning = tune(&mut bench, &mut Disk(&workspace), &subject, BUDGET);
    let (said, hypotheses) = (bench.said, bench.hypotheses);
    (Played { tuning, workspace, said, hypotheses }, kernel)
}

fn differs(tile: i64) -> (f64, f64) {
    match tile {
        1 => (1.0, 1.0),
        8 => (1.2, 2.0),
        32 => (0.4, 15.0),
        _ => (0.2, 12.0),
    }
}

#[test]
fn it_ends_with_the_best_state_in_the_workspace() {
    let (played, _) = play(differs, None);
    let tuning = played.tuning.unwrap();
    let gain = tuning.outcome.gain.as_ref().unwrap();
    assert!((gain.ratio.point() - (6.0f64 * 1.25).sqrt()).abs() < 0.01, "{gain:?}");
    assert_eq!(*played.workspace.kernel.borrow(), tuning.kernel);
    assert_eq!(*played.workspace.routes.borrow(), tuning.routes);
    let routes = tuning.routes.as_ref().unwrap();
    assert!(routes.contains("return 8; /* short */") && routes.contains("return 32; /* long */"), "{routes}");
    assert!(tuning.kernel.contains("routes = true") && tuning.kernel.contains("# Parts that a row"));
    assert!(last_words(&tuning.outcome).ends_with("I stop"));
    assert_eq!(played.hypotheses, [Layer::Dispatch; 3], "one for each rung");
    assert!(played.said.iter().any(|l| l.starts_with("rung 1: tile=8: ")), "{:?}", played.said);
    assert!(
        !played.said.iter().any(|l| l.starts_with("rung 1: tile=32: short")),
        "`where` keeps it from the short rows"
    );
}

#[test]
fn without_a_gain_the_workspace_is_as_it_was() {
    let (played, kernel) = play(|tile| if tile == 64 { (1.0, 1.0) } else { (0.7, 0.6) }, None);
    let tuning = played.tuning.unwrap();
    assert_eq!(tuning.outcome.gain, None);
    assert_eq!(*played.workspace.kernel.borrow(), kernel.source.text());
    assert_eq!(*played.workspace.routes.borrow(), None);
    assert_eq!(
        last_words(&tuning.outcome),
        "no gain: every alternative is slower than the default, or fails; the kernel is as it was: I stop"
    );
    let (played, _) = play(|_| (1.0, 1.0), None);
    assert_eq!(
        last_words(&played.tuning.unwrap().outcome),
        "no gain: no alternative is faster than the default within the noise; the kernel is as it was: I stop"
    );
}

#[test]
fn a_bench_that_breaks_leaves_the_files_as_they_were() {
    for at in 1..=8 {
        let (played, kernel) = play(differs, Some(at));
        assert!(matches!(played.tuning, Err(TuneError::Bench("the bench broke"))), "{at}");
        assert_eq!(*played.workspace.kernel.borrow(), kernel.source.text());
        assert_eq!(*played.workspace.routes.borrow(), None);
    }
}
