//! Calls by how long they take. How finely they can be told apart depends on it: one process times a call about a hundred
//! nanoseconds differently from the next, whatever the call.

/// How long calls take: how finely they can be told apart depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallClass {
    /// 50 µs and longer.
    Long,
    /// 10 to 50 µs.
    Middle,
    /// Below 10 µs.
    Short,
}

impl CallClass {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Long, Self::Middle, Self::Short];

    /// The class of a call that takes this long.
    #[must_use]
    pub fn of(ns: f64) -> Self {
        if ns >= 50e3 {
            Self::Long
        } else if ns >= 10e3 {
            Self::Middle
        } else {
            Self::Short
        }
    }
    /// Widest half of an interval that is wanted.
    #[must_use]
    pub const fn half_width(self) -> f64 {
        match self {
            Self::Long => 0.005,
            Self::Middle => 0.01,
            Self::Short => 0.02,
        }
    }
    /// In words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Long => "50 µs and longer",
            Self::Middle => "10 to 50 µs",
            Self::Short => "below 10 µs",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_a_call_the_wider_its_interval_may_be() {
        for (ns, class, half) in [
            (50e3, CallClass::Long, 0.005),
            (49_999.0, CallClass::Middle, 0.01),
            (10e3, CallClass::Middle, 0.01),
            (9_999.0, CallClass::Short, 0.02),
            (f64::NAN, CallClass::Short, 0.02),
        ] {
            assert_eq!((CallClass::of(ns), CallClass::of(ns).half_width()), (class, half), "{ns}");
        }
    }
}
