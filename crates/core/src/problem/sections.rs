//! The sections of a problem file, all but the tensors. Every reader reports what is wrong and yields `None`
//! if nothing usable is left.

use super::document::{Item, Table};
use super::{
    Attribute, AttributeType, Build, Constraints, Cost, Field, FieldType, HeldOut, Language, Let, Precision,
    QuickId, Reference, ScenarioFile, ScenarioSets, SourceFile, Target, ToleranceRule, ToleranceTable,
    Varied, Vary, names,
};
use crate::diagnostic::{Collector, suggestion};
use crate::kernel_file::flags;
use crate::value::Value;

/// The table under `key`, if it is there, with its keys checked.
fn section<'a>(
    root: &Table<'a>,
    key: &str,
    known: &[&str],
    errors: &mut Collector,
) -> Option<Option<Table<'a>>> {
    let Some(item) = root.get(key) else { return Some(None) };
    let table = item.table(&format!("[{key}]"), errors)?;
    table.check_keys(known, errors);
    Some(Some(table))
}

fn required_section<'a>(
    root: &Table<'a>,
    key: &str,
    known: &[&str],
    errors: &mut Collector,
) -> Option<Table<'a>> {
    let found = section(root, key, known, errors)?;
    if found.is_none() {
        errors.error(&(0..0), format!("the problem file has no [{key}]"));
    }
    found
}

pub(super) fn scenarios(root: &Table<'_>, errors: &mut Collector) -> Option<ScenarioSets> {
    let table = required_section(root, "scenarios", &["default", "quick", "files"], errors)?;
    let files = scenario_files(&table, errors);
    let default = table.require("default", errors).and_then(|item| {
        let name = item.string(errors)?;
        if let Some(files) = &files
            && !files.iter().any(|(n, _)| n == name)
        {
            let hint = suggestion(name, files.iter().map(|(n, _)| n.as_str()));
            let hint = hint.unwrap_or_else(|| "add it to [scenarios.files]".into());
            errors.error_hint(&item.span, format!("unknown scenario set `{name}`"), hint);
        }
        Some(name.to_owned())
    });
    let quick = table.require("quick", errors).and_then(|item| {
        let ids: Vec<QuickId> = item
            .list(errors)?
            .iter()
            .filter_map(|i| Some(QuickId { id: i.string(errors)?.to_owned(), span: i.span.clone() }))
            .collect();
        if ids.is_empty() {
            errors.error(&item.span, "`quick` names no scenario");
        }
        Some(ids)
    });
    Some(ScenarioSets { default: default?, quick: quick?, files: files? })
}

fn scenario_files(table: &Table<'_>, errors: &mut Collector) -> Option<Vec<(String, ScenarioFile)>> {
    let files = table.require("files", errors)?.table("[scenarios.files]", errors)?;
    if files.items.is_empty() {
        errors.error(&files.span, "[scenarios.files] names no file");
    }
    let mut found = Vec::new();
    for item in &files.items {
        // A name alone is a file; a table says which of a file's scenarios.
        let (file, tag) = if item.is_table() {
            let Some(own) = item.table(&format!("the scenario set `{}`", item.key), errors) else { continue };
            own.check_keys(&["file", "tag"], errors);
            let Some(file) = own.require("file", errors).cloned() else { continue };
            let tag = own.require("tag", errors).and_then(|i| i.string(errors)).map(str::to_owned);
            (file, tag)
        } else {
            (item.clone(), None)
        };
        if let Some(path) = file.string(errors) {
            if let Some(refusal) = refuse_path(path) {
                errors.error(&file.span, refusal);
            }
            found.push((item.key.clone(), ScenarioFile { path: path.to_owned(), tag }));
        }
    }
    Some(found)
}

/// Why a path is not one inside the problem's folder, if it is not.
fn refuse_path(path: &str) -> Option<String> {
    let inside = !path.is_empty()
        && !path.starts_with('/')
        && !path.contains('\\')
        && !path.contains('\0')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    (!inside).then(|| format!("`{path}` is not a path inside the problem's folder"))
}

/// The declared fields, and the names of all of them, the broken ones too.
pub(super) fn fields(root: &Table<'_>, errors: &mut Collector) -> (Vec<Field>, Vec<String>) {
    let (mut fields, mut all) = (Vec::new(), Vec::new());
    let Some(table) = root.get("fields").and_then(|i| i.table("[fields]", errors)) else {
        return (fields, all);
    };
    for item in &table.items {
        if let Some(refusal) = names::refuse_variable(&item.key) {
            errors.error(&item.key_span, refusal);
        }
        all.push(item.key.clone());
        fields.extend(field(item, errors));
    }
    (fields, all)
}

fn field(item: &Item<'_>, errors: &mut Collector) -> Option<Field> {
    let table = item.table(&format!("the field `{}`", item.key), errors)?;
    table.check_keys(&["type", "min", "max", "one_of", "optional", "default"], errors);
    let kind_item = table.require("type", errors)?;
    let kind_name = kind_item.string(errors)?;
    let Some(kind) = FieldType::ALL.into_iter().find(|k| k.name() == kind_name) else {
        let hint = suggestion(kind_name, FieldType::ALL.map(FieldType::name));
        errors.error_hint(
            &kind_item.span,
            format!("unknown field type `{kind_name}`"),
            hint.unwrap_or_else(|| "int, float, bool, string or int_list".into()),
        );
        return None;
    };
    let numeric = matches!(kind, FieldType::Int | FieldType::Float | FieldType::IntList);
    let mut bound = |key: &str| {
        let item = table.get(key)?;
        if !numeric {
            errors.error(&item.key_span, format!("`{key}` does not apply to {} fields", kind.name()));
            return None;
        }
        item.number(errors)
    };
    let (min, max) = (bound("min"), bound("max"));
    if let (Some(lo), Some(hi), Some(item)) = (min, max, table.get("max"))
        && lo > hi
    {
        errors.error(&item.span, format!("`max` {hi} is below `min` {lo}"));
    }
    let one_of = table.get("one_of").and_then(|item| {
        if kind != FieldType::String {
            errors.error(&item.key_span, format!("`one_of` does not apply to {} fields", kind.name()));
            return None;
        }
        let choices = item.strings(errors)?;
        if choices.is_empty() {
            errors.error(&item.span, "`one_of` allows nothing");
        }
        Some(choices)
    });
    let optional = table.get("optional").and_then(|i| i.bool(errors)).unwrap_or(false);
    let mut field = Field { name: item.key.clone(), kind, min, max, one_of, optional, default: None };
    if let Some(item) = table.get("default") {
        let default = item.value(errors)?;
        if let Some(refusal) = field.refusal(&default) {
            errors.error(&item.span, format!("the default: {refusal}"));
        } else {
            field.default = Some(default);
        }
    }
    Some(field)
}

/// The named expressions in file order, and the names of all of them.
pub(super) fn lets(root: &Table<'_>, fields: &[String], errors: &mut Collector) -> (Vec<Let>, Vec<String>) {
    let (mut lets, mut all) = (Vec::new(), Vec::new());
    let Some(table) = root.get("let").and_then(|i| i.table("[let]", errors)) else { return (lets, all) };
    for item in &table.items {
        if let Some(refusal) = names::refuse_variable(&item.key) {
            errors.error(&item.key_span, refusal);
        } else if fields.contains(&item.key) {
            errors.error(&item.key_span, format!("`{}` is already the name of a field", item.key));
        }
        all.push(item.key.clone());
        lets.extend(item.expression(errors).map(|value| Let { name: item.key.clone(), value }));
    }
    (lets, all)
}

pub(super) fn attributes(
    root: &Table<'_>,
    tensors: &[String],
    errors: &mut Collector,
) -> Option<Vec<Attribute>> {
    let Some(list) = root.get("attribute") else { return Some(Vec::new()) };
    let mut found = Vec::new();
    let mut seen = tensors.to_vec();
    for item in list.list(errors)? {
        let Some(table) = item.table("[[attribute]]", errors) else { continue };
        table.check_keys(&["name", "type", "value"], errors);
        let name = member_name(&table, &mut seen, errors);
        let kind = table.require("type", errors).and_then(|item| match item.string(errors)? {
            "f64" => Some(AttributeType::F64),
            "i64" => Some(AttributeType::I64),
            other => {
                let hint = "`f64` or `i64`; a bool is an i64 of 0 or 1";
                errors.error_hint(&item.span, format!("unknown attribute type `{other}`"), hint);
                None
            }
        });
        let value = table.expression("value", errors);
        if let (Some(name), Some(kind), Some(value)) = (name, kind, value) {
            found.push(Attribute { name, kind, value });
        }
    }
    Some(found)
}

/// The checked `name` of a member of the call struct; `seen` holds those before it.
pub(super) fn member_name(
    table: &Table<'_>,
    seen: &mut Vec<String>,
    errors: &mut Collector,
) -> Option<String> {
    let item = table.require("name", errors)?;
    let name = item.string(errors)?;
    if let Some(refusal) = names::refuse_member(name) {
        errors.error(&item.span, refusal);
    } else if seen.iter().any(|n| n == name) {
        errors.error(&item.span, format!("a second member `{name}` of the call struct"));
    }
    seen.push(name.to_owned());
    Some(name.to_owned())
}

pub(super) fn cost(root: &Table<'_>, errors: &mut Collector) -> Option<Option<Cost>> {
    let Some(table) = section(root, "cost", &["flops", "bytes"], errors)? else { return Some(None) };
    let (flops, bytes) = (table.expression("flops", errors), table.expression("bytes", errors));
    Some(Some(Cost { flops: flops?, bytes: bytes? }))
}

fn source_file(table: &Table<'_>, allowed: &[Language], errors: &mut Collector) -> Option<SourceFile> {
    let item = table.require("source", errors)?;
    let path = item.string(errors)?;
    if let Some(refusal) = refuse_path(path) {
        errors.error(&item.span, refusal);
        return None;
    }
    match Language::of(path).filter(|l| allowed.contains(l)) {
        Some(language) => Some(SourceFile { path: path.to_owned(), language }),
        None => {
            let endings: Vec<&str> = [
                (Language::C, ".c"),
                (Language::Cxx, ".cc, .cpp"),
                (Language::Cuda, ".cu"),
                (Language::Python, ".py"),
            ]
            .into_iter()
            .filter_map(|(language, ending)| allowed.contains(&language).then_some(ending))
            .collect();
            let hint = match Language::of(path) {
                Some(Language::Cuda) => "CUDA sources need `target = \"cuda\"`".to_owned(),
                _ => format!("known endings: {}", endings.join(", ")),
            };
            errors.error_hint(
                &item.span,
                format!("`{path}` is no source that {} can name", table.what),
                hint,
            );
            None
        }
    }
}

pub(super) fn reference(
    root: &Table<'_>,
    target: Option<Target>,
    errors: &mut Collector,
) -> Option<Reference> {
    let table = required_section(
        root,
        "reference",
        &["source", "precision", "sampled", "model", "model_reason"],
        errors,
    )?;
    let languages = [kernel_languages(target), &[Language::Python]].concat();
    let source = source_file(&table, &languages, errors);
    let precision = match table.get("precision") {
        None => Some(Precision::F64),
        Some(item) => match item.string(errors)? {
            "f64" => Some(Precision::F64),
            "f32" => Some(Precision::F32),
            other => {
                errors.error_hint(&item.span, format!("unknown precision `{other}`"), "`f64` or `f32`");
                None
            }
        },
    };
    let model = table.get("model").and_then(|item| {
        let name = item.string(errors)?;
        if let Some(refusal) = names::refuse_c_identifier(name) {
            errors.error(&item.span, refusal);
        }
        Some(name.to_owned())
    });
    let model_reason = table.get("model_reason").and_then(|i| i.string(errors)).map(str::to_owned);
    if let (Some(item), None) = (table.get("model_reason"), &model) {
        errors.error(&item.key_span, "`model_reason` without a `model`");
    }
    let mut sampled = false;
    if let Some(item) = table.get("sampled") {
        sampled = item.bool(errors)?;
        if sampled && source.as_ref().is_some_and(|s| s.language == Language::Python) {
            let hint = "write the reference in C, C++ or CUDA, or leave `sampled` out";
            errors.error_hint(&item.span, "a Python reference cannot be asked for a part of an answer", hint);
        }
    }
    Some(Reference { source: source?, precision: precision?, sampled, model, model_reason })
}

/// What a kernel of the target may be written in. A `.cu` file holds C++ with kernels; a `.cc` that only launches
/// what others compiled is no candidate of its own, so the CUDA target takes nothing else.
const fn kernel_languages(target: Option<Target>) -> &'static [Language] {
    match target {
        Some(Target::Cuda) => &[Language::Cuda],
        _ => &[Language::C, Language::Cxx],
    }
}

/// `target`: `cpu` unless the file says otherwise. `None` if what it says is wrong.
pub(super) fn target(root: &Table<'_>, errors: &mut Collector) -> Option<Target> {
    let Some(item) = root.get("target") else { return Some(Target::default()) };
    let name = item.string(errors)?;
    let found = Target::ALL.into_iter().find(|t| t.name() == name);
    if found.is_none() {
        let known: Vec<&str> = Target::ALL.iter().map(|t| t.name()).collect();
        errors.error_hint(
            &item.span,
            format!("`{name}` is no target"),
            format!("known targets: {}", known.join(", ")),
        );
    }
    found
}

pub(super) fn seed(root: &Table<'_>, target: Option<Target>, errors: &mut Collector) -> Option<SourceFile> {
    let table = required_section(root, "seed", &["source"], errors)?;
    source_file(&table, kernel_languages(target), errors)
}

/// The strings under `key`, none if it is absent.
fn optional_strings(table: &Table<'_>, key: &str, errors: &mut Collector) -> Option<Vec<String>> {
    table.get(key).map_or(Some(Vec::new()), |item| item.strings(errors))
}

pub(super) fn build(root: &Table<'_>, target: Option<Target>, errors: &mut Collector) -> Option<Build> {
    let Some(table) = section(root, "build", &["flags", "link", "candidate_flags"], errors)? else {
        let (flags, link) = match target {
            Some(Target::Cuda) => (vec!["-O3".into()], Vec::new()),
            _ => (vec!["-O3".into(), "-march=native".into()], vec!["-lm".into()]),
        };
        return Some(Build { flags, link, candidate_flags: Vec::new() });
    };
    let (flags, link) = (optional_strings(&table, "flags", errors), optional_strings(&table, "link", errors));
    let candidate_flags = match table.get("candidate_flags") {
        None => Some(Vec::new()),
        Some(item) => flags::allowed(item, errors),
    };
    Some(Build { flags: flags?, link: link?, candidate_flags: candidate_flags? })
}

const TOLERANCE_KEYS: [&str; 7] =
    ["k", "rms_k", "floor_ulps", "floor_abs", "rel_rms_max", "atol", "nonfinite"];

pub(super) fn tolerance(root: &Table<'_>, errors: &mut Collector) -> Option<ToleranceTable> {
    let Some(item) = root.get("tolerance") else { return Some(ToleranceTable::default()) };
    let table = item.table("[tolerance]", errors)?;
    let all = tolerance_rule(&table, errors);
    let mut outputs = Vec::new();
    for item in table.items.iter().filter(|i| !TOLERANCE_KEYS.contains(&i.key.as_str())) {
        if !item.is_table() {
            let hint = suggestion(&item.key, TOLERANCE_KEYS);
            errors.error_hint(
                &item.key_span,
                format!("unknown key `{}` in [tolerance]", item.key),
                hint.unwrap_or_else(|| "a table here is named after an output".into()),
            );
            continue;
        }
        let Some(own) = item.table(&format!("[tolerance.{}]", item.key), errors) else { continue };
        own.check_keys(&TOLERANCE_KEYS, errors);
        outputs.extend(tolerance_rule(&own, errors).map(|rule| (item.key.clone(), rule)));
    }
    Some(ToleranceTable { all: all?, outputs })
}

fn tolerance_rule(table: &Table<'_>, errors: &mut Collector) -> Option<ToleranceRule> {
    let [k, rms_k, floor_ulps, floor_abs, rel_rms_max, atol] =
        ["k", "rms_k", "floor_ulps", "floor_abs", "rel_rms_max", "atol"]
            .map(|key| table.optional_expression(key, errors));
    let nonfinite_matches = match table.get("nonfinite") {
        None => Some(None),
        Some(item) => match item.string(errors)? {
            "match" => Some(Some(true)),
            "reject" => Some(Some(false)),
            other => {
                errors.error_hint(&item.span, format!("unknown rule `{other}`"), "`reject` or `match`");
                None
            }
        },
    };
    Some(ToleranceRule {
        k: k?,
        rms_k: rms_k?,
        floor_ulps: floor_ulps?,
        floor_abs: floor_abs?,
        rel_rms_max: rel_rms_max?,
        atol: atol?,
        nonfinite_matches: nonfinite_matches?,
    })
}

pub(super) fn constraints(root: &Table<'_>, errors: &mut Collector) -> Option<Constraints> {
    let known = ["threads", "memory_mb", "deterministic", "workspace", "allow_imports", "deny_headers"];
    let mut found = Constraints::default();
    let Some(table) = section(root, "constraints", &known, errors)? else { return Some(found) };
    if let Some(n) = table.get("threads").and_then(|i| i.int(1..=1024, errors)) {
        found.threads = n as u32;
    }
    if let Some(n) = table.get("memory_mb").and_then(|i| i.int(0..=1 << 24, errors)) {
        found.memory_mb = n as u64;
    }
    if let Some(b) = table.get("deterministic").and_then(|i| i.bool(errors)) {
        found.deterministic = b;
    }
    if let Some(b) = table.get("workspace").and_then(|i| i.bool(errors)) {
        found.workspace = b;
    }
    found.allow_imports = optional_strings(&table, "allow_imports", errors)?;
    found.deny_headers = optional_strings(&table, "deny_headers", errors)?;
    Some(found)
}

pub(super) fn held_out(root: &Table<'_>, errors: &mut Collector) -> Option<Option<HeldOut>> {
    let Some(table) = section(root, "held_out", &["share", "max_gap", "vary", "keep"], errors)? else {
        return Some(None);
    };
    let mut number = |key: &str, default: f64, lo: f64, hi: f64| {
        let Some(item) = table.get(key) else { return Some(default) };
        let x = item.number(errors)?;
        if !(lo..=hi).contains(&x) {
            errors.error(&item.span, format!("`{key}` must be from {lo} to {hi}"));
            return None;
        }
        Some(x)
    };
    let (share, max_gap) = (number("share", 0.25, 0.2, 4.0), number("max_gap", 0.1, 0.0, 1.0));
    let keep = table.optional_expression("keep", errors);
    let rules = table.require("vary", errors).and_then(|i| i.table("[held_out.vary]", errors));
    let mut vary = Vec::new();
    for item in rules.iter().flat_map(|r| &r.items) {
        // `keep` may stand in either table: TOML puts a key that follows [held_out.vary] into it.
        if item.key == "keep" && item.is_string() {
            continue;
        }
        vary.extend(varied(item, errors));
    }
    let late = rules.as_ref().and_then(|r| r.get("keep")).filter(|i| i.is_string());
    let keep = match (keep?, late) {
        (None, Some(item)) => Some(item.expression(errors)?),
        (Some(_), Some(item)) => {
            errors.error(&item.key_span, "a second `keep`");
            return None;
        }
        (keep, None) => keep,
    };
    rules.as_ref()?;
    Some(Some(HeldOut { share: share?, max_gap: max_gap?, vary, keep, span: table.span }))
}

fn varied(item: &Item<'_>, errors: &mut Collector) -> Option<Varied> {
    let table = item.table(&format!("the rule for `{}`", item.key), errors)?;
    table.check_keys(&["scale", "add", "choose", "min", "odd", "with", "length"], errors);
    let vary = vary_rule(item, &table, errors)?;
    let length = table.get("length").and_then(|i| i.string(errors)).map(str::to_owned);
    Some(Varied { field: item.key.clone(), vary, length })
}

fn vary_rule(item: &Item<'_>, table: &Table<'_>, errors: &mut Collector) -> Option<Vary> {
    let kinds: Vec<_> =
        table.items.iter().filter(|i| matches!(i.key.as_str(), "scale" | "add" | "choose")).collect();
    let [rule] = kinds.as_slice() else {
        errors
            .error(&item.span, format!("the rule for `{}` wants one of `scale`, `add`, `choose`", item.key));
        return None;
    };
    for key in ["odd", "with"] {
        if let Some(other) = table.get(key).filter(|_| rule.key != "scale") {
            errors.error(&other.key_span, format!("`{key}` goes with `scale` only"));
        }
    }
    let min = match table.get("min") {
        Some(i) => Some(i.int(i64::MIN..=i64::MAX, errors)?),
        None => None,
    };
    if rule.key == "choose" {
        let Value::List(values) = rule.value(errors)? else {
            errors.error(&rule.span, "`choose` wants a list");
            return None;
        };
        if values.is_empty() {
            errors.error(&rule.span, "`choose` has nothing to choose from");
            return None;
        }
        return Some(Vary::Choose(values));
    }
    let items = rule.list(errors)?;
    let [lo, hi] = items.as_slice() else {
        errors.error(&rule.span, format!("`{}` wants two numbers: [lowest, highest]", rule.key));
        return None;
    };
    let ordered = |a: f64, b: f64, errors: &mut Collector| {
        if a > b {
            errors.error(&rule.span, format!("`{}`: {a} is above {b}", rule.key));
        }
        a <= b
    };
    if rule.key == "scale" {
        let (lo, hi) = (lo.number(errors)?, hi.number(errors)?);
        if lo < 0.0 || hi > 1000.0 {
            errors.error(&rule.span, "`scale` factors must be from 0 to 1000");
            return None;
        }
        let odd = table.get("odd").and_then(|i| i.bool(errors)).unwrap_or(false);
        let with = table.get("with").and_then(|i| i.string(errors)).map(str::to_owned);
        ordered(lo, hi, errors).then_some(Vary::Scale { lo, hi, min, odd, with })
    } else {
        let range = -(1 << 40)..=1 << 40;
        let (lo, hi) = (lo.int(range.clone(), errors)?, hi.int(range, errors)?);
        ordered(lo as f64, hi as f64, errors).then_some(Vary::Add { lo, hi, min })
    }
}
