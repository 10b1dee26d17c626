//! Converts the published attention scenario grid to scenario lines of `problems/cuda/attention_forward`.

use serde_json::{Map, Value};

/// Short scenarios that have every layout, dtype and mask among them.
const SMOKE: [&str; 12] =
    ["H074", "H094", "H122", "H167", "H168", "H171", "H175", "H177", "H178", "H179", "H181", "H182"];

/// A grid that does not have the expected form.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GridError {
    /// Not JSON.
    #[error("the grid is not JSON")]
    Json(#[from] serde_json::Error),
    /// A scenario lacks something.
    #[error("scenario {0}: no `{1}` of the expected type")]
    Field(String, &'static str),
}

/// The scenario lines for a grid: only what `problem.toml` declares, defaults left out.
///
/// # Errors
/// If `grid` is not JSON or a scenario lacks a field.
pub(crate) fn convert(grid: &str) -> Result<String, GridError> {
    let lines = each(grid, |id, s| {
        let mut line = Map::new();
        line.insert("id".into(), id.into());
        line.insert("tags".into(), tags(id, s)?);
        line.insert("note".into(), note(s).into());
        for key in ["B", "Hq", "Hkv", "Sq", "Skv", "D"] {
            line.insert(key.into(), integer(id, s, key)?.into());
        }
        let value_dim = integer(id, s, "Dv")?;
        if value_dim != integer(id, s, "D")? {
            line.insert("Dv".into(), value_dim.into());
        }
        let dtype = match string(id, s, "dtype")? {
            "fp16" => "f16",
            "fp8" => "f8e4m3",
            other => other,
        };
        line.insert("dtype".into(), dtype.into());
        for key in [
            "layout",
            "page_size",
            "causal",
            "sink",
            "softcap",
            "softmax_scale",
            "q_lens",
            "kv_lens",
            "leftpad",
        ] {
            let value = s.get(key).unwrap_or(&Value::Null);
            let usual = value.is_null() || *value == false || *value == 0.0 || *value == "dense";
            if !usual {
                line.insert(key.into(), value.clone());
            }
        }
        if let Some(window) = s.get("window").filter(|w| **w != serde_json::json!([-1, -1])) {
            line.insert("window".into(), window.clone());
        }
        let distribution = string(id, s, "input_dist")?;
        if distribution != "randn" {
            line.insert("input_dist".into(), distribution.into());
        }
        if string(id, s, "name")?.starts_with("packed_qkv") {
            line.insert("packed_qkv".into(), true.into());
        }
        Ok(Value::Object(line))
    })?;
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

/// What the grid says about each scenario, to check the problem's expressions against: a JSON list of objects with
/// `id`, `flops` (to four digits), `bytes`, `total_q` and `total_k` (stored rows).
///
/// # Errors
/// If `grid` is not JSON or a scenario lacks a field.
pub(crate) fn expected(grid: &str) -> Result<String, GridError> {
    let all = each(grid, |id, s| {
        let derived = s.get("derived").ok_or_else(|| GridError::Field(id.to_owned(), "derived"))?;
        let part =
            |key: &'static str| derived.get(key).cloned().ok_or_else(|| GridError::Field(id.to_owned(), key));
        let rows = |length: &'static str, lengths: &'static str| {
            if string(id, s, "layout")? == "varlen" {
                let list = s.get(lengths).and_then(Value::as_array);
                let list = list.ok_or_else(|| GridError::Field(id.to_owned(), lengths))?;
                Ok::<i64, GridError>(list.iter().filter_map(Value::as_i64).sum())
            } else {
                Ok(integer(id, s, "B")? * integer(id, s, length)?)
            }
        };
        Ok(serde_json::json!({
            "id": id,
            "flops": part("flops")?,
            "bytes": part("bytes_min")?,
            "total_q": rows("Sq", "q_lens")?,
            "total_k": rows("Skv", "kv_lens")?,
        }))
    })?;
    Ok(format!("[\n{}\n]\n", all.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n")))
}

/// What `make` makes of each scenario of the grid.
fn each(
    grid: &str,
    make: impl Fn(&str, &Value) -> Result<Value, GridError>,
) -> Result<Vec<Value>, GridError> {
    let grid: Value = serde_json::from_str(grid)?;
    let scenarios = grid.get("scenarios").and_then(Value::as_array);
    let scenarios = scenarios.ok_or_else(|| GridError::Field("(all)".to_owned(), "scenarios"))?;
    scenarios.iter().map(|s| make(string("(unnamed)", s, "id")?, s)).collect()
}

fn string<'a>(id: &str, s: &'a Value, key: &'static str) -> Result<&'a str, GridError> {
    s.get(key).and_then(Value::as_str).ok_or_else(|| GridError::Field(id.to_owned(), key))
}

fn integer(id: &str, s: &Value, key: &'static str) -> Result<i64, GridError> {
    s.get(key).and_then(Value::as_i64).ok_or_else(|| GridError::Field(id.to_owned(), key))
}

fn tags(id: &str, s: &Value) -> Result<Value, GridError> {
    let mut tags = vec![Value::from(string(id, s, "group")?), Value::from(string(id, s, "phase")?)];
    if s.get("core26") == Some(&Value::Bool(true)) {
        tags.push("core26".into());
    }
    if SMOKE.contains(&id) {
        tags.push("smoke".into());
    }
    Ok(Value::Array(tags))
}

/// Name, model and remark of a scenario as one line of text.
fn note(s: &Value) -> String {
    let parts = ["name", "model", "note"].map(|key| s.get(key).and_then(Value::as_str));
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}
