//! `problem.toml` and the scenario file.

use crate::plan::{Plan, Purpose};
use crate::poly::Polynomial;
use crate::scenario::{Scenario, bytes, touched};
use kernelseek_core::case::Role;
use std::fmt::Write as _;

/// What the texts speak of.
pub(crate) struct About<'a> {
    pub(crate) name: &'a str,
    pub(crate) function: &'a str,
    pub(crate) file: &'a str,
    pub(crate) line: usize,
    pub(crate) seed: &'a str,
    pub(crate) reference: &'a str,
    pub(crate) flags: &'a [&'a str],
    pub(crate) remarks: &'a [String],
    /// For the cuda target.
    pub(crate) cuda: bool,
}

fn list(all: &[Polynomial]) -> String {
    all.iter().map(|e| format!("\"{}\"", e.text())).collect::<Vec<_>>().join(", ")
}

pub(crate) fn problem(plan: &Plan, scenarios: &[Scenario], about: &About<'_>) -> String {
    let mut out = String::new();
    let quick: Vec<String> = scenarios
        .iter()
        .filter(|s| matches!(s.id.as_str(), "base" | "odd"))
        .chain(scenarios.first())
        .map(|s| format!("\"{}\"", s.id))
        .fold(Vec::new(), |mut all, id| {
            if !all.contains(&id) {
                all.push(id);
            }
            all
        });
    let _ = writeln!(
        out,
        "# The problem of `{}`, {}:{}. Lines with CHECK are guesses.",
        about.function, about.file, about.line
    );
    let _ = writeln!(out, "# docs/reference/problem-format.md says what each key means.\n");
    for remark in about.remarks.iter().chain(&plan.guesses) {
        let _ = writeln!(out, "# CHECK {remark}");
    }
    let _ = writeln!(out, "format = 1\nname = \"{}\"", about.name);
    out.push_str("# CHECK summary: say in one line what it computes\n");
    let _ = writeln!(out, "summary = \"{} from {}\"", plain(about.function), plain(about.file));
    let set = if about.cuda { "cuda" } else { "cpu" };
    if about.cuda {
        out.push_str("target = \"cuda\"\n");
    }
    let _ = writeln!(
        out,
        "\n[scenarios]\ndefault = \"{set}\"\nquick = [{}]      # what `eval --quick` takes\n",
        quick.join(", ")
    );
    let _ = writeln!(out, "[scenarios.files]\n{set} = \"{set}.jsonl\"\n\n[fields]");
    for field in &plan.fields {
        for guess in &field.guesses {
            let _ = writeln!(out, "# CHECK {}: {guess}", field.name);
        }
        let max = field.max.map_or_else(String::new, |m| format!(", max = {m}"));
        let min = if field.purpose == Purpose::Number || field.purpose == Purpose::Flag {
            String::new()
        } else {
            format!(", min = {}", field.min)
        };
        let _ = writeln!(out, "{} = {{ type = \"int\"{min}{max} }}", field.name);
    }
    for tensor in &plan.tensors {
        let role = match tensor.role {
            Role::Varying => "varying",
            Role::Constant => "constant",
            Role::Inout => "inout",
            Role::Output => "output",
        };
        let _ = writeln!(out, "\n[[tensor]]\nname = \"{}\"", tensor.name);
        for guess in tensor.guesses.iter().filter(|g| g.starts_with(role)) {
            let _ = writeln!(out, "# CHECK {}, {guess}", tensor.name);
        }
        let _ = writeln!(out, "role = \"{role}\"");
        for guess in tensor.guesses.iter().filter(|g| g.starts_with("dtype")) {
            let _ = writeln!(out, "# CHECK {}, {guess}", tensor.name);
        }
        let _ = writeln!(out, "dtype = \"{}\"", tensor.scalar.dtype);
        for guess in tensor.guesses.iter().filter(|g| g.starts_with("shape") || g.starts_with("stride")) {
            let _ = writeln!(out, "# CHECK {}, {guess}", tensor.name);
        }
        let _ = writeln!(out, "shape = [{}]", list(&tensor.shape));
        if let Some(stride) = &tensor.stride {
            let _ = writeln!(out, "stride = [{}]", list(stride));
        }
        if let Some(generator) = &tensor.generator {
            for guess in tensor.guesses.iter().filter(|g| g.starts_with("generator")) {
                let _ = writeln!(out, "# CHECK {}, {guess}", tensor.name);
            }
            let _ = writeln!(out, "generator = {generator}");
        }
    }
    for attribute in &plan.attributes {
        out.push_str("\n[[attribute]]\n");
        let _ = writeln!(out, "name = \"{}\"", attribute.name);
        for guess in &attribute.guesses {
            let _ = writeln!(out, "# CHECK {}: {guess}", attribute.name);
        }
        let kind = if attribute.real { "f64" } else { "i64" };
        let _ = writeln!(out, "type = \"{kind}\"\nvalue = \"{}\"", attribute.value);
    }
    cost(&mut out, plan);
    let _ = writeln!(out, "\n[reference]\nsource = \"{}\"\nprecision = \"f64\"", about.reference);
    let _ = writeln!(out, "\n[seed]\nsource = \"{}\"", about.seed);
    let flags: Vec<String> = about.flags.iter().map(|f| format!("\"{f}\"")).collect();
    out.push_str("\n[build]                     # the same for seed and candidate\n");
    out.push_str(
        "# CHECK flags: those that your kernel is built with, or the seed is slower than what you have\n",
    );
    let link = if about.cuda { "" } else { "\"-lm\"" };
    let _ = writeln!(out, "flags = [{}]\nlink = [{link}]", flags.join(", "));
    out.push_str(
        "\n[tolerance]                 # in units of the seed's own error; these are the defaults\n# k = 4.0\n# rms_k = 3.0\n\
         # floor_ulps = 2.0\n",
    );
    if !about.cuda {
        out.push_str(
            "\n[constraints]\n# CHECK threads: one core; raise it if your kernel may use more\nthreads = 1\n",
        );
    }
    held_out(&mut out, plan);
    out
}

/// A count of operations that is longer than this tells nobody anything.
const LONGEST_COUNT: usize = 60;

fn cost(out: &mut String, plan: &Plan) {
    let (Some(flops), Some(bytes)) = (touched(plan), bytes(plan)) else { return };
    out.push_str("\n[cost]\n");
    let counted = plan
        .operations
        .as_ref()
        .map(Polynomial::text)
        .filter(|text| text.len() <= LONGEST_COUNT)
        .map_or_else(String::new, |text| format!("; the source does about {text}"));
    let _ = writeln!(
        out,
        "# CHECK flops: one an element, surely not too many{counted}.\n# A candidate that is faster than the cost allows is called impossible: count only what no method can avoid."
    );
    let _ = writeln!(out, "flops = \"{flops}\"");
    let partly: Vec<&str> = plan.tensors.iter().filter(|t| !t.whole).map(|t| t.name.as_str()).collect();
    let left_out = if partly.is_empty() {
        String::new()
    } else {
        format!("; without {}, which may be read in part", partly.join(", "))
    };
    let _ = writeln!(out, "# CHECK bytes: every element of every tensor moved once{left_out}");
    let _ = writeln!(out, "bytes = \"{bytes}\"");
}

fn held_out(out: &mut String, plan: &Plan) {
    let vary: Vec<_> =
        plan.fields.iter().filter(|f| matches!(f.purpose, Purpose::Size | Purpose::Pitch)).collect();
    if vary.is_empty() {
        return;
    }
    out.push_str("\n[held_out]                  # scenarios that every `--full` draws afresh\nshare = 0.25\nmax_gap = 0.25\n");
    let mut keep: Vec<String> =
        plan.needs.iter().map(|(room, used)| format!("{} >= {}", room.text(), used.text())).collect();
    keep.extend(vary.iter().filter_map(|f| f.max.map(|m| format!("{} <= {m}", f.name))));
    for tensor in &plan.tensors {
        for extent in &tensor.shape {
            if !extent.never_negative()
                || extent.constant().is_none() && !extent.plus_number(-1).is_some_and(|e| e.never_negative())
            {
                keep.push(format!("{} >= 1", extent.text()));
            }
        }
    }
    let largest =
        plan.tensors.iter().filter_map(crate::plan::Tensor::elements).max_by_key(Polynomial::degree);
    if let Some(elements) = largest.filter(|e| e.constant().is_none()) {
        keep.push(format!("{} >= 256", elements.text()));
    }
    keep.sort();
    keep.dedup();
    out.push_str("# CHECK keep: what must hold of a drawn scenario\n");
    let _ = writeln!(out, "keep = \"{}\"", keep.join(" && "));
    out.push_str("\n[held_out.vary]\n");
    for field in vary {
        if field.multiple > 1 {
            let choices: Vec<String> = [3, 5, 7, 11, 13, 29, 61, 117]
                .iter()
                .map(|n| n * field.multiple)
                .filter(|n| field.max.is_none_or(|m| *n <= m))
                .map(|n| n.to_string())
                .collect();
            let _ = writeln!(out, "{} = {{ choose = [{}] }}", field.name, choices.join(", "));
        } else {
            let _ = writeln!(out, "{} = {{ scale = [0.8, 1.2], min = {} }}", field.name, field.min);
        }
    }
}

/// Text for a TOML string in double quotes.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\').collect()
}

pub(crate) fn lines(plan: &Plan, scenarios: &[Scenario]) -> String {
    let mut out = String::new();
    for s in scenarios {
        let mut line = serde_json::Map::new();
        line.insert("id".to_owned(), s.id.clone().into());
        for field in &plan.fields {
            line.insert(field.name.clone(), s.values.get(&field.name).copied().into());
        }
        if s.tiny {
            line.insert("tags".to_owned(), vec!["tiny"].into());
        }
        line.insert("note".to_owned(), s.note.clone().into());
        let text = serde_json::Value::Object(line).to_string();
        out.push_str(&text.replace("\":", "\": ").replace(",\"", ", \""));
        out.push('\n');
    }
    out
}
