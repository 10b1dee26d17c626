//! `doctor`.

use super::doctor_gpu;
use crate::cli::{Doctor, Global};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::{exit, settings, table};
use kernelseek_device::peaks::Peaks;
use kernelseek_device::topology::{CpuIdentity, Division, allowed_cpus};
use kernelseek_evaluator::settings::Tier;
use kernelseek_toolchain::{SearchPlaces, discover};
use serde_json::json;
use std::time::Instant;

pub(crate) fn run(args: &Doctor, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let settings = settings::resolve(global, Tier::Default)?;
    let toolchain = discover(&SearchPlaces {
        cc: settings.cc.clone(),
        cxx: settings.cxx.clone(),
        path: settings.path.clone(),
        cuda: settings.cuda.clone(),
    });
    let nvcc = super::doctor_nvcc::Report::new(toolchain.as_ref().ok());
    let layers = kernelseek_sandbox::probe::probe()
        .map_err(|e| CommandError::new(Kind::Harness, kernelseek_evaluator::fault::chain(&e)))?;
    let identity = CpuIdentity::read();
    let division = Division::new(allowed_cpus(), 1);
    let tick = clock_tick_ns();
    let peaks = args.peaks.then(Peaks::measure);
    let find = |name: &str| settings.path.iter().map(|p| p.join(name)).find(|p| p.is_file());
    let (python, valgrind) = (settings.python.clone().or_else(|| find("python3")), find("valgrind"));
    let gpu = doctor_gpu::look(&settings, &layers, printer);
    if printer.json {
        printer.json(&json!({
            "device": identity,
            "compiler": toolchain.as_ref().ok().map(|t| t.compilers().map(version).collect::<Vec<_>>()),
            "nvcc": nvcc.json(),
            "sandbox": layers,
            "trust": if layers.complete() { "full" } else { "reduced" },
            "cores": { "supervisor": division.supervisor, "worker": division.worker, "disjoint": division.is_disjoint() },
            "clock_tick_ns": tick,
            "peaks": peaks,
            "python": python,
            "valgrind": valgrind,
            "state_dir": settings.state_dir,
            "gpu": gpu,
        }))?;
        return Ok(exit::OK);
    }
    let style = printer.out;
    let mut text = String::new();
    let mut row = |good: bool, name: &str, value: &str, fix: Option<&str>| {
        let mark = if good { style.good("✓") } else { style.doubtful("!") };
        text.push_str(&format!("{mark} {name:<16} {value}\n"));
        if let (false, Some(fix)) = (good, fix) {
            let fix = fix.replace('\n', &format!("\n{:24}", ""));
            text.push_str(&format!("{:19}{} {fix}\n", "", style.strong("fix:")));
        }
    };
    row(
        true,
        "processor",
        &format!(
            "{}, {} cores, last-level cache {}",
            identity.model,
            identity.cores,
            table::bytes(identity.last_level_bytes as f64)
        ),
        None,
    );
    match &toolchain {
        Ok(t) => {
            for compiler in t.compilers() {
                row(true, "compiler", &version(compiler), None);
            }
        }
        Err(e) => row(false, "compiler", &e.to_string(), e.hint()),
    }
    for found in nvcc.rows() {
        row(found.good, found.name, &found.value, found.fix.as_deref());
    }
    row(
        division.is_disjoint(),
        "cores",
        &if division.is_disjoint() {
            format!("supervisor on {:?}, workers on {:?}", division.supervisor, division.worker)
        } else {
            "supervisor and worker share one core: times are noisier".to_owned()
        },
        Some("give the tool at least two cores"),
    );
    row(
        tick < 1000.0,
        "clock",
        &format!("ticks every {tick:.0} ns"),
        Some("use a machine whose clock source is the time-stamp counter"),
    );
    for (name, state) in layers.all() {
        row(
            state.is_enforced(),
            name,
            &state.to_string(),
            Some(
                "allow unprivileged user namespaces, Landlock and seccomp user notification (Linux 5.13 or newer, not inside a restricted container)",
            ),
        );
    }
    row(
        layers.complete(),
        "trust",
        if layers.complete() { "full" } else { "reduced" },
        Some("see the layers above"),
    );
    row(
        python.is_some(),
        "python",
        &python.map_or_else(|| "none: references in Python will not run".into(), |p| p.display().to_string()),
        Some("install Python 3"),
    );
    row(
        valgrind.is_some(),
        "valgrind",
        &valgrind
            .map_or_else(|| "none: selftest cannot count instructions".into(), |p| p.display().to_string()),
        Some("install valgrind"),
    );
    if gpu.surroundings.network_state.is_none() {
        row(true, "state", &settings.state_dir.display().to_string(), None);
    }
    if let Some(p) = peaks {
        row(
            true,
            "peaks",
            &format!(
                "{:.1} Gflop/s f32, {}/s from memory, {}/s from cache (one core, best of five × 1.1)",
                p.f32_flops / 1e9,
                table::bytes(p.memory_bytes),
                table::bytes(p.cache_bytes)
            ),
            None,
        );
    }
    text.push_str(&doctor_gpu::text(&gpu.rows, printer.width(), style));
    printer.data(&text);
    Ok(exit::OK)
}

/// First line of what a compiler calls itself, with its path.
fn version(compiler: &kernelseek_toolchain::Compiler) -> String {
    format!("{} ({})", compiler.version.lines().next().unwrap_or_default(), compiler.program.display())
}

/// Smallest step that the clock shows, nanoseconds.
fn clock_tick_ns() -> f64 {
    let mut smallest = f64::INFINITY;
    for _ in 0..2000 {
        let start = Instant::now();
        let mut end = Instant::now();
        while end == start {
            end = Instant::now();
        }
        smallest = smallest.min(end.duration_since(start).as_nanos() as f64);
    }
    smallest
}
