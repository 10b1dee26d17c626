//! Which contents a scenario is called with.

use super::{Content, Distribution};
use kernelseek_core::case::{Case, Generator, Stress, TensorCase};

const STREAM_DOMAIN: &[u8] = b"ks-content-stream-1";
const FIXED_DOMAIN: &[u8] = b"ks-fixed-content-1";

/// The stress families that change some input of the case: listed by a tensor whose generator draws real
/// numbers. In a fixed order.
#[must_use]
pub fn stress_families(case: &Case) -> Vec<Stress> {
    let mut families: Vec<Stress> = case
        .tensors
        .iter()
        .filter(|t| t.role.is_input() && t.is_present() && draws_reals(t))
        .flat_map(|t| t.stress.iter().copied())
        .collect();
    families.sort_unstable();
    families.dedup();
    families
}

const fn draws_reals(tensor: &TensorCase) -> bool {
    use Generator::{Normal, Quantised, Uniform};
    matches!(tensor.generator, Some(Normal { .. } | Uniform { .. } | Quantised { .. }))
}

/// Content `index` of the secret stream of a scenario. Of every four consecutive contents (0–3, 4–7, …) at
/// least one is a stress distribution, at a place that only the secret tells; of the others one in eight. A
/// case whose inputs list no family has nominal contents only.
#[must_use]
pub fn content_stream(secret: &[u8; 32], case: &Case, index: u64) -> Content {
    let of = |kind: u8, number: u64| {
        let mut hash = blake3::Hasher::new_keyed(secret);
        hash.update(STREAM_DOMAIN).update(&(case.id.len() as u64).to_le_bytes()).update(case.id.as_bytes());
        hash.update(&[kind]).update(&number.to_le_bytes());
        words(&hash.finalize())
    };
    let forced = of(0, index / 4)[0] % 4 == index % 4;
    let [seed, chance, family, _] = of(1, index);
    let families = stress_families(case);
    let stressed = forced || chance % 8 == 0;
    Content { distribution: pick(&families, stressed, family), seed }
}

/// The four public contents of a scenario, whose full references are worth keeping: three nominal ones and a
/// stress distribution (nominal where the case lists no family).
#[must_use]
pub fn fixed_contents(problem: &str, case: &Case) -> [Content; 4] {
    let families = stress_families(case);
    std::array::from_fn(|number| {
        let mut hash = blake3::Hasher::new();
        for part in [FIXED_DOMAIN, problem.as_bytes(), case.id.as_bytes()] {
            hash.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        hash.update(&[number as u8]);
        let [seed, _, family, _] = words(&hash.finalize());
        Content { distribution: pick(&families, number == 3, family), seed }
    })
}

fn pick(families: &[Stress], stressed: bool, choice: u64) -> Distribution {
    match families.get((choice % families.len().max(1) as u64) as usize) {
        Some(&family) if stressed => Distribution::Stress(family),
        _ => Distribution::Nominal,
    }
}

fn words(hash: &blake3::Hash) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(hash.as_bytes().chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b));
    }
    words
}
