//! Which contents a scenario is called with.

use crate::common::*;
use kernelseek_core::case::{Case, Stress};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::content::*;
use std::collections::HashSet;

fn listed(families: &[Stress]) -> Case {
    let mut t = tensor("t", DType::F32, &[4], normal());
    t.stress = families.to_vec();
    case(vec![t])
}

const ALL: [Stress; 4] = [Stress::Scaled, Stress::Outliers, Stress::Structured, Stress::Extremes];

fn is_stress(content: &Content) -> bool {
    content.distribution != Distribution::Nominal
}

#[test]
fn at_least_a_quarter_is_stress_at_places_that_cannot_be_told() {
    let c = listed(&ALL);
    for secret in 0..20u8 {
        let contents: Vec<Content> = (0..4000).map(|i| content_stream(&[secret; 32], &c, i)).collect();
        assert!(contents.chunks(4).all(|block| block.iter().any(is_stress)));
        let count = contents.iter().filter(|c| is_stress(c)).count();
        assert!((1250..1500).contains(&count), "{count}");
        for place in 0..4 {
            let here = contents.iter().skip(place).step_by(4).filter(|c| is_stress(c)).count();
            assert!((270..420).contains(&here), "place {place}: {here}");
        }
        let kinds: HashSet<Distribution> = contents.iter().map(|c| c.distribution).collect();
        assert_eq!(kinds.len(), 5);
        let seeds: HashSet<u64> = contents.iter().map(|c| c.seed).collect();
        assert_eq!(seeds.len(), 4000);
    }
    let first = |secret, case: &Case| -> Vec<Content> {
        (0..8).map(|i| content_stream(&[secret; 32], case, i)).collect()
    };
    assert_eq!(first(1, &c), first(1, &c));
    assert_ne!(first(1, &c), first(2, &c));
    let mut other = c.clone();
    other.id = "s2".into();
    assert_ne!(first(1, &c), first(1, &other));
}

#[test]
fn only_listed_families_are_drawn() {
    let c = listed(&[Stress::Scaled]);
    assert_eq!(stress_families(&c), [Stress::Scaled]);
    let drawn: HashSet<Distribution> =
        (0..100).map(|i| content_stream(&[3; 32], &c, i).distribution).collect();
    assert_eq!(drawn, HashSet::from([Distribution::Nominal, Distribution::Stress(Stress::Scaled)]));
    let none = listed(&[]);
    assert!((0..100).all(|i| !is_stress(&content_stream(&[3; 32], &none, i))));
    assert!(fixed_contents("p", &none).iter().all(|c| !is_stress(c)));
}

#[test]
fn fixed_contents_are_public_and_pinned() {
    let c = listed(&ALL);
    let fixed = fixed_contents("softmax", &c);
    assert_eq!(fixed, fixed_contents("softmax", &c));
    assert_eq!(fixed.iter().filter(|c| is_stress(c)).count(), 1);
    assert_eq!(fixed.iter().map(|c| c.seed).collect::<HashSet<_>>().len(), 4);
    assert_ne!(fixed, fixed_contents("gemm", &c));
    assert_eq!(fixed[0].seed, FIRST_SEED);
}

/// Changing this number changes every recorded fixed content.
const FIRST_SEED: u64 = 17_270_484_031_731_807_156;
