//! Words that go with a claimed limit or an explained-away failure. They are one signal more and decide nothing alone.

const LIMITS: [&str; 26] = [
    "at the limit",
    "reached the limit",
    "hardware limit",
    "theoretical limit",
    "fundamental limit",
    "memory bound",
    "memory-bound",
    "bandwidth bound",
    "bandwidth-bound",
    "compute bound",
    "compute-bound",
    "cannot be improved",
    "can't be improved",
    "cannot go faster",
    "no further",
    "nothing left",
    "not possible",
    "impossible",
    "diminishing returns",
    "good enough",
    "as fast as",
    "roofline",
    "the floor",
    "inherent",
    "plateaued",
    "optimal",
];

const EXCUSES: [&str; 20] = [
    "noise",
    "noisy",
    "flaky",
    "rounding",
    "expected difference",
    "expected error",
    "within tolerance",
    "tolerance is too",
    "too strict",
    "unrelated",
    "pre-existing",
    "preexisting",
    "known issue",
    "edge case",
    "harmless",
    "negligible",
    "precision difference",
    "floating point",
    "floating-point",
    "only fails",
];

fn any(text: &str, words: &[&str]) -> bool {
    let text = text.to_lowercase();
    words.iter().any(|w| text.match_indices(w).any(|(i, _)| !text[..i].ends_with(char::is_alphanumeric)))
}

/// Whether the text claims that no more can be had.
#[must_use]
pub fn limits(text: &str) -> bool {
    any(text, &LIMITS)
}

/// Whether the text explains a failure away.
#[must_use]
pub fn excuses(text: &str) -> bool {
    any(text, &EXCUSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_and_excuses_are_heard() {
        assert!(limits("We are at the limit of this CPU."));
        assert!(limits("Remaining gap is INHERENT"));
        assert!(!limits("suboptimal tiling in the tail"), "inside another word");
        assert!(!limits("tile the outer loop"));
        assert!(excuses("The mismatch is just rounding."));
        assert!(excuses("this scenario is flaky"));
        assert!(!excuses("the tail reads past the row"));
    }
}
