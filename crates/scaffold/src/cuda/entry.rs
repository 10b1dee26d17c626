//! What is called: a host function that launches and takes device pointers, or a kernel with a launch that is known.

use super::{Launch, Side, bindings, launches, matching, qualifiers, side, split};
use crate::prototype::{self, Found, functions, node_of};
use crate::syntax::{Parsed, children, each, field, text};
use crate::tokens::{TokenKind, tokens};
use crate::types::{Scalar, Types};
use kernelseek_core::diagnostic::Diagnostic;
use std::collections::BTreeSet;

/// How a kernel is launched, in its own parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Blocks along each axis.
    pub(crate) grid: Vec<String>,
    /// Threads along each axis.
    pub(crate) block: Vec<String>,
    /// Bytes of dynamic shared memory.
    pub(crate) bytes: String,
    /// Whether more of it than usual must be asked for.
    pub(crate) raised: bool,
}

/// What was chosen.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) found: Found,
    /// For a kernel; a function that launches has none.
    pub(crate) config: Option<Config>,
    /// Template arguments of the launch.
    pub(crate) types: Vec<String>,
    pub(crate) remarks: Vec<String>,
}

/// A function with its side.
struct Sided {
    found: Found,
    side: Side,
    /// Launches in it.
    launches: Vec<Launch>,
    /// It is `main`, binds to Python, or moves data between host and device: not a call on device pointers.
    harness: bool,
}

fn sided(main: &Parsed) -> Vec<Sided> {
    let source = main.text();
    let blank = super::blanked(source);
    let all = launches(source);
    functions(main)
        .into_iter()
        .map(|found| {
            let (_, words) = qualifiers(source, &blank, found.whole.start, found.span.start);
            let body = source.get(found.whole.clone()).unwrap_or_default();
            let harness = found.name == "main"
                || bindings(body).is_some()
                || ["cudaMalloc(", "HostToDevice", "DeviceToHost"].iter().any(|w| body.contains(w));
            let inside = |l: &&Launch| found.whole.start <= l.whole.start && l.whole.end <= found.whole.end;
            let launches = all.iter().filter(inside).cloned().collect();
            Sided { side: side(&words), launches, harness, found }
        })
        .collect()
}

const SAY: &str = "say it in the kernel's own parameters: `--launch 'grid=(n + 255) / 256, block=256'`";

/// Chooses what to call.
///
/// # Errors
/// When nothing, or several things, could be meant, or a kernel's launch is not known.
pub(crate) fn choose(
    main: &Parsed,
    types: &Types,
    wanted: Option<&str>,
    launch: Option<&str>,
) -> Result<Chosen, Box<Diagnostic>> {
    let all = sided(main);
    let listed = |some: &[&Sided]| {
        let names: Vec<String> =
            some.iter().map(|s| format!("{} (line {})", s.found.name, s.found.line)).collect();
        names.join(", ")
    };
    if wanted.is_some() {
        let (found, _) = prototype::choose(main, wanted)?;
        let one = all
            .iter()
            .find(|s| s.found.whole == found.whole)
            .ok_or_else(|| Box::new(main.error(found.span.clone(), "the function cannot be found again")))?;
        return match one.side {
            Side::Device => Err(Box::new(
                main.error(
                    found.span,
                    format!("`{}` is a __device__ function: only kernels call it", one.found.name),
                )
                .with_hint("name the kernel, or the function that launches it"),
            )),
            Side::Kernel => kernel(main, types, &all, one, launch),
            Side::Host if !one.launches.is_empty() && !one.harness => Ok(launcher(one)),
            Side::Host => through(main, types, &all, one, launch),
        };
    }
    let hosts: Vec<&Sided> =
        all.iter().filter(|s| s.side == Side::Host && !s.launches.is_empty() && !s.harness).collect();
    let open: Vec<&Sided> = hosts.iter().copied().filter(|s| s.found.visible).collect();
    let tops: Vec<&Sided> = open.iter().copied().filter(|s| !called_by(main, &open, s)).collect();
    if launch.is_none() {
        if let [one] = tops.as_slice() {
            return Ok(launcher(one));
        }
        if let [first, ..] = open.as_slice() {
            let message = format!("{} functions launch kernels: {}", open.len(), listed(&open));
            return Err(Box::new(main.error(first.found.span.clone(), message).with_hint(format!(
                "choose one with `--function NAME`, for instance `--function {}`",
                first.found.name
            ))));
        }
        if let [one] = hosts.as_slice() {
            return Ok(launcher(one));
        }
    }
    let kernels: Vec<&Sided> = all.iter().filter(|s| s.side == Side::Kernel).collect();
    match kernels.as_slice() {
        [one] => kernel(main, types, &all, one, launch),
        [] => Err(Box::new(
            main.error(0..0, format!("no kernel with a body in {}", main.source.name()))
                .with_hint("name the .cu file that holds the `__global__` function"),
        )),
        [first, ..] => {
            let message = format!(
                "{} kernels, and no function that launches them on device pointers: {}",
                kernels.len(),
                listed(&kernels)
            );
            Err(Box::new(main.error(first.found.span.clone(), message).with_hint(format!(
                "choose one with `--function NAME`, for instance `--function {}`; or write a function that takes device \
                 pointers, sizes and a cudaStream_t and launches them in order",
                first.found.name
            ))))
        }
    }
}

fn launcher(one: &Sided) -> Chosen {
    Chosen { found: one.found.clone(), config: None, types: Vec::new(), remarks: Vec::new() }
}

fn called_by(main: &Parsed, others: &[&Sided], one: &Sided) -> bool {
    let short = one.found.name.rsplit("::").next().unwrap_or(&one.found.name);
    others.iter().filter(|o| o.found.whole != one.found.whole).any(|o| {
        let body = main.text().get(o.found.whole.clone()).unwrap_or_default();
        tokens(body).iter().any(|t| t.kind == TokenKind::Word && &body[t.span.clone()] == short)
    })
}

/// A function that cannot be called on device pointers: the one kernel that it launches is taken.
fn through(
    main: &Parsed,
    types: &Types,
    all: &[Sided],
    one: &Sided,
    launch: Option<&str>,
) -> Result<Chosen, Box<Diagnostic>> {
    let names: BTreeSet<&str> = one.launches.iter().map(|l| l.kernel.as_str()).collect();
    let kernels: Vec<&Sided> = all
        .iter()
        .filter(|s| {
            s.side == Side::Kernel && s.found.name.rsplit("::").next().is_some_and(|n| names.contains(n))
        })
        .collect();
    match kernels.as_slice() {
        [only] => kernel(main, types, all, only, launch),
        _ => Err(Box::new(
            main.error(
                one.found.span.clone(),
                format!("`{}` cannot be called on device pointers, and it launches {} kernels of this file", one.found.name, kernels.len()),
            )
            .with_hint("write a function that takes device pointers, sizes and a cudaStream_t and launches them in order"),
        )),
    }
}

fn kernel(
    main: &Parsed,
    types: &Types,
    all: &[Sided],
    one: &Sided,
    launch: Option<&str>,
) -> Result<Chosen, Box<Diagnostic>> {
    let short = one.found.name.rsplit("::").next().unwrap_or(&one.found.name).to_owned();
    let mut remarks = Vec::new();
    let known: Vec<(&Sided, &Launch)> = all
        .iter()
        .flat_map(|s| s.launches.iter().map(move |l| (s, l)))
        .filter(|(_, l)| l.kernel == short)
        .collect();
    if let Some(written) = launch {
        let config = option(written)
            .map_err(|message| Box::new(main.error(one.found.span.clone(), message).with_hint(SAY)))?;
        let types = known.first().map_or_else(Vec::new, |(_, l)| l.types.clone());
        return Ok(Chosen { found: one.found.clone(), config: Some(config), types, remarks });
    }
    let Some((caller, launch)) = known.first() else {
        let message =
            format!("nothing in {} launches `{short}`, so its grid is not known", main.source.name());
        return Err(Box::new(main.error(one.found.span.clone(), message).with_hint(SAY)));
    };
    let line = main.line(launch.whole.start);
    if known.len() > 1 {
        remarks
            .push(format!("`{short}` is launched {} times; the launch of line {line} is taken", known.len()));
    }
    let scope = Scope::new(main, types, one, caller, launch);
    let unknown = |name: String| {
        let message = format!(
            "the launch of `{short}` uses `{name}`, which cannot be told from the kernel's parameters"
        );
        Box::new(main.error(launch.brackets.clone(), message).with_hint(SAY))
    };
    let nothing = String::new();
    let at = |index: usize| launch.config.get(index).unwrap_or(&nothing);
    let config = Config {
        grid: scope.dims(at(0)).map_err(unknown)?,
        block: scope.dims(at(1)).map_err(unknown)?,
        bytes: match at(2).as_str() {
            "" => "0".to_owned(),
            some => scope.resolve(some, 0).map_err(unknown)?,
        },
        raised: scope.body.contains("MaxDynamicSharedMemorySize"),
    };
    remarks.push(format!(
        "`{short}` is launched by the adapter, as `{}` does (line {line}): {} blocks of {} threads",
        caller.found.name,
        config.grid.join(" x "),
        config.block.join(" x ")
    ));
    let types = launch.types.iter().map(|t| scope.instance(t)).collect();
    Ok(Chosen { found: one.found.clone(), config: Some(config), types, remarks })
}

/// `grid=(n + 255) / 256, block=(32, 8), smem=0`.
fn option(written: &str) -> Result<Config, String> {
    let mut config = Config { grid: Vec::new(), block: Vec::new(), bytes: "0".to_owned(), raised: false };
    for part in split(written) {
        let Some((key, value)) = part.split_once('=') else {
            return Err(format!("`--launch`: `{part}` has no `=`"));
        };
        let value = value.trim();
        match key.trim() {
            "grid" => config.grid = plain_dims(value),
            "block" => config.block = plain_dims(value),
            "smem" => value.clone_into(&mut config.bytes),
            other => return Err(format!("`--launch`: `{other}` is none of grid, block and smem")),
        }
    }
    if config.grid.is_empty() || config.block.is_empty() {
        return Err("`--launch` needs grid and block".to_owned());
    }
    Ok(config)
}

/// `dim3(a, b)`, `{a, b}`, `(a, b)` as parts; everything else as it is.
fn plain_dims(written: &str) -> Vec<String> {
    let rest = written.strip_prefix("dim3").map_or(written, str::trim_start);
    let whole = tokens(rest);
    let closed = matching(rest, &whole, 0).is_some_and(|end| end + 1 == whole.len());
    if closed && (rest.starts_with('(') || rest.starts_with('{')) {
        let parts = split(&rest[1..rest.len() - 1]);
        if parts.len() > 1 || rest.len() != written.len() {
            return parts;
        }
    }
    vec![written.to_owned()]
}

/// What the words of a launch mean where it stands.
struct Scope<'a> {
    main: &'a Parsed,
    types: &'a Types,
    caller: &'a Found,
    body: &'a str,
    /// What is passed, and the parameter that it is in the kernel.
    passed: Vec<(String, String)>,
    /// Template parameters of the kernel.
    own: Vec<String>,
}

impl<'a> Scope<'a> {
    fn new(main: &'a Parsed, types: &'a Types, kernel: &Sided, caller: &'a Sided, launch: &Launch) -> Self {
        let names = parameter_names(main, &kernel.found);
        let passed = launch.arguments.iter().zip(names).map(|(a, n)| (core(a), n)).collect();
        Self {
            main,
            types,
            caller: &caller.found,
            body: main.text().get(caller.found.whole.clone()).unwrap_or_default(),
            passed,
            own: template_names(main, &kernel.found),
        }
    }

    /// The text in the kernel's parameters.
    fn resolve(&self, written: &str, depth: usize) -> Result<String, String> {
        let mut written = written.to_owned();
        for (argument, parameter) in self.passed.iter().filter(|(a, _)| a.contains('(')) {
            written = written.replace(argument, parameter);
        }
        let mut out = String::new();
        let all = tokens(&written);
        for (index, token) in all.iter().enumerate() {
            let word = &written[token.span.clone()];
            if token.kind != TokenKind::Word {
                out.push_str(word);
                continue;
            }
            let before = written[..token.span.start].trim_end();
            let after = written[token.span.end..].trim_start();
            if before.ends_with('.')
                || before.ends_with("->")
                || before.ends_with("::")
                || after.starts_with("::")
            {
                out.push_str(word);
                continue;
            }
            if let Some((_, parameter)) = self.passed.iter().find(|(a, _)| a == word) {
                out.push_str(parameter);
                continue;
            }
            let known = after.starts_with('(')
                || self.own.iter().any(|o| o == word)
                || self.passed.iter().any(|(_, p)| p == word) && self.value(word).is_none()
                || self.types.values.contains_key(word)
                || self.types.macros.contains_key(word)
                || Scalar::named(word).is_some()
                || matches!(
                    word,
                    "sizeof" | "const" | "dim3" | "unsigned" | "static_cast" | "true" | "false"
                );
            if known {
                out.push_str(word);
                continue;
            }
            match self.value(word) {
                Some(value) if depth < 6 => {
                    let value = self.resolve(&value, depth + 1)?;
                    let single = tokens(&value).len() == 1;
                    out.push_str(&if single { value } else { format!("({value})") });
                }
                _ => return Err(written[all[index].span.clone()].to_owned()),
            }
        }
        Ok(out)
    }

    /// A template argument; empty where it cannot be told, as in a dispatch over types.
    fn instance(&self, written: &str) -> String {
        let told = self.resolve(written, 0).unwrap_or_default();
        let open = tokens(&told).iter().any(|t| self.own.iter().any(|o| *o == told[t.span.clone()]));
        if open { String::new() } else { told }
    }

    /// What a local variable of the caller begins with.
    fn value(&self, name: &str) -> Option<String> {
        let mut found = None;
        each(node_of(self.main, &self.caller.whole)?, &mut |node| {
            if node.kind() == "init_declarator"
                && found.is_none()
                && field(node, "declarator").is_some_and(|d| text(d, self.main.text()) == name)
            {
                found = field(node, "value").map(|v| text(v, self.main.text()).to_owned());
            }
            true
        });
        found
    }

    fn dims(&self, written: &str) -> Result<Vec<String>, String> {
        extents(self.body, written).iter().map(|p| self.resolve(p, 0)).collect()
    }
}

/// The extents that a launch gives in the words of the function around it: `dim3(a, b)`, a number, or a variable that is
/// declared as `dim3 NAME(a, b)`.
pub(crate) fn extents(body: &str, written: &str) -> Vec<String> {
    let is_name = written.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then(|| declared(body, written)).flatten().unwrap_or_else(|| plain_dims(written))
}

/// The parts of `dim3 NAME(a, b)`.
fn declared(body: &str, name: &str) -> Option<Vec<String>> {
    let all: Vec<_> = tokens(body)
        .into_iter()
        .filter(|t| t.kind != TokenKind::Comment && !body[t.span.clone()].trim().is_empty())
        .collect();
    let word = |i: usize| all.get(i).map_or("", |t| &body[t.span.clone()]);
    let mut statement_has_dim3 = false;
    for index in 0..all.len() {
        match word(index) {
            ";" | "}" => statement_has_dim3 = false,
            "dim3" => statement_has_dim3 = true,
            w if w == name && statement_has_dim3 => {
                let mut open = index + 1;
                if word(open) == "=" {
                    open += 1;
                }
                if word(open) == "dim3" {
                    open += 1;
                }
                let begins = matches!(word(open), "(" | "{");
                let close = begins.then(|| matching(body, &all, open)).flatten()?;
                return Some(split(&body[all[open].span.end..all[close].span.start]));
            }
            _ => {}
        }
    }
    None
}

/// An argument without casts.
fn core(argument: &str) -> String {
    let mut rest = argument.trim();
    loop {
        let whole = tokens(rest);
        if let Some(inner) =
            rest.strip_prefix("static_cast<").and_then(|r| r.split_once('>')).map(|(_, r)| r.trim())
            && inner.starts_with('(')
            && inner.ends_with(')')
        {
            rest = inner[1..inner.len() - 1].trim();
            continue;
        }
        if rest.starts_with('(')
            && let Some(end) = matching(rest, &whole, 0)
            && let ty = rest[1..whole[end].span.start].trim()
            && Scalar::named(ty).is_some()
        {
            rest = rest[whole[end].span.end..].trim();
            continue;
        }
        return rest.to_owned();
    }
}

fn parameter_names(main: &Parsed, found: &Found) -> Vec<String> {
    let list =
        node_of(main, &found.whole).and_then(prototype::signature).and_then(|s| field(s, "parameters"));
    let name = |p| field(p, "declarator").map_or_else(String::new, |d| crate::types::peel(d, main.text()).0);
    list.map_or_else(Vec::new, |l| children(l).into_iter().map(name).collect())
}

/// Names of a function's template parameters, in order.
pub(crate) fn template_names(main: &Parsed, found: &Found) -> Vec<String> {
    let list = node_of(main, &found.whole)
        .and_then(|n| n.parent())
        .filter(|p| p.kind() == "template_declaration")
        .and_then(|p| field(p, "parameters"));
    let name = |one| {
        field(one, "name")
            .or_else(|| field(one, "declarator"))
            .or_else(|| children(one).into_iter().find(|c| c.kind() == "type_identifier"))
            .map_or_else(String::new, |n| text(n, main.text()).to_owned())
    };
    list.map_or_else(Vec::new, |l| children(l).into_iter().map(name).collect())
}
