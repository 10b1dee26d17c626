//! Raw pairs as a record keeps them. A GPU tells more of each pair than any figure is made from, and a record has tens of
//! thousands of them: there each pair is one row of numbers, and the file stays readable in one go.

use crate::scenario_state::{GpuPair, GpuSide, Instance, Pair};
use serde::{Deserialize, Serialize};

/// The pairs of one scenario, worker instance by worker instance.
///
/// In JSON an instance of the cpu target is the object that an evaluation writes. One of a GPU is an object with `rows`, each
/// `[calls, seed first (1 or 0), seed, candidate, wall of the seed's request, wall of the candidate's, clock after the
/// seed's, clock after the candidate's]`: times in nanoseconds, by events unless named wall, clocks in MHz. A pair that was not
/// held at a gate has no walls: 0.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Stored>", into = "Vec<Stored>")]
pub struct Raw(pub Vec<Instance>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Rows {
        rows: Vec<[i64; 8]>,
        seed_first_ns: f64,
        candidate_first_ns: f64,
        prepare_ns: Option<f64>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        swapped: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blank_ns: Option<[f64; 2]>,
    },
    Plain(Instance),
}

impl From<Raw> for Vec<Stored> {
    fn from(raw: Raw) -> Self {
        raw.0.into_iter().map(stored).collect()
    }
}

impl From<Vec<Stored>> for Raw {
    fn from(stored: Vec<Stored>) -> Self {
        Self(stored.into_iter().map(instance).collect())
    }
}

fn stored(instance: Instance) -> Stored {
    let rows: Option<Vec<[i64; 8]>> = instance.pairs.iter().map(row).collect();
    match rows {
        Some(rows) if !rows.is_empty() => Stored::Rows {
            rows,
            seed_first_ns: instance.seed_first_ns,
            candidate_first_ns: instance.candidate_first_ns,
            prepare_ns: instance.prepare_ns,
            swapped: instance.swapped,
            blank_ns: instance.blank_ns,
        },
        _ => Stored::Plain(instance),
    }
}

/// A pair as one row; `None` for one that needs more.
fn row(pair: &Pair) -> Option<[i64; 8]> {
    let gpu = pair.gpu?;
    let whole = |x: f64| x.round() as i64;
    let gated = gpu.held();
    let wall = |side: GpuSide| if gated { whole(side.wall_ns) } else { 0 };
    let row = [
        i64::from(pair.n),
        i64::from(pair.seed_first),
        whole(pair.seed_ns),
        whole(pair.candidate_ns),
        wall(gpu.seed),
        wall(gpu.candidate),
        whole(gpu.seed.sm_mhz),
        whole(gpu.candidate.sm_mhz),
    ];
    // Times that are not whole, or whose sums of calls are other times, are not to be recomputed from a row.
    let same =
        [(pair.seed_ns, pair.seed_inner_ns, row[2]), (pair.candidate_ns, pair.candidate_inner_ns, row[3])];
    same.iter().all(|(ns, inner, whole)| ns == inner && *ns == *whole as f64).then_some(row)
}

fn instance(stored: Stored) -> Instance {
    match stored {
        Stored::Plain(instance) => instance,
        Stored::Rows { rows, seed_first_ns, candidate_first_ns, prepare_ns, swapped, blank_ns } => Instance {
            pairs: rows.into_iter().map(pair).collect(),
            seed_first_ns,
            candidate_first_ns,
            prepare_ns,
            swapped,
            blank_ns,
        },
    }
}

fn pair([n, first, seed, candidate, seed_wall, candidate_wall, seed_mhz, candidate_mhz]: [i64; 8]) -> Pair {
    let side = |wall: i64, mhz: i64| GpuSide {
        wall_ns: wall as f64,
        stream_ns: wall as f64,
        sm_mhz: mhz as f64,
        ..GpuSide::default()
    };
    Pair {
        n: u32::try_from(n).unwrap_or(0),
        seed_ns: seed as f64,
        candidate_ns: candidate as f64,
        seed_inner_ns: seed as f64,
        candidate_inner_ns: candidate as f64,
        candidate_waited_ns: 0.0,
        seed_first: first != 0,
        gpu: Some(GpuPair {
            seed: side(seed_wall, seed_mhz),
            candidate: side(candidate_wall, candidate_mhz),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through_json(raw: &Raw) -> (String, Raw) {
        let text = serde_json::to_string(raw).unwrap();
        let back = serde_json::from_str(&text).unwrap();
        (text, back)
    }

    #[test]
    fn pairs_of_a_cpu_stay_as_they_are() {
        let cpu = Pair { gpu: None, seed_inner_ns: 3.5, ..pair([4, 1, 10, 11, 0, 0, 0, 0]) };
        let raw = Raw(vec![Instance { pairs: vec![cpu], ..Instance::default() }, Instance::default()]);
        let (text, back) = through_json(&raw);
        assert!(text.contains("\"seed_inner_ns\":3.5") && !text.contains("rows"), "{text}");
        assert_eq!(back, raw);
    }

    #[test]
    fn what_a_row_cannot_hold_stays_whole() {
        let whole_call = |change: fn(&mut Pair)| {
            let mut odd = pair([4, 1, 10, 11, 20, 21, 1980, 1980]);
            change(&mut odd);
            Raw(vec![Instance { pairs: vec![odd], ..Instance::default() }])
        };
        for raw in [whole_call(|p| p.seed_inner_ns = 9.0), whole_call(|p| p.candidate_ns = 10.5)] {
            let (text, back) = through_json(&raw);
            assert!(!text.contains("rows"), "{text}");
            assert_eq!(back, raw);
        }
    }

    #[test]
    fn a_whole_record_is_small() {
        // More than 500 verdicts and 100 gains of 8 instances with 7 pairs.
        let long = pair([16, 1, 123_456_789, 123_456_789, 123_456_789, 123_456_789, 1980, 1980]);
        let instance = Instance { pairs: vec![long; 7], ..Instance::default() };
        let text = serde_json::to_string(&Raw(vec![instance; 8])).unwrap();
        assert!(text.len() * 650 < 4 << 20, "{}", text.len());
    }

    proptest! {
        #[test]
        fn rows_come_back_as_what_figures_are_made_from(
            rows in prop::collection::vec((1i64..17, 0i64..2, prop::array::uniform6(0i64..1 << 40)), 1..20),
            swapped: bool,
            blank in prop::option::of(prop::array::uniform2(0u32..10_000)),
        ) {
            let rows = rows.into_iter().map(|(n, f, [a, b, c, d, e, g])| [n, f, a, b, c, d, e, g]);
            let pairs: Vec<Pair> = rows.map(|mut row| {
                // Both walls are there or none is.
                if row[4] == 0 || row[5] == 0 {
                    (row[4], row[5]) = (0, 0);
                }
                pair(row)
            }).collect();
            let raw = Raw(vec![Instance {
                pairs,
                seed_first_ns: 1.5,
                candidate_first_ns: 2.0,
                prepare_ns: None,
                swapped,
                blank_ns: blank.map(|both| both.map(|ns| f64::from(ns) / 8.0)),
            }]);
            let (text, back) = through_json(&raw);
            prop_assert!(text.contains("\"rows\""));
            prop_assert_eq!(back, raw);
        }

        #[test]
        fn any_numbers_are_read_without_a_panic(row in prop::array::uniform8(any::<i64>())) {
            let text = format!("[{{\"rows\":[{row:?}],\"seed_first_ns\":0,\"candidate_first_ns\":0,\"prepare_ns\":null}}]");
            let raw: Raw = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(raw.0[0].pairs.len(), 1);
        }
    }
}
