//! `init`: from a kernel's file to a campaign's folder.

use crate::cli::{Global, Init, ReferenceArg};
use crate::commands::check;
use crate::error::{CommandError, Kind};
use crate::exit;
use crate::printer::Printer;
use crate::wrap::hanging;
use kernelseek_core::verdict::Word;
use kernelseek_core::wording::counted_as;
use kernelseek_evaluator::check::CheckReport;
use kernelseek_scaffold::closure::{Closure, closure};
use kernelseek_scaffold::{LONGEST, Language, Reference, Request, Scaffold, scaffold, without};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &Init, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let (text, closure) = read(&args.file)?;
    let name = args.file.display().to_string();
    let made = scaffold(&Request {
        file: &name,
        text: &text,
        copy: &closure.text,
        headers: &closure.headers,
        function: args.function.as_deref(),
        types: types(&args.types)?,
        launch: args.launch.as_deref(),
        reference: match args.reference {
            ReferenceArg::C => Reference::Native,
            ReferenceArg::Python => Reference::Python,
        },
        missing: &closure.missing,
    })
    .map_err(|diagnostic| CommandError {
        kind: Kind::Input,
        message: diagnostic.to_string(),
        diagnostics: vec![*diagnostic],
        hint: None,
    })?;
    let folder = args.into.clone().unwrap_or_else(|| PathBuf::from(&made.short_name));
    write(&folder, &made, &sources(args, &closure), args.force)?;
    if !printer.json {
        printer.data(&written(&made, &name, &folder, printer));
    }
    let problem = folder.join("problem");
    let lines = made
        .files
        .iter()
        .map(|(path, _)| folder.join(path))
        .find(|p| p.extension().is_some_and(|e| e == "jsonl"));
    let lines = lines.unwrap_or_else(|| problem.join("cpu.jsonl"));
    let mut checked = check::checked(&problem, None, &[], global, printer);
    let dropped = checked.as_ref().map_or_else(|_| Vec::new(), degenerate);
    if !dropped.is_empty() && drop_lines(&lines, &dropped)? {
        if !printer.json {
            let ids = dropped.join(", ");
            let why = "with a size of 1 a trivial answer is right there, so nothing would be proved";
            let first = format!("left out of {}: ", lines.display());
            printer.data(&format!("{}\n", hanging(&first, &format!("{ids}: {why}"), printer.width())));
        }
        checked = check::checked(&problem, None, &[], global, printer);
    }
    let code = match &checked {
        Ok(report) if report.word == Word::Fail => exit::UNMET,
        Ok(_) => exit::OK,
        Err(error) => error.kind.exit_code(),
    };
    if printer.json {
        let report = checked.as_ref().ok();
        let error = checked.as_ref().err().map(|e| json!({ "message": e.message, "hint": e.hint }));
        printer.json(&json!({
            "problem": made.problem,
            "function": made.function,
            "line": made.line,
            "folder": folder,
            "files": made.files.iter().map(|(path, _)| path).collect::<Vec<_>>(),
            "guesses": made.guesses.iter().map(|g| json!({
                "file": g.file, "line": g.line, "text": g.text,
            })).collect::<Vec<_>>(),
            "left_out": dropped,
            "check": report,
            "error": error,
            "next": next(&checked, &made, &folder).1,
        }))?;
        return Ok(code);
    }
    let mut word = "next:";
    if let Ok(report) = &checked {
        let shown = check::render(report, printer);
        // What the check advises comes first.
        if report.scenarios.iter().flat_map(|s| &s.findings).chain(&report.findings).any(|f| f.next.is_some())
        {
            word = "then:";
        }
        printer.data(&format!("{}\n", shown.trim_end()));
    }
    let (sentence, command) = next(&checked, &made, &folder);
    if let Err(error) = &checked {
        printer.error(error);
    }
    let mut end =
        format!("\n{}", hanging(&format!("{} ", printer.out.strong(word)), &sentence, printer.width()));
    for line in command {
        end.push_str(&format!("  {line}\n"));
    }
    printer.data(&end);
    Ok(code)
}

/// Scenarios with a size of 1 that accept a trivial answer, where no other scenario does.
fn degenerate(report: &CheckReport) -> Vec<String> {
    let (small, other): (Vec<_>, Vec<_>) = report
        .scenarios
        .iter()
        .filter(|s| !s.accepted.is_empty())
        .map(|s| s.id.clone())
        .partition(|id| id.starts_with("one_") || id == "ones" || id == "smallest");
    if other.is_empty() { small } else { Vec::new() }
}

/// Takes scenarios out of a file; false if too few would be left.
fn drop_lines(path: &Path, ids: &[String]) -> Result<bool, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|e| CommandError::file(path, &e))?;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let Some(kept) = without(&text, &ids) else { return Ok(false) };
    std::fs::write(path, kept).map_err(|e| CommandError::file(path, &e))?;
    Ok(true)
}

/// The file and everything local that it includes.
fn read(file: &Path) -> Result<(String, Closure), CommandError> {
    if let Err((message, hint)) = Language::of(&file.display().to_string()) {
        return Err(CommandError::new(Kind::Input, format!("{}: {message}", file.display())).with_hint(hint));
    }
    let size = std::fs::metadata(file).map_err(|e| {
        CommandError::file(file, &e).with_hint("name the C, C++ or CUDA file that holds the kernel")
    })?;
    if size.is_dir() {
        return Err(CommandError::new(Kind::Input, format!("{} is a folder", file.display()))
            .with_hint("name the C, C++ or CUDA file that holds the kernel"));
    }
    if size.len() > LONGEST as u64 {
        return Err(CommandError::new(
            Kind::Input,
            format!("{} has {} bytes; at most {LONGEST} are read", file.display(), size.len()),
        )
        .with_hint("take the kernel's own source, without generated tables, into a file of its own"));
    }
    let text = std::fs::read_to_string(file).map_err(|e| CommandError::file(file, &e))?;
    let closure = closure(file, &text, &mut |path| {
        let small = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() <= LONGEST as u64);
        small.then(|| std::fs::read_to_string(path).ok()).flatten()
    });
    Ok((text, closure))
}

/// `T=double` and its like.
fn types(given: &[String]) -> Result<BTreeMap<String, String>, CommandError> {
    given
        .iter()
        .map(|one| match one.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => {
                Ok((name.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(CommandError::new(Kind::Usage, format!("`--type {one}` says nothing"))
                .with_hint("say which parameter stands for what: `--type T=double`")),
        })
        .collect()
}

/// The files that were read, which nothing may overwrite.
fn sources(args: &Init, closure: &Closure) -> Vec<PathBuf> {
    closure
        .headers
        .iter()
        .map(|h| &h.path)
        .chain([&args.file])
        .filter_map(|p| p.canonicalize().ok())
        .collect()
}

/// Writes all files, or none where one is in the way.
fn write(folder: &Path, made: &Scaffold, sources: &[PathBuf], force: bool) -> Result<(), CommandError> {
    let targets: Vec<(PathBuf, &String)> =
        made.files.iter().map(|(path, text)| (folder.join(path), text)).collect();
    let is = |path: &Path, text: &str| std::fs::read_to_string(path).is_ok_and(|known| known == text);
    let own: Vec<&PathBuf> = targets
        .iter()
        .filter(|(path, text)| path.canonicalize().is_ok_and(|p| sources.contains(&p)) && !is(path, text))
        .map(|(path, _)| path)
        .collect();
    if let Some(path) = own.first() {
        return Err(CommandError::new(
            Kind::Usage,
            format!("{} would be overwritten, and it is the kernel's own source", path.display()),
        )
        .with_hint("name another folder with `--into DIR`"));
    }
    let there: Vec<String> = targets
        .iter()
        .filter(|(path, text)| path.symlink_metadata().is_ok() && !is(path, text))
        .map(|(path, _)| path.display().to_string())
        .collect();
    if !there.is_empty() && !force {
        return Err(CommandError::new(
            Kind::Usage,
            format!(
                "{} already: {}",
                if there.len() == 1 { "a file exists" } else { "files exist" },
                there.join(", ")
            ),
        )
        .with_hint("name another folder with `--into DIR`, or overwrite them with `--force`"));
    }
    let failed = |path: &Path, e: std::io::Error| {
        CommandError::file(path, &e).with_hint("name a folder that can be written with `--into DIR`")
    };
    for (path, text) in &targets {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(|e| failed(parent, e))?;
        }
        std::fs::write(path, text).map_err(|e| failed(path, e))?;
    }
    Ok(())
}

/// What was written, and the guesses with their places.
fn written(made: &Scaffold, file: &str, folder: &Path, printer: &Printer) -> String {
    let style = printer.out;
    let mut text = format!("{} ({file}:{}): {}\n", style.strong(&made.function), made.line, made.summary);
    let names: Vec<&str> = made.files.iter().map(|(path, _)| path.as_str()).collect();
    text.push_str(&hanging(
        &format!("written to {}: ", folder.display()),
        &names.join(", "),
        printer.width(),
    ));
    let count = made.guesses.len();
    text.push_str(&format!(
        "\n{} to check; each stands in the file with its reason:\n",
        counted_as(count, "guess", "guesses")
    ));
    let mut last = "";
    for guess in &made.guesses {
        if guess.file != last {
            text.push_str(&format!("  {}\n", folder.join(&guess.file).display()));
            last = &guess.file;
        }
        let place = format!("{}:{}", guess.file.rsplit('/').next().unwrap_or(&guess.file), guess.line);
        text.push_str(&hanging(&format!("    {place:<17} "), &guess.text, printer.width()));
    }
    text.push('\n');
    text
}

/// What to do next: a sentence, and commands that can be typed.
fn next(
    checked: &Result<CheckReport, CommandError>,
    made: &Scaffold,
    folder: &Path,
) -> (String, Vec<String>) {
    let problem = folder.join("problem");
    let shown = folder.display();
    let kernel =
        made.files.iter().map(|(path, _)| path.as_str()).find(|p| p.starts_with("kernel.")).unwrap_or("");
    let again = vec![format!("kernelseek check {}", problem.display())];
    match checked {
        Ok(report) if report.word != Word::Fail => (
            format!("look through the guesses, then begin in {shown}:"),
            vec![
                format!("cd {shown}"),
                format!("kernelseek eval {kernel} --quick   # the kernel as it is"),
                "kernelseek seal                   # fixes problem and goal".to_owned(),
            ],
        ),
        Ok(_) => {
            ("mend what `check` names above, in the lines with CHECK, and check again:".to_owned(), again)
        }
        Err(_) if !made.derived => {
            let reference = made
                .files
                .iter()
                .map(|(path, _)| path)
                .find(|p| p.starts_with("problem/reference."))
                .map_or_else(String::new, |p| folder.join(p).display().to_string());
            (format!("write the reference, {reference}, and check:"), again)
        }
        Err(_) => ("mend what is named above, and check again:".to_owned(), again),
    }
}
