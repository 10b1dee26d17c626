//! The whole way: text in, files out.

use crate::closure::{Header, includes};
use crate::leaf::{Kind, Leaves, leaves};
use crate::plan::{Plan, Purpose, plan};
use crate::poly::Polynomial;
use crate::prototype::{self, Prototype};
use crate::render::{self, problem::About, seed::Adapter};
use crate::scenario::{WORK, scenarios};
use crate::syntax::{Language, Parsed};
use crate::tokens::{TokenKind, tokens};
use crate::types::Types;
use crate::walk::Walk;
use crate::widen;
use kernelseek_core::case::Role;
use kernelseek_core::diagnostic::{Diagnostic, Source};
use kernelseek_core::problem::{refuse_member, refuse_problem};
use std::collections::{BTreeMap, BTreeSet};

/// Language of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// C or C++, as the kernel is.
    Native,
    /// Python.
    Python,
}

/// What to make files for.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The file as messages call it.
    pub file: &'a str,
    /// Its text as it is, for messages with places.
    pub text: &'a str,
    /// Its text with local includes pointing to copies.
    pub copy: &'a str,
    /// Those copies.
    pub headers: &'a [Header],
    /// Which function; the only one that can be meant without it.
    pub function: Option<&'a str>,
    /// What template parameters stand for.
    pub types: BTreeMap<String, String>,
    /// For a CUDA kernel: how it is launched, `grid=…, block=…, smem=…` in its own parameters.
    pub launch: Option<&'a str>,
    /// Language of the reference.
    pub reference: Reference,
    /// Includes that were not found: file, line, name.
    pub missing: &'a [(String, usize, String)],
}

/// A line that a person should check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guess {
    /// File, relative to the campaign's folder.
    pub file: String,
    /// 1-based line.
    pub line: usize,
    /// What was guessed, and why.
    pub text: String,
}

/// What was made.
#[derive(Debug, Clone)]
pub struct Scaffold {
    /// Name of the problem and of the entry point.
    pub problem: String,
    /// The function behind it.
    pub function: String,
    /// Its 1-based line.
    pub line: usize,
    /// The function's name without namespaces.
    pub short_name: String,
    /// What a call has, in words.
    pub summary: String,
    /// Files of the campaign's folder: path and text.
    pub files: Vec<(String, String)>,
    /// Every guess, in the order of the files.
    pub guesses: Vec<Guess>,
    /// Whether the reference is the code itself in wider types.
    pub derived: bool,
}

/// Makes the files of a campaign for a kernel.
///
/// # Errors
/// With the place in the kernel's file, and what to do about it.
pub fn scaffold(request: &Request<'_>) -> Result<Scaffold, Box<Diagnostic>> {
    let language = Language::of(request.file).map_err(|(message, hint)| {
        let source = Source::new(request.file, request.text);
        Box::new(Diagnostic::new(&source, 0..0, format!("{}: {message}", request.file)).with_hint(hint))
    })?;
    if language == Language::Cuda {
        return crate::cuda::scaffold::scaffold(request);
    }
    if request.launch.is_some() {
        let source = Source::new(request.file, request.text);
        return Err(Box::new(
            Diagnostic::new(&source, 0..0, "`--launch` is for CUDA kernels").with_hint("leave it away"),
        ));
    }
    let main = Parsed::new(request.file, request.text)?;
    let headers: Vec<Parsed> =
        request.headers.iter().map(|h| Parsed::new(&h.name, &h.text)).collect::<Result<_, _>>()?;
    let mut types = Types::default();
    types.read(main.root(), main.text());
    for header in &headers {
        types.read(header.root(), header.text());
    }
    let (found, passed_over) = prototype::choose(&main, request.function)?;
    let prototype = prototype::prototype(&main, &found, &types, language, &request.types)?;
    let leaves = leaves(&main, &prototype, &types, language)?;
    let plan = planned(&main, &headers, &prototype, &leaves, &types)?;
    let scenarios = scenarios(&plan, WORK);
    if scenarios.is_empty() {
        return Err(Box::new(
            main.error(prototype.span.clone(), format!("no sizes were found for which `{}` does anything", prototype.name))
                .with_hint("its sizes contradict each other as far as its loops and subscripts can be read; write problem.toml by hand"),
        ));
    }
    let problem = problem_name(&prototype, request);
    let extension = language.extension();
    let (seed_name, kernel) = (format!("seed.{extension}"), format!("kernel.{extension}"));
    let file = request.file.rsplit('/').next().unwrap_or(request.file);
    let (code, mut remarks) = without_main(&main, request, file);
    if let Some(others) = passed_over {
        remarks.push(format!("`{}` is taken: other functions of the file call {others}", prototype.name));
    }
    for (parameter, value) in prototype.template.iter().filter(|(p, _)| !request.types.contains_key(&p.name))
    {
        let name = &parameter.name;
        remarks
            .push(format!("template parameter {name}: taken to be {value}; `--type {name}=…` for another"));
    }
    for (file, line, name) in request.missing {
        remarks.push(format!(
            "{file}:{line} includes \"{name}\", which is not there: copy it beside seed and kernel"
        ));
    }
    let same = |ty: &str| ty.to_owned();
    let adapter = Adapter {
        problem: &problem,
        prototype: &prototype,
        leaves: &leaves,
        plan: &plan,
        language,
        moved: BTreeMap::new(),
        retyped: &same,
    };
    let seed = render::seed::seed(&adapter, file, &code);
    let mut files: Vec<(String, String)> = Vec::new();
    let reference = reference(request, &adapter, file, &code);
    let flags: &[&str] = if code.contains("span") && language == Language::Cxx {
        &["-O3", "-march=native", "-std=c++20"]
    } else {
        &["-O3", "-march=native"]
    };
    let about = About {
        name: &problem,
        function: &prototype.name,
        file,
        line: prototype.line,
        seed: &seed_name,
        reference: &reference.name,
        flags,
        remarks: &remarks,
        cuda: false,
    };
    files.push(("campaign.toml".to_owned(), render::campaign(&problem.replace('_', "-"), &kernel)));
    files.push((kernel, seed.clone()));
    files.push(("problem/problem.toml".to_owned(), render::problem::problem(&plan, &scenarios, &about)));
    files.push(("problem/cpu.jsonl".to_owned(), render::problem::lines(&plan, &scenarios)));
    files.push((format!("problem/{seed_name}"), seed));
    files.push((format!("problem/{}", reference.name), reference.text));
    for header in request.headers {
        files.push((header.name.clone(), header.text.clone()));
        files.push((format!("problem/{}", header.name), header.text.clone()));
    }
    files.extend(reference.headers.into_iter().map(|(name, text)| (format!("problem/{name}"), text)));
    let guesses = guesses(&files);
    Ok(Scaffold {
        problem,
        function: prototype.name.clone(),
        line: prototype.line,
        short_name: prototype.short_name().to_owned(),
        summary: summary(&plan),
        files,
        guesses,
        derived: reference.derived,
    })
}

pub(crate) fn summary(plan: &Plan) -> String {
    let count = kernelseek_core::wording::counted;
    let of = |role: Role| plan.tensors.iter().filter(|t| t.role == role).count();
    let mut parts = vec![count(of(Role::Varying) + of(Role::Constant), "input")];
    if of(Role::Inout) > 0 {
        parts.push(format!("{} in place", of(Role::Inout)));
    }
    if of(Role::Output) > 0 {
        parts.push(count(of(Role::Output), "output"));
    }
    let sizes = plan.fields.iter().filter(|f| f.purpose == Purpose::Size).count();
    parts.push(count(sizes, "size"));
    parts.join(", ")
}

fn planned(
    main: &Parsed,
    headers: &[Parsed],
    prototype: &Prototype,
    leaves: &Leaves,
    types: &Types,
) -> Result<Plan, Box<Diagnostic>> {
    let refused = |message: String| {
        Box::new(main.error(prototype.span.clone(), format!("`{}`: {message}", prototype.name)).with_hint(
            "write a function beside it that calls this one and stores the result through a pointer",
        ))
    };
    let node = prototype::node_of(main, &prototype.whole)
        .ok_or_else(|| refused("it cannot be found again".to_owned()))?;
    planned_on(main, headers, (main, node), prototype, leaves, types)
}

/// The plan from the body of a definition in a file that need not be the one with the prototype.
pub(crate) fn planned_on(
    main: &Parsed,
    headers: &[Parsed],
    (walked, node): (&Parsed, tree_sitter::Node<'_>),
    prototype: &Prototype,
    leaves: &Leaves,
    types: &Types,
) -> Result<Plan, Box<Diagnostic>> {
    let refused = |message: String| {
        Box::new(main.error(prototype.span.clone(), format!("`{}`: {message}", prototype.name)).with_hint(
            "write a function beside it that calls this one and stores the result through a pointer",
        ))
    };
    let names: Vec<String> = prototype.parameters.iter().map(|p| p.name.clone()).collect();
    let substituted = prototype.substituted();
    let seen = Walk::run(headers, walked, node, types, leaves, &substituted, &names);
    let declared: Vec<Option<Vec<Option<Polynomial>>>> = leaves
        .all
        .iter()
        .map(|leaf| match &leaf.kind {
            Kind::Elements { extents, .. } => Some(
                extents
                    .iter()
                    .map(|e| e.as_deref().and_then(|e| Walk::extent(e, types, leaves, &substituted, &names)))
                    .collect(),
            ),
            Kind::Number(_) => None,
        })
        .collect();
    plan(prototype, leaves, &seen, &declared).map_err(refused)
}

/// A name for the problem that no name of the kernel's files collides with: it becomes a function and a header.
pub(crate) fn problem_name(prototype: &Prototype, request: &Request<'_>) -> String {
    let mut words: BTreeSet<&str> = BTreeSet::new();
    for text in request.headers.iter().map(|h| h.text.as_str()).chain([request.copy]) {
        words.extend(tokens(text).into_iter().filter(|t| t.kind == TokenKind::Word).map(|t| &text[t.span]));
    }
    let files: BTreeSet<&str> = request.headers.iter().map(|h| h.name.as_str()).collect();
    let mut plain = String::new();
    for c in prototype.short_name().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_') {
        if c.is_ascii_uppercase() && plain.ends_with(|p: char| p.is_ascii_lowercase()) {
            plain.push('_');
        }
        plain.push(c.to_ascii_lowercase());
    }
    while plain.contains("__") {
        plain = plain.replace("__", "_");
    }
    let plain: String = plain.trim_matches('_').chars().take(36).collect();
    let stem = if plain.starts_with(|c: char| c.is_ascii_lowercase()) { plain } else { format!("k_{plain}") };
    let free = |name: &str| {
        let parts =
            [name.to_owned(), format!("{name}_call"), format!("{name}_workspace"), format!("{name}_prepare")];
        refuse_problem(name).is_none()
            && refuse_member(name).is_none()
            && !parts.iter().any(|p| words.contains(p.as_str()))
            && !files.contains(format!("{name}.h").as_str())
    };
    ["", "_op", "_kernel", "_problem"]
        .iter()
        .map(|s| format!("{stem}{s}"))
        .find(|n| free(n))
        .unwrap_or_else(|| (1..).map(|n| format!("kernel_{n}")).find(|n| free(n)).unwrap_or_default())
}

/// The code that is copied: everything but `main`, which needs what no kernel does.
fn without_main(main: &Parsed, request: &Request<'_>, file: &str) -> (String, Vec<String>) {
    let mut code = request.copy.to_owned();
    let mut remarks = Vec::new();
    for found in prototype::functions(main).iter().rev().filter(|f| f.name == "main") {
        let Some(text) = main.text().get(found.whole.clone()) else { continue };
        if let Some(at) = code.find(text) {
            code.replace_range(at..at + text.len(), "");
            remarks.push(format!("`main` ({file}:{}) is left out of the copies", found.line));
        }
    }
    (code, remarks)
}

struct Made {
    name: String,
    text: String,
    headers: Vec<(String, String)>,
    derived: bool,
}

fn reference(request: &Request<'_>, adapter: &Adapter<'_>, file: &str, code: &str) -> Made {
    if request.reference == Reference::Python {
        let text = render::reference::python(adapter.problem, adapter.plan);
        return Made { name: "reference.py".to_owned(), text, headers: Vec::new(), derived: false };
    }
    let name = format!("reference.{}", adapter.language.extension());
    match derived(request, adapter, file, code) {
        Ok((text, headers)) => Made { name, text, headers, derived: true },
        Err(why) => {
            let text = render::reference::skeleton(
                adapter.problem,
                adapter.plan,
                request.file,
                &why,
                adapter.language,
            );
            Made { name, text, headers: Vec::new(), derived: false }
        }
    }
}

type Derived = (String, Vec<(String, String)>);

fn derived(request: &Request<'_>, adapter: &Adapter<'_>, file: &str, code: &str) -> Result<Derived, String> {
    let mut texts: Vec<&str> = vec![code];
    texts.extend(request.headers.iter().map(|h| h.text.as_str()));
    let mut spellings: Vec<&str> = adapter.plan.tensors.iter().map(|t| t.scalar.spelling).collect();
    texts.append(&mut spellings);
    let wider = widen::wider(&texts);
    let own = adapter.plan.tensors.iter().any(|t| t.scalar.spelling == "__bf16");
    if own {
        return Err("bfloat16 has no arithmetic of its own".to_owned());
    }
    let widened = |file: &str, text: &str| {
        widen::widen(text, wider).map_err(|(line, what)| {
            format!("{file}, line {line}: {what}, so a copy in wider types would compute something else")
        })
    };
    let renamed = |text: &str| {
        let mut out = text.to_owned();
        for (name, span) in includes(text).into_iter().rev() {
            if request.headers.iter().any(|h| h.name == name) {
                out.replace_range(span, &format!("reference_{name}"));
            }
        }
        out
    };
    let wide_code = widened(file, &renamed(code))?;
    let mut headers = Vec::new();
    for header in request.headers {
        headers.push((format!("reference_{}", header.name), widened(&header.name, &renamed(&header.text))?));
    }
    let retyped = |ty: &str| widen::widen(ty, wider).unwrap_or_else(|_| ty.to_owned());
    let moved = render::reference::widened(adapter.leaves, adapter.plan, wider).into_iter().collect();
    let adapter = Adapter { moved, retyped: &retyped, ..*adapter };
    Ok((render::reference::wide(&adapter, file, &wide_code, wider), headers))
}

/// Every line with CHECK, in the order of the files. The kernel is the seed once more and is left out.
#[must_use]
pub fn guesses(files: &[(String, String)]) -> Vec<Guess> {
    let mut found = Vec::new();
    for (file, text) in files {
        let begins: &[&str] = match file.rsplit_once('.').map_or("", |(_, e)| e) {
            "toml" | "py" => &["# CHECK "],
            "jsonl" => &["\"note\": \"CHECK "],
            "c" | "cc" | "cu" if file.starts_with("problem/") => &["// CHECK ", "/* CHECK "],
            _ => continue,
        };
        for (index, line) in text.lines().enumerate() {
            for begin in begins {
                let Some((_, rest)) = line.split_once(begin) else { continue };
                let rest = rest.trim_end_matches("*/").trim_end().trim_end_matches(['}', '"']);
                found.push(Guess { file: file.clone(), line: index + 1, text: rest.to_owned() });
            }
        }
    }
    found
}
