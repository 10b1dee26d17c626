//! The whole way for a `.cu` file.

use super::copy::copied;
use super::entry::{self, Config};
use super::{launches, lower};
use crate::closure::includes;
use crate::leaf::{Leaves, leaves};
use crate::plan::{Plan, Returned};
use crate::prototype::{self, Prototype, functions, node_of, signature};
use crate::render::cuda::{self as rendered, Behind};
use crate::render::{self, problem::About, seed::Adapter};
use crate::scaffold::{Reference, Request, Scaffold, guesses, planned_on, problem_name, summary};
use crate::scenario::{DEVICE_WORK, scenarios};
use crate::syntax::{Language, Parsed, field, text};
use crate::types::{Base, Types};
use crate::widen::{self, Wider};
use kernelseek_core::diagnostic::Diagnostic;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Makes the files of a campaign for a CUDA kernel.
///
/// # Errors
/// With the place in the kernel's file, and what to do about it.
pub(crate) fn scaffold(request: &Request<'_>) -> Result<Scaffold, Box<Diagnostic>> {
    let main = super::parsed(request.file, request.text)?;
    let headers: Vec<Parsed> =
        request.headers.iter().map(|h| super::parsed(&h.name, &h.text)).collect::<Result<_, _>>()?;
    let mut types = Types::default();
    types.read(main.root(), main.text());
    for header in &headers {
        types.read(header.root(), header.text());
    }
    let chosen = entry::choose(&main, &types, request.function, request.launch)?;
    let mut instance = request.types.clone();
    for (name, value) in entry::template_names(&main, &chosen.found).into_iter().zip(&chosen.types) {
        if !value.is_empty() {
            instance.entry(name).or_insert_with(|| value.clone());
        }
    }
    let mut prototype = prototype::prototype(&main, &chosen.found, &types, Language::Cuda, &instance)?;
    let stream = take_stream(&mut prototype);
    let error = matches!(&prototype.returns.base, Base::Other(name) if name == "cudaError_t")
        && prototype.returns.layers.is_empty();
    if error {
        prototype.returns.base = Base::Void;
    }
    let leaves = leaves(&main, &prototype, &types, Language::Cuda)?;
    let file = request.file.rsplit('/').next().unwrap_or(request.file);
    let copy = copied(request.copy, request.file, chosen.config.is_none())?;
    let wrapper = chosen.config.as_ref().map(|config| wrapper(&main, &prototype, config));
    let (lowered, name) = lowered(&main, &prototype, chosen.config.as_ref());
    let low = Parsed::new(request.file, &lowered)?;
    let plan = plan(&main, &headers, &low, &name, &prototype, &leaves, &types)?;
    let scenarios = scenarios(&plan, DEVICE_WORK);
    if scenarios.is_empty() {
        return Err(Box::new(
            main.error(prototype.span.clone(), format!("no sizes were found for which `{}` does anything", prototype.name))
                .with_hint("its sizes contradict each other as far as its grid and subscripts can be read; write problem.toml by hand"),
        ));
    }
    let problem = problem_name(&prototype, request);
    let mut remarks = chosen.remarks;
    remarks.extend(copy.remarks.iter().cloned());
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
    // A kernel is called through the adapter's own launch, which stands outside its namespace.
    let mut called = prototype.clone();
    if wrapper.is_some() {
        called.name = name;
    }
    let same = |ty: &str| ty.to_owned();
    let adapter = Adapter {
        problem: &problem,
        prototype: &called,
        leaves: &leaves,
        plan: &plan,
        language: Language::Cuda,
        moved: BTreeMap::new(),
        retyped: &same,
    };
    let behind = Behind {
        function: &prototype.name,
        file,
        code: &copy.text,
        wrapper: wrapper.as_deref(),
        stream: if wrapper.is_some() { Some(prototype.parameters.len()) } else { stream },
        sets_stream: copy.stream,
        error,
    };
    let seed = rendered::seed(&adapter, &behind);
    let (reference_name, reference, reference_headers, derived) = reference(request, &adapter, &behind);
    let about = About {
        name: &problem,
        function: &prototype.name,
        file,
        line: prototype.line,
        seed: "seed.cu",
        reference: reference_name,
        flags: &["-O3", "-lineinfo"],
        remarks: &remarks,
        cuda: true,
    };
    let mut files: Vec<(String, String)> = vec![
        ("campaign.toml".to_owned(), render::campaign(&problem.replace('_', "-"), "kernel.cu")),
        ("kernel.cu".to_owned(), seed.clone()),
        ("problem/problem.toml".to_owned(), render::problem::problem(&plan, &scenarios, &about)),
        ("problem/cuda.jsonl".to_owned(), render::problem::lines(&plan, &scenarios)),
        ("problem/seed.cu".to_owned(), seed),
        (format!("problem/{reference_name}"), reference),
    ];
    for header in request.headers {
        files.push((header.name.clone(), header.text.clone()));
        files.push((format!("problem/{}", header.name), header.text.clone()));
    }
    files.extend(reference_headers.into_iter().map(|(name, text)| (format!("problem/{name}"), text)));
    let guesses = guesses(&files);
    Ok(Scaffold {
        problem,
        function: prototype.name.clone(),
        line: prototype.line,
        short_name: prototype.short_name().to_owned(),
        summary: summary(&plan),
        files,
        guesses,
        derived,
    })
}

/// Takes the stream out of the parameters: its place among them.
fn take_stream(prototype: &mut Prototype) -> Option<usize> {
    let at = prototype.parameters.iter().position(|p| {
        matches!(p.written.trim(), "cudaStream_t" | "CUstream" | "const cudaStream_t") && p.layers.is_empty()
    })?;
    prototype.parameters.remove(at);
    Some(at)
}

/// Parameters of a function as they are written, without defaults.
fn parameter_list(main: &Parsed, prototype: &Prototype) -> String {
    node_of(main, &prototype.whole)
        .and_then(signature)
        .and_then(|s| field(s, "parameters"))
        .map_or("", |p| text(p, main.text()))
        .trim_start_matches('(')
        .trim_end_matches(')')
        .trim()
        .replace("__grid_constant__", "")
}

fn wrapper_name(prototype: &Prototype) -> String {
    format!("launch_{}", prototype.short_name())
}

/// `extent(a), extent(b)` for the axes that there are.
fn dims(parts: &[String]) -> String {
    let parts: Vec<String> = parts.iter().map(|p| format!("(unsigned)({p})")).collect();
    parts.join(", ")
}

/// A function that launches the kernel as the file does.
fn wrapper(main: &Parsed, prototype: &Prototype, config: &Config) -> String {
    let mut out = String::new();
    let header = node_of(main, &prototype.whole)
        .and_then(|n| n.parent())
        .filter(|p| p.kind() == "template_declaration")
        .and_then(|p| field(p, "parameters"))
        .map(|p| text(p, main.text()));
    if let Some(header) = header {
        let _ = writeln!(out, "template {header}");
    }
    let list = parameter_list(main, prototype);
    let comma = if list.is_empty() { "" } else { ", " };
    let _ = writeln!(out, "static void {}({list}{comma}cudaStream_t stream) {{", wrapper_name(prototype));
    let names: Vec<&str> = prototype.template.iter().map(|(p, _)| p.name.as_str()).collect();
    let instance = if names.is_empty() { String::new() } else { format!("<{}>", names.join(", ")) };
    let kernel = format!("{}{instance}", prototype.name);
    let _ = writeln!(out, "    const dim3 grid({}), block({});", dims(&config.grid), dims(&config.block));
    if config.raised {
        let _ = writeln!(
            out,
            "    cudaFuncSetAttribute({kernel}, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)({}));",
            config.bytes
        );
    }
    let arguments: Vec<&str> = prototype.parameters.iter().map(|p| p.name.as_str()).collect();
    let _ = writeln!(
        out,
        "    {kernel}<<<grid, block, {}, stream>>>({});\n}}",
        config.bytes,
        arguments.join(", ")
    );
    out
}

/// The file as the walk reads it, and the name of the function to begin with.
fn lowered(main: &Parsed, prototype: &Prototype, config: Option<&Config>) -> (String, String) {
    let source = main.text();
    let mut out = super::blanked(source);
    let mut appended = String::new();
    let kernels = functions(main);
    let lower_one = |name: &str, short: &str, types: &[String]| -> Option<String> {
        let found = kernels.iter().find(|f| f.name.rsplit("::").next() == Some(short))?;
        let node = node_of(main, &found.whole)?;
        let blank = super::blanked(source);
        let list = field(signature(node)?, "parameters")?;
        let body = field(node, "body")?;
        let own = entry::template_names(main, found);
        let put = |part: &str| {
            crate::tokens::substitute(
                part,
                &own[..own.len().min(types.len())],
                &types.iter().map(String::as_str).collect::<Vec<_>>(),
            )
        };
        let parameters = put(blank.get(list.start_byte() + 1..list.end_byte() - 1)?);
        Some(lower::lowered(name, &parameters, &put(blank.get(body.byte_range())?)))
    };
    if let Some(config) = config {
        let name = wrapper_name(prototype);
        let arguments: Vec<&str> = prototype.parameters.iter().map(|p| p.name.as_str()).collect();
        let _ = writeln!(
            appended,
            "{}\nvoid {name}({}) {{ ks_low_0({}); }}",
            lower_one("ks_low_0", prototype.short_name(), &[]).unwrap_or_default(),
            parameter_list(main, prototype),
            passed(
                &arguments.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>(),
                &config.grid,
                &config.block
            )
        );
        out.push('\n');
        out.push_str(&appended);
        return (out, name);
    }
    let body = source.get(prototype.whole.clone()).unwrap_or_default();
    for (index, launch) in launches(source).into_iter().enumerate().collect::<Vec<_>>().into_iter().rev() {
        let name = format!("ks_low_{index}");
        let Some(function) = lower_one(&name, &launch.kernel, &launch.types) else { continue };
        let (grid, block) = (extents(body, &launch.config, 0), extents(body, &launch.config, 1));
        let call = format!("{name}({})", passed(&launch.arguments, &grid, &block));
        if out.get(launch.whole.clone()).is_some() {
            out.replace_range(launch.whole, &call);
            let _ = writeln!(appended, "{function}");
        }
    }
    (format!("{}\n{appended}", host_calls(&out)), prototype.name.clone())
}

fn passed(arguments: &[String], grid: &[String], block: &[String]) -> String {
    let axis = |parts: &[String], i: usize| parts.get(i).cloned().unwrap_or_else(|| "1".to_owned());
    let mut all = arguments.to_vec();
    all.extend((0..3).map(|i| axis(grid, i)));
    all.extend((0..3).map(|i| axis(block, i)));
    all.join(", ")
}

/// The extents of a launch in the words of its own function.
fn extents(body: &str, config: &[String], at: usize) -> Vec<String> {
    let Some(written) = config.get(at) else { return Vec::new() };
    entry::extents(body, written)
}

/// Copies and fills of the runtime as those of C, error-checking macros around them taken away.
fn host_calls(source: &str) -> String {
    let all: Vec<_> = crate::tokens::tokens(source)
        .into_iter()
        .filter(|t| t.kind != crate::tokens::TokenKind::Comment && !source[t.span.clone()].trim().is_empty())
        .collect();
    let word = |i: usize| all.get(i).map_or("", |t| &source[t.span.clone()]);
    let mut edits: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    for index in 0..all.len() {
        let name = match word(index) {
            "cudaMemset" | "cudaMemsetAsync" => "memset",
            "cudaMemcpy" | "cudaMemcpyAsync" => "memcpy",
            _ => continue,
        };
        let Some(close) = super::matching(source, &all, index + 1).filter(|_| word(index + 1) == "(") else {
            continue;
        };
        let mut arguments = super::split(&source[all[index + 1].span.end..all[close].span.start]);
        arguments.truncate(3);
        let mut span = all[index].span.start..all[close].span.end;
        let mut call = format!("{name}({})", arguments.join(", "));
        if index >= 2
            && word(index - 1) == "("
            && word(index - 2).chars().all(|c| c.is_ascii_uppercase() || c == '_')
        {
            span.start = all[index - 1].span.start;
            call = format!("({call}");
            edits.push((all[index - 2].span.clone(), String::new()));
        }
        edits.push((span, call));
    }
    let mut out = source.to_owned();
    for (span, with) in edits.into_iter().rev() {
        if out.get(span.clone()).is_some() {
            out.replace_range(span, &with);
        }
    }
    out
}

fn plan(
    main: &Parsed,
    headers: &[Parsed],
    low: &Parsed,
    name: &str,
    prototype: &Prototype,
    leaves: &Leaves,
    types: &Types,
) -> Result<Plan, Box<Diagnostic>> {
    let refused = |message: &str| {
        Box::new(main.error(prototype.span.clone(), format!("`{}`: {message}", prototype.name)))
    };
    let found = functions(low);
    let place = functions(main).iter().filter(|f| f.name == *name).position(|f| f.whole == prototype.whole);
    let one = found
        .iter()
        .filter(|f| f.name == *name)
        .nth(place.unwrap_or(0))
        .ok_or_else(|| refused("its launches cannot be read"))?;
    let node = node_of(low, &one.whole).ok_or_else(|| refused("it cannot be found again"))?;
    let mut plan = planned_on(main, headers, (low, node), prototype, leaves, types)?;
    if let Returned::Element(_) = plan.returned {
        return Err(Box::new(refused("it returns a value, so it waits for the GPU").with_hint(
            "write a function that stores the value through a device pointer, and name it with `--function`",
        )));
    }
    for guess in plan.fields.iter_mut().flat_map(|f| &mut f.guesses) {
        *guess = guess.replace("a local array holds no more than 1024", "a block has 1024 threads at most");
    }
    Ok(plan)
}

type Made = (&'static str, String, Vec<(String, String)>, bool);

fn reference(request: &Request<'_>, adapter: &Adapter<'_>, behind: &Behind<'_>) -> Made {
    if request.reference == Reference::Python {
        return ("reference.py", render::reference::python(adapter.problem, adapter.plan), Vec::new(), false);
    }
    match derived(request, adapter, behind) {
        Ok((text, headers)) => ("reference.cu", text, headers, true),
        Err(why) => ("reference.cu", rendered::skeleton(adapter, request.file, &why), Vec::new(), false),
    }
}

fn derived(
    request: &Request<'_>,
    adapter: &Adapter<'_>,
    behind: &Behind<'_>,
) -> Result<(String, Vec<(String, String)>), String> {
    let mut texts: Vec<&str> = vec![behind.code];
    texts.extend(request.headers.iter().map(|h| h.text.as_str()));
    texts.extend(adapter.plan.tensors.iter().map(|t| t.scalar.spelling));
    // A GPU has nothing wider than double.
    let wider = match widen::wider(&texts) {
        Wider::Double => Wider::Double,
        _ => Wider::Same,
    };
    let widened = |file: &str, text: &str| {
        let found = if wider == Wider::Same { None } else { widen::device_obstacle(text) };
        let why = |line: usize, what: &str| {
            format!("{file}, line {line}: {what}, so a copy in wider types would compute something else")
        };
        match found {
            Some((at, what)) => Err(why(1 + text[..at].matches('\n').count(), &what)),
            None => widen::widen(text, wider).map_err(|(line, what)| why(line, &what)),
        }
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
    for launch in launches(behind.code).iter().chain(&launches(behind.wrapper.unwrap_or_default())) {
        let bytes = launch.config.get(2).map_or("0", String::as_str);
        let sized = bytes == "0" || bytes.contains("sizeof") || wider == Wider::Same;
        if !sized && !behind.code.contains("sizeof") {
            return Err(format!(
                "the launch of `{}` asks for {bytes} bytes of shared memory, without a sizeof that would follow wider types",
                launch.kernel
            ));
        }
    }
    let code = widened(behind.file, &renamed(behind.code))?;
    let wrapper = behind.wrapper.map(|w| widened("the launch", w)).transpose()?;
    let mut headers = Vec::new();
    for header in request.headers {
        headers.push((format!("reference_{}", header.name), widened(&header.name, &renamed(&header.text))?));
    }
    let retyped = |ty: &str| widen::widen(ty, wider).unwrap_or_else(|_| ty.to_owned());
    let moved = render::reference::widened(adapter.leaves, adapter.plan, wider).into_iter().collect();
    let adapter = Adapter { moved, retyped: &retyped, ..*adapter };
    let behind = Behind { code: &code, wrapper: wrapper.as_deref(), ..*behind };
    Ok((rendered::wide(&adapter, &behind, wider), headers))
}
