//! `build`.

use crate::cli::{Build, Global};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{exit, settings};
use kernelseek_evaluator::device_code;
use kernelseek_evaluator::event::Side;
use kernelseek_evaluator::session::{Session, SessionErrorOrBuild};
use kernelseek_evaluator::settings::Tier;
use kernelseek_toolchain::BuildError;
use serde_json::json;

pub(crate) fn run(args: &Build, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let mut settings = settings::resolve(global, Tier::Quick)?;
    let folder = settings::problem_folder(args.problem.as_deref(), &args.source)?;
    settings.archs = architectures(args, printer);
    let mut session = Session::open(&folder, Some(&args.source), &settings)?;
    let source = session.candidate_path().map_or_else(|| args.source.clone(), std::path::Path::to_owned);
    let mut progress = Progress::new(printer);
    let build = match session.candidate_as_built(&source, &mut progress) {
        Ok(Ok(build)) => build,
        Ok(Err(findings)) => {
            progress.finish();
            let text: Vec<String> = findings
                .iter()
                .flat_map(|f| std::iter::once(&f.message).chain(&f.evidence))
                .map(ToString::to_string)
                .collect();
            return Err(CommandError::new(Kind::Input, text.join("\n")));
        }
        Err(SessionErrorOrBuild::Build(BuildError::Compile { text, .. })) => {
            progress.finish();
            let message = format!("{} does not compile\n{}", args.source.display(), text.trim_end());
            return Err(CommandError::new(Kind::Input, message));
        }
        Err(other) => return Err(other.of(Side::Candidate).into()),
    };
    progress.finish();
    let mut findings = session.inspect_build(&build)?;
    findings.extend(device_code::findings(&build));
    if let Some(output) = &args.output {
        std::fs::copy(&build.artifact, output).map_err(|e| CommandError::file(output, &e))?;
    }
    if printer.json {
        printer.json(&json!({
            "artifact": build.artifact,
            "candidate": build.candidate.to_string(),
            "cached": build.cached,
            "argv": build.argv,
            "sources": build.sources,
            "diagnostics": build.diagnostics,
            "compiler": session.compiler(),
            "kernels": build.kernels,
            "remarks": build.remarks,
            "findings": findings,
        }))?;
        return Ok(exit::OK);
    }
    let style = printer.out;
    let mut text = format!(
        "{} {}\n",
        style.strong(if build.cached { "cached" } else { "built" }),
        build.artifact.display()
    );
    text.push_str(&format!("candidate {}\n", build.candidate));
    text.push_str(&format!("compiler  {}\n", session.compiler()));
    for argv in &build.argv {
        text.push_str(&format!("command   {}\n", argv.join(" ")));
    }
    for file in &build.sources {
        text.push_str(&format!("source    {}\n", file.name));
    }
    if !build.diagnostics.trim().is_empty() {
        text.push_str(&format!("{}\n", build.diagnostics.trim_end()));
    }
    text.push_str(&super::kernels::table(&build.kernels, printer.width()));
    text.push_str(&super::inspect::render_findings(&findings, style));
    printer.data(&text);
    Ok(exit::OK)
}

/// The architectures to compile a CUDA source for: those that are named, else this machine's GPUs, else one that is said.
fn architectures(args: &Build, printer: &Printer) -> Vec<String> {
    const ELSE: &str = "sm_90a";
    let cuda = args.source.extension().is_some_and(|e| e == "cu");
    if !args.arch.is_empty() || !cuda {
        return args.arch.clone();
    }
    let mut found: Vec<String> =
        kernelseek_device::cuda::device::list().unwrap_or_default().iter().map(|gpu| gpu.arch()).collect();
    found.sort();
    found.dedup();
    if found.is_empty() {
        printer.talk(&format!("no GPU here: compiled for {ELSE} (choose another with `--arch`)"));
        found.push(ELSE.to_owned());
    }
    found
}
