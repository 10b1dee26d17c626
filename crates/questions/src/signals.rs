//! Signals: the numbers that triggers read, all of them computed from the rows of a ledger alone.

use kernelseek_core::value::Value;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Type of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A count.
    Int,
    /// A finite double.
    Double,
    /// Whether something is so.
    Bool,
}

impl Kind {
    /// The name as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Double => "double",
            Self::Bool => "bool",
        }
    }

    const fn fits(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Self::Int, Value::Int(_)) | (Self::Double, Value::Float(_)) | (Self::Bool, Value::Bool(_))
        )
    }
}

/// What a signal speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// How far the candidate has come.
    Score,
    /// What the machine allows.
    Physics,
    /// How good the measurement is.
    Hygiene,
    /// Whether results are right.
    Truth,
    /// How the search goes.
    Conduct,
}

/// A signal that the registry knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its unit; `1` for pure numbers.
    pub unit: &'static str,
    /// What it speaks of.
    pub family: Family,
    /// What it is.
    pub meaning: &'static str,
}

macro_rules! registry {
    ($($name:ident $kind:ident $unit:literal $family:ident $meaning:literal;)+) => {
        /// Every signal, by family.
        pub const REGISTRY: &[Signal] = &[$(Signal {
            name: stringify!($name),
            kind: Kind::$kind,
            unit: $unit,
            family: Family::$family,
            meaning: $meaning,
        }),+];
    };
}

registry! {
    has_incumbent Bool "1" Score "whether a candidate was promoted";
    scenarios Int "scenarios" Score "scenarios of the campaign";
    geomean Double "1" Score "the incumbent's geomean against the seed; 1 without an incumbent";
    goal_distance Double "1" Score "1 minus the worst ratio of reached to needed over unmet speedup clauses; 0 if there is none";
    below_goal Int "scenarios" Score "scenarios that miss a clause of the goal";
    unresolved Int "scenarios" Score "scenarios whose interval is wider than a clause's margin";
    fallbacks Int "scenarios" Score "scenarios that the incumbent leaves to a fallback";
    fallback_rise Int "scenarios" Score "fallbacks of the last evaluation above those of the incumbent";
    worst_ratio Double "1" Score "least ratio of a scenario";
    worst_over_geomean Double "1" Score "least ratio over the geomean";
    best_over_worst Double "1" Score "greatest ratio over the least";
    mean_over_median Double "1" Score "mean of the ratios over their median";
    top_fifth_shortfall Double "1" Score "share of the log shortfall that the worst fifth of the scenarios holds";
    small_over_large Double "1" Score "geomean of the quarter of scenarios with the shortest seed time over that of the quarter with the longest";
    step_gain Double "1" Score "geomean of the last evaluation over that of the incumbent before it";
    step_gain_max Double "1" Score "the same for the scenario that gained most";
    rose_share Double "1" Score "share of the scenarios that rose at the last evaluation against the incumbent";
    slope_10 Double "1" Score "gain of the best geomean over the last ten evaluations, as a fraction";

    no_cost_model Bool "1" Physics "whether the problem has no cost model, and so no floor";
    below_floor Bool "1" Physics "whether a time lies below its floor";
    floor_share_max Double "1" Physics "floor over candidate time, for the scenario nearest to its floor";
    floor_share_median Double "1" Physics "floor over candidate time, median over the scenarios";

    half_width_median Double "1" Hygiene "relative half-width of a scenario's interval, median over the scenarios";
    aa_spread Double "1" Hygiene "relative spread of the seed measured against itself";
    first_over_steady Double "1" Hygiene "largest first-call time over the median call time";
    prepare_over_call Double "1" Hygiene "time of the preparation outside the call over the time of a call";
    quick_share Double "1" Hygiene "share of the last ten evaluations that were quick ones";
    unread_share Double "1" Hygiene "share of the last ten evaluations without a scenario outside the quick set";
    full_runs Int "evaluations" Hygiene "full evaluations";
    reduced_trust Bool "1" Hygiene "whether results were had with fewer defences than the machine could offer";

    failing Int "scenarios" Truth "scenarios that failed when they were last evaluated";
    fail_streak Int "evaluations" Truth "evaluations in a row with a failing scenario, up to the last";
    same_scenario_fails Int "candidates" Truth "candidates in a row in which one and the same scenario fails, up to the last";
    intermittent Bool "1" Truth "whether the same candidate has passed and failed";
    unproven Int "scenarios" Truth "scenarios of the last evaluation with an anomaly that is not cleared";
    error_ratio_max Double "1" Truth "largest error over its bound in the last evaluation";
    error_ratio_rise Double "1" Truth "that over the incumbent's";
    held_out_misses Int "scenarios" Truth "held-out scenarios that the last full evaluation missed";
    no_held_out Bool "1" Truth "whether the problem draws no held-out scenarios";
    audited Bool "1" Truth "whether the last evaluation was audited";
    audit_flag Bool "1" Truth "whether an audit found something";
    sealed_changed Bool "1" Truth "whether something sealed is no longer what it was";

    evaluations Int "evaluations" Conduct "evaluations that finished";
    promotions Int "promotions" Conduct "promotions";
    since_promotion Int "evaluations" Conduct "evaluations since the last promotion, or since the start";
    minutes_since_promotion Int "minutes" Conduct "active time since the last promotion, or since the start";
    promotions_without_step_check Int "promotions" Conduct "promotions whose gain no second measurement confirmed step by step";
    stop_attempts Int "attempts" Conduct "attempts to stop that were refused since the last promotion";
    reverts Int "edits" Conduct "edits that brought back an earlier state, in the last ten";
    layer_run Int "hypotheses" Conduct "latest hypotheses in a row that are about one layer";
    layers_seen Int "layers" Conduct "layers that some hypothesis was about";
    hypotheses Int "hypotheses" Conduct "hypotheses";
    edits_without_hypothesis Int "edits" Conduct "evaluated edits that no hypothesis came before";
    claims Int "claims" Conduct "claims of a limit or of completion since the last promotion";
    person_questions Int "questions" Conduct "questions that a person asked";
    duplicate_share Double "1" Conduct "share of the added lines of the last twenty edits that equal lines deleted earlier";
    limit_words Bool "1" Conduct "whether the last message speaks of a limit";
    excuse_words Bool "1" Conduct "whether the last message explains a failure away";
}

/// The signal of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Signal> {
    REGISTRY.iter().find(|s| s.name == name)
}

/// What the signals were at one moment. A signal may be absent: it could not be computed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signals(BTreeMap<String, Value>);

impl Signals {
    /// No signal at all.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Sets an integer signal.
    pub fn int(&mut self, name: &str, value: i64) -> &mut Self {
        self.set(name, Value::Int(value))
    }

    /// Sets a double signal; one that is not finite is absent.
    pub fn double(&mut self, name: &str, value: f64) -> &mut Self {
        if value.is_finite() { self.set(name, Value::Float(value)) } else { self.absent(name) }
    }

    /// Sets a bool signal.
    pub fn bool(&mut self, name: &str, value: bool) -> &mut Self {
        self.set(name, Value::Bool(value))
    }

    /// Makes a signal absent.
    pub fn absent(&mut self, name: &str) -> &mut Self {
        self.0.remove(name);
        self
    }

    fn set(&mut self, name: &str, value: Value) -> &mut Self {
        debug_assert!(
            find(name).is_some_and(|s| s.kind.fits(&value)),
            "the registry has no signal {name} that could be {value}"
        );
        self.0.insert(name.to_owned(), value);
        self
    }

    /// The value of a signal, if it is present.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Every present signal with its value, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Serialize for Signals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            match value {
                Value::Int(i) => map.serialize_entry(name, i)?,
                Value::Bool(b) => map.serialize_entry(name, b)?,
                other => map.serialize_entry(name, &other.as_float())?,
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Signals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(SignalsVisitor)
    }
}

struct SignalsVisitor;

impl<'de> Visitor<'de> for SignalsVisitor {
    type Value = Signals;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of numbers and bools")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Signals, A::Error> {
        let mut signals = Signals::new();
        while let Some((name, value)) = map.next_entry::<String, Raw>()? {
            let kind = find(&name).map(|s| s.kind);
            let value = match (kind, value) {
                (_, Raw::Null) => continue,
                // Not every writer of JSON keeps the point of 1.0; records of other versions may hold other names.
                (Some(Kind::Double), Raw::Int(i)) => Value::Float(i as f64),
                (_, Raw::Int(i)) => Value::Int(i),
                (_, Raw::Float(x)) if x.is_finite() => Value::Float(x),
                (_, Raw::Float(_)) => continue,
                (_, Raw::Bool(b)) => Value::Bool(b),
            };
            if kind.is_some_and(|k| !k.fits(&value)) {
                let message = format!("the signal {name} is {}", value.kind());
                return Err(serde::de::Error::custom(message));
            }
            signals.0.insert(name, value);
        }
        Ok(signals)
    }
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Raw {
    Bool(bool),
    Int(i64),
    Float(f64),
    Null,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_registry_names_each_signal_once() {
        let names: BTreeSet<_> = REGISTRY.iter().map(|s| s.name).collect();
        assert_eq!(names.len(), REGISTRY.len());
        let count = |kind| REGISTRY.iter().filter(|s| s.kind == kind).count();
        assert_eq!((count(Kind::Int), count(Kind::Double), count(Kind::Bool)), (24, 23, 11));
        for signal in REGISTRY {
            assert!(!signal.meaning.is_empty() && !signal.unit.is_empty(), "{}", signal.name);
        }
    }

    #[test]
    fn signals_survive_json_and_what_is_not_finite_is_absent() {
        let mut signals = Signals::new();
        signals.int("evaluations", 12).double("geomean", 1.0).bool("audited", true);
        signals.double("slope_10", f64::NAN).double("aa_spread", f64::INFINITY);
        let json = serde_json::to_string(&signals).unwrap();
        assert_eq!(json, r#"{"audited":true,"evaluations":12,"geomean":1.0}"#);
        assert_eq!(serde_json::from_str::<Signals>(&json).unwrap(), signals);
        let whole = r#"{"audited":true,"evaluations":12,"geomean":1,"slope_10":null}"#;
        assert_eq!(serde_json::from_str::<Signals>(whole).unwrap(), signals);
        signals.double("geomean", f64::NAN);
        assert_eq!(signals.get("geomean"), None, "a value that is no number takes the earlier one away");
    }

    #[test]
    fn a_signal_of_the_wrong_type_is_refused() {
        for json in [
            r#"{"evaluations": 1.5}"#,
            r#"{"audited": 1}"#,
            r#"{"geomean": true}"#,
            "[]",
            r#"{"geomean": "1"}"#,
        ] {
            assert!(serde_json::from_str::<Signals>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_signal_of_another_version_is_kept() {
        let signals: Signals = serde_json::from_str(r#"{"once_known": 3}"#).unwrap();
        assert_eq!(signals.get("once_known"), Some(&Value::Int(3)));
    }
}
