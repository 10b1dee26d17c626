//! Numbers with the thing that is counted, as people write them.

/// `1 scenario`, `3 scenarios`.
#[must_use]
pub fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// `1 process`, `3 processes`: where the plural is another word.
#[must_use]
pub fn counted_as(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        for (n, expected, other) in [
            (0, "0 scenarios", "0 processes"),
            (1, "1 scenario", "1 process"),
            (2, "2 scenarios", "2 processes"),
        ] {
            assert_eq!(counted(n, "scenario"), expected);
            assert_eq!(counted_as(n, "process", "processes"), other);
        }
    }
}
