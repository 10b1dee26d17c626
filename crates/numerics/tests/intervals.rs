//! Simulations of the ratio interval with known truth: coverage, false claims, power. Seeds are fixed.

#![expect(clippy::unwrap_used, reason = "a helper of a test may fail it")]

use kernelseek_numerics::rng::Pcg64;
use kernelseek_numerics::stats::{LEAST_FOR_INTERVALS, level, paired_ratio};

struct World {
    instances: usize,
    pairs: usize,
    /// Standard deviations of log-ratios, of an instance and of a pair.
    instance: f64,
    pair: f64,
    /// Share of pairs that were disturbed, and by how much at most.
    outliers: f64,
    /// Instances fall on one of two levels instead of a normal.
    two_levels: bool,
    /// What the places of the two sides make of the ratio. They change from instance to instance.
    place: f64,
}

const USUAL: World = World {
    instances: 3,
    pairs: 20,
    instance: 0.005,
    pair: 0.02,
    outliers: 0.05,
    two_levels: false,
    place: 0.0,
};

fn gauss(rng: &mut Pcg64) -> f64 {
    (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0
}

impl World {
    fn draw(&self, rng: &mut Pcg64, truth: f64) -> Vec<Vec<f64>> {
        (0..self.instances)
            .map(|index| {
                let place = if index.is_multiple_of(2) { self.place } else { -self.place };
                let own = if self.two_levels {
                    (rng.below(2) as f64 * 2.0 - 1.0) * self.instance
                } else {
                    gauss(rng) * self.instance
                };
                let effect = own + place;
                (0..self.pairs)
                    .map(|_| {
                        let mut x = truth + effect + gauss(rng) * self.pair;
                        if rng.unit() < self.outliers {
                            // Either side of the pair may be the disturbed one.
                            x += (2.0 * rng.unit() - 1.0) * 0.5;
                        }
                        x
                    })
                    .collect()
            })
            .collect()
    }
}

struct Seen {
    covered: usize,
    faster: usize,
    slower: usize,
    half_width: f64,
}

fn simulate(world: &World, truth: f64, aa_spread: f64, runs: u64) -> Seen {
    let mut rng = Pcg64::new(u128::from(runs) << 8 | world.instances as u128, 77);
    let mut seen = Seen { covered: 0, faster: 0, slower: 0, half_width: 0.0 };
    for run in 0..runs {
        let swapped: Vec<bool> = (0..world.instances).map(|index| !index.is_multiple_of(2)).collect();
        let leveled = level(world.draw(&mut rng, truth), &swapped, LEAST_FOR_INTERVALS);
        let e = paired_ratio(&leveled.instances, leveled.fitted, 0.99, aa_spread, run).unwrap();
        seen.covered += usize::from(e.lo.ln() <= truth && truth <= e.hi.ln());
        seen.faster += usize::from(e.lo > 1.0);
        seen.slower += usize::from(e.hi < 1.0);
        seen.half_width += e.half_width / runs as f64;
    }
    seen
}

#[test]
fn coverage_with_a_known_spread() {
    for (name, world) in [
        ("3 instances", USUAL),
        ("4 instances", World { instances: 4, ..USUAL }),
        ("6 instances", World { instances: 6, ..USUAL }),
        ("few pairs", World { pairs: 5, ..USUAL }),
        ("no outliers", World { outliers: 0.0, ..USUAL }),
        ("quiet pairs", World { pair: 0.002, outliers: 0.02, ..USUAL }),
        ("two levels", World { two_levels: true, ..USUAL }),
        ("no instance effect", World { instance: 0.0, ..USUAL }),
        ("unlike places", World { instances: 6, pairs: 6, place: 0.02, ..USUAL }),
        ("unlike places, quiet pairs", World { instances: 8, pair: 0.002, place: 0.05, ..USUAL }),
    ] {
        let seen = simulate(&world, 0.03, world.instance, 400);
        println!("{name}: {} of 400 covered, half-width {:.4}", seen.covered, seen.half_width);
        assert!(seen.covered >= 392, "{name}: {}", seen.covered);
    }
}

#[test]
fn coverage_when_the_spread_is_unknown_or_larger_than_it_was() {
    for (name, world, spread) in [
        ("unknown", USUAL, 0.0),
        ("unknown, quiet pairs", World { pair: 0.002, outliers: 0.02, ..USUAL }, 0.0),
        ("three times larger", World { instance: 0.015, ..USUAL }, 0.005),
        ("unknown, six instances", World { instances: 6, instance: 0.015, ..USUAL }, 0.0),
        ("unknown, two instances", World { instances: 2, ..USUAL }, 0.0),
    ] {
        let seen = simulate(&world, 0.0, spread, 400);
        println!("{name}: {} of 400 covered, half-width {:.4}", seen.covered, seen.half_width);
        // Over 2000 runs: 96 to 97 %, and 94.6 % for the one that is told too small a spread.
        assert!(seen.covered >= 368, "{name}: {}", seen.covered);
    }
}

#[test]
fn places_cost_no_width() {
    let alike = World { instances: 6, pairs: 6, pair: 0.004, outliers: 0.0, instance: 0.001, ..USUAL };
    let unlike = World { place: 0.02, ..alike };
    let (alike, unlike) = (simulate(&alike, 0.0, 0.001, 200), simulate(&unlike, 0.0, 0.001, 200));
    println!("{:.5} and {:.5}", alike.half_width, unlike.half_width);
    assert!((unlike.half_width / alike.half_width - 1.0).abs() < 0.02);
}

#[test]
fn identical_candidates_are_hardly_ever_faster() {
    let seen = simulate(&USUAL, 0.0, 0.005, 2000);
    println!("faster {} slower {} half-width {:.4}", seen.faster, seen.slower, seen.half_width);
    assert!(seen.faster <= 20 && seen.slower <= 20, "{} {}", seen.faster, seen.slower);
}

#[test]
fn five_percent_is_found() {
    for (instances, least) in [(3, 380), (4, 396)] {
        let world = World { instances, ..USUAL };
        let slower = simulate(&world, 0.95f64.ln(), 0.005, 200).slower;
        let faster = simulate(&world, 1.05f64.ln(), 0.005, 200).faster;
        println!("{instances} instances: {slower} + {faster} of 400");
        assert!(slower + faster >= least, "{instances}: {slower} {faster}");
    }
}
