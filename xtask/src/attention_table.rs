//! The table of `results/MODEL/attention_problem.json`: what reference, seed and grid of the attention problem are worth.

use serde_json::Value;

/// The table, in Markdown; rows of stages that the record lacks are left out.
pub(crate) fn markdown(record: &Value) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    confirmed(record, &mut rows);
    checked(record, &mut rows);
    evaluated(record, &mut rows);
    planted(record, &mut rows);
    let mut out = "| what | seen |\n|---|---|\n".to_owned();
    rows.iter().for_each(|(what, seen)| out.push_str(&format!("| {what} | {seen} |\n")));
    let commits = ["confirm", "check", "hopper182", "bugs"].map(|s| record[s]["commit"].as_str());
    let mut commits: Vec<&str> = commits.into_iter().flatten().collect();
    commits.sort_unstable();
    commits.dedup();
    let word = |key: &str| record[key].as_str().unwrap_or("?").to_owned();
    out.push_str(&format!("\n{}, driver {}, commit {}.\n", word("gpu"), word("driver"), commits.join(", ")));
    out
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// `held of all`, where a row holds if nothing is said to be wrong with it.
fn holding(rows: &[Value]) -> String {
    let held = rows.iter().filter(|r| list(&r["wrong"]).is_empty()).count();
    format!("{held} of {}", rows.len())
}

fn largest(rows: &[Value], key: &str) -> f64 {
    rows.iter().filter_map(|r| r[key].as_f64()).fold(0.0, f64::max)
}

fn seconds(rows: &[Value], key: &str) -> f64 {
    rows.iter().filter_map(|r| r["ms"][key].as_f64()).sum::<f64>() / 1e3
}

fn confirmed(record: &Value, rows: &mut Vec<(String, String)>) {
    let all = &record["confirm"];
    let scenarios = list(&all["scenarios"]);
    if !scenarios.is_empty() {
        let of_rows = |key: &str| scenarios.iter().filter_map(|s| s[key].as_u64()).sum::<u64>();
        rows.push((
            format!("reference against float64: {} of {} rows", of_rows("rows_checked"), of_rows("rows")),
            format!(
                "{} scenarios; at most {:.2} of the bound, {:.2} for the log-sum-exp",
                holding(scenarios),
                largest(scenarios, "ratio"),
                largest(scenarios, "lse_ratio")
            ),
        ));
        let right = |s: &&Value| s["seed"]["pass"] == true;
        rows.push((
            "seed, by the scenarios' tolerances".to_owned(),
            format!("{} of {}", scenarios.iter().filter(right).count(), scenarios.len()),
        ));
        rows.push((
            "one pass over the grid, a call each".to_owned(),
            format!(
                "seed {:.1} s; reference {:.1} s, an eighth of it {:.1} s; precision model {:.1} s",
                seconds(scenarios, "seed"),
                seconds(scenarios, "reference"),
                seconds(scenarios, "reference_sampled"),
                seconds(scenarios, "model")
            ),
        ));
    }
    for (key, what) in [
        ("cpu64", "reference against the CPU's, lengths ÷ 16"),
        ("semantics", "cases with an expectation of their own, reference and seed"),
    ] {
        let of = list(&all[key]);
        if !of.is_empty() {
            rows.push((what.to_owned(), holding(of)));
        }
    }
    let twins = list(&all["twins"]);
    let mut files: Vec<&str> = twins.iter().filter_map(|t| t["file"].as_str()).collect();
    files.dedup();
    let each: Vec<String> = files
        .iter()
        .map(|file| holding(&twins.iter().filter(|t| t["file"] == *file).cloned().collect::<Vec<_>>()))
        .collect();
    if !each.is_empty() {
        rows.push(("reference and seed on held-out twins".to_owned(), each.join(", ")));
    }
}

fn checked(record: &Value, rows: &mut Vec<(String, String)>) {
    let check = &record["check"];
    // Rows as `columns` names them: the fourth holds the trivial answers that a scenario accepts.
    let scenarios = list(&check["scenarios"]);
    if scenarios.is_empty() {
        return;
    }
    let refusing = scenarios.iter().filter(|s| list(&s[3]).is_empty()).count();
    rows.push((
        "trivial answers refused (`kernelseek check`)".to_owned(),
        format!("in {refusing} of {}", scenarios.len()),
    ));
    if let Some(ratio) = check["seed_to_itself"].as_f64() {
        rows.push(("the seed against itself, there".to_owned(), format!("{ratio:.4}×")));
    }
}

fn evaluated(record: &Value, rows: &mut Vec<(String, String)>) {
    for (key, what) in [
        ("hopper182", "the seed, calibrated, evaluated against itself: `hopper182`"),
        ("core26", "`core26`"),
        ("smoke", "`--quick` (the smoke set), nothing kept from before but what was built"),
        ("smoke_again", "the same again"),
    ] {
        let of = &record[key];
        let (Some(seconds), Some(word)) = (of["seconds"].as_f64(), of["word"].as_str()) else { continue };
        let mean = |k: &str| of["geomean"][k].as_f64().unwrap_or(f64::NAN);
        rows.push((
            what.to_owned(),
            format!("{word}, {:.4}× [{:.4}, {:.4}], {seconds:.1} s", mean("point"), mean("lo"), mean("hi")),
        ));
    }
}

fn planted(record: &Value, rows: &mut Vec<(String, String)>) {
    let all = list(&record["bugs"]["bugs"]);
    let (honest, bugs): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|b| b["honest"] == true);
    let fine = |of: &[&Value]| format!("{} of {}", of.iter().filter(|b| b["ok"] == true).count(), of.len());
    if !bugs.is_empty() {
        rows.push((
            "planted bugs found, nothing failing that lacks the feature".to_owned(),
            format!("{}; of roundings that are honest {} fail nowhere", fine(&bugs), fine(&honest)),
        ));
    }
}

/// Bug by bug: in how many of the scenarios that it may touch it was found.
pub(crate) fn bugs(record: &Value) -> String {
    let all = &record["bugs"];
    let mut out = "| planted | scenarios that it may touch | fail | others that fail | what is off |\n|---|---|---|---|---|\n".to_owned();
    for bug in list(&all["bugs"]) {
        let number = |key: &str| bug[key].as_u64().unwrap_or(0);
        let off: Vec<&str> = list(&bug["tensors"]).iter().filter_map(Value::as_str).collect();
        out.push_str(&format!(
            "| {} | {} | {} | {} | {} |\n",
            bug["does"].as_str().unwrap_or("?"),
            number("touched"),
            number("failing"),
            list(&bug["elsewhere"]).len(),
            if off.is_empty() { "nothing".to_owned() } else { off.join(", ") }
        ));
    }
    let evaluated = list(&all["bugs"]).iter().filter_map(|b| b["evaluated"].as_u64()).max().unwrap_or(0);
    let mut commits: Vec<&str> = list(&all["bugs"]).iter().filter_map(|b| b["commit"].as_str()).collect();
    commits.sort_unstable();
    commits.dedup();
    out.push_str(&format!(
        "\nOn {evaluated} scenarios of the grid, untimed; commit {}.\n",
        commits.join(", ")
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bugs_stand_one_in_a_row() {
        let record = json!({"bugs": {"bugs": [
            {"does": "no mask", "touched": 3, "failing": 2, "elsewhere": [], "tensors": ["lse", "out"], "evaluated": 9, "commit": "b"},
            {"does": "rounding", "touched": 0, "failing": 1, "elsewhere": ["H1"], "tensors": [], "evaluated": 8, "commit": "a"},
        ]}});
        let text = bugs(&record);
        for part in [
            "| no mask | 3 | 2 | 0 | lse, out |",
            "| rounding | 0 | 1 | 1 | nothing |",
            "\nOn 9 scenarios of the grid, untimed; commit a, b.\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn a_record_becomes_a_table() {
        let scenario = |wrong: &[&str], pass: bool| {
            json!({"wrong": wrong, "rows": 10, "rows_checked": 10, "ratio": 0.5, "lse_ratio": 0.25,
                   "seed": {"pass": pass}, "ms": {"seed": 500.0, "reference": 2000.0, "reference_sampled": 250.0, "model": 3000.0}})
        };
        let record = json!({
            "gpu": "NVIDIA H200", "driver": "1.2",
            "confirm": {"commit": "abc", "scenarios": [scenario(&[], true), scenario(&["x"], false)], "cpu64": [{"wrong": []}],
                        "twins": [{"file": "a", "wrong": []}, {"file": "b", "wrong": ["x"]}]},
            "check": {"commit": "def", "seed_to_itself": 1.00004, "scenarios": [["H1", 0.1, 0.2, [], 0.0, []], ["H2", 0.1, 0.2, ["zeros"], 0.0, []]]},
            "core26": {"seconds": 31.26, "word": "PASS", "geomean": {"point": 1.0, "lo": 0.9991, "hi": 1.0012}},
            "bugs": {"bugs": [{"ok": true, "honest": false}, {"ok": false, "honest": false}, {"ok": true, "honest": true}]},
        });
        let text = markdown(&record);
        for part in [
            "| reference against float64: 20 of 20 rows | 1 of 2 scenarios; at most 0.50 of the bound, 0.25 for",
            "| seed, by the scenarios' tolerances | 1 of 2 |",
            "seed 1.0 s; reference 4.0 s, an eighth of it 0.5 s; precision model 6.0 s",
            "| reference against the CPU's, lengths ÷ 16 | 1 of 1 |",
            "| reference and seed on held-out twins | 1 of 1, 0 of 1 |",
            "| in 1 of 2 |",
            "| 1.0000× |",
            "| `core26` | PASS, 1.0000× [0.9991, 1.0012], 31.3 s |",
            "| 1 of 2; of roundings that are honest 1 of 1 fail nowhere |",
            "\nNVIDIA H200, driver 1.2, commit abc, def.\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(markdown(&json!({})), "| what | seen |\n|---|---|\n\n?, driver ?, commit .\n");
    }
}
