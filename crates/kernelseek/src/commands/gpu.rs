//! `gpu`: who is on the GPUs, and a command under a lease.

use crate::cli::{Global, Gpu as Args, GpuTrial};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::{env_vars, exit, gpu_view, settings};
use kernelseek_device::cuda::GpuIdentity;
use kernelseek_device::cuda::lease::run::{self, RunError};
use kernelseek_device::cuda::lease::{self, Claim, Holder, Lease, LeaseError, Leases};
use kernelseek_device::cuda::nvml::{self, Foreign, Gpu, Nvml, NvmlError, Processes};
use kernelseek_device::cuda::trial;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// Everything that `gpu` lists.
#[derive(Debug, Serialize)]
pub(crate) struct Listing {
    pub(crate) driver: Option<String>,
    pub(crate) cuda: Option<(u32, u32)>,
    /// Why nothing is known.
    pub(crate) why: Option<String>,
    pub(crate) unreadable: Vec<String>,
    pub(crate) leases: Option<PathBuf>,
    pub(crate) gpus: Vec<Listed>,
}

/// One GPU of the list.
#[derive(Debug, Serialize)]
pub(crate) struct Listed {
    #[serde(flatten)]
    pub(crate) facts: Gpu,
    /// Who else computes on it.
    pub(crate) foreign: Foreign,
    pub(crate) lease: Option<Holder>,
    /// Why it is not known who holds the lease.
    pub(crate) lease_unknown: Option<String>,
}

pub(crate) fn run(args: &Args, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    match args.command.split_first() {
        None => list(global, printer),
        Some((program, rest)) => hold(args, global, printer, program, rest),
    }
}

/// The GPUs, and the library that was asked, if it was NVML.
struct Seen {
    nvml: Option<Nvml>,
    driver: Option<String>,
    cuda: Option<(u32, u32)>,
    unreadable: Vec<String>,
    gpus: Vec<Gpu>,
}

fn see() -> Result<Seen, NvmlError> {
    let nvml = match Nvml::open() {
        Ok(nvml) => nvml,
        // A container may have the driver without NVML.
        Err(error) => return without_nvml().ok_or(error),
    };
    let machine = nvml.machine()?;
    let (driver, cuda) = (Some(machine.driver), machine.cuda);
    Ok(Seen { nvml: Some(nvml), driver, cuda, unreadable: machine.unreadable, gpus: machine.gpus })
}

fn without_nvml() -> Option<Seen> {
    let helper = std::env::current_exe().ok()?;
    let list = trial::list(&helper, &environment()).ok()?;
    let cuda = list.first().map(|i| (i.driver_cuda / 1000, i.driver_cuda % 1000 / 10));
    let gpus = (0..).zip(&list).map(|(index, identity)| bare(index, identity)).collect();
    Some(Seen { nvml: None, driver: None, cuda, unreadable: Vec::new(), gpus })
}

/// What is known of a GPU without NVML.
fn bare(index: u32, identity: &GpuIdentity) -> Gpu {
    Gpu {
        index,
        name: identity.name.clone(),
        uuid: identity.uuid.clone(),
        pci: None,
        capability: Some(identity.capability),
        memory_total: Some(identity.memory_bytes as u64),
        memory_used: None,
        sm_clock_mhz: None,
        sm_clock_max_mhz: Some(identity.sm_clock_khz / 1000),
        memory_clock_mhz: None,
        memory_clock_max_mhz: None,
        temperature_c: None,
        power_w: None,
        power_limit_w: None,
        throttle: None,
        persistence: None,
        compute_mode: None,
        mig: None,
        ecc: None,
        processes: Processes::Unknown("NVML is not there".to_owned()),
    }
}

/// The environment for processes that only look.
pub(crate) fn environment() -> BTreeMap<OsString, OsString> {
    std::env::vars_os().collect()
}

fn leases() -> Result<Leases, LeaseError> {
    match settings::gpu_leases() {
        Some(folder) => Leases::at(&folder),
        None => Leases::shared(),
    }
}

fn choose<'a>(gpus: &'a [Gpu], wanted: Option<&str>) -> Result<&'a Gpu, CommandError> {
    let visible = std::env::var(env_vars::CUDA_VISIBLE_DEVICES).ok().filter(|v| !v.is_empty());
    nvml::choose(gpus, wanted, visible.as_deref()).map_err(|error| {
        CommandError::new(Kind::Usage, error.to_string())
            .with_hint("`kernelseek gpu` lists the GPUs; choose with `--gpu NUMBER` or `--gpu UUID`")
    })
}

fn no_gpu(error: &NvmlError) -> CommandError {
    CommandError::new(Kind::Harness, format!("no GPU can be used: {error}"))
        .with_hint("`kernelseek doctor` says what is missing")
}

fn list(global: &Global, printer: &Printer) -> Result<u8, CommandError> {
    let seen = match see() {
        Ok(seen) => seen,
        Err(error) if global.gpu.is_some() => return Err(no_gpu(&error)),
        Err(error) => {
            let why = Some(error.to_string());
            let (gpus, unreadable) = (Vec::new(), Vec::new());
            return show(&Listing { driver: None, cuda: None, why, unreadable, leases: None, gpus }, printer);
        }
    };
    let chosen = match &global.gpu {
        Some(wanted) => vec![choose(&seen.gpus, Some(wanted))?.clone()],
        None => seen.gpus.clone(),
    };
    let leases = leases();
    let listed = chosen.into_iter().map(|facts| {
        let holder =
            leases.as_ref().map_err(failed).and_then(|l| l.holder(&facts.uuid).map_err(|e| failed(&e)));
        let (lease, lease_unknown) = match holder {
            Ok(holder) => (holder, None),
            Err(why) => (None, Some(why)),
        };
        let foreign = match &seen.nvml {
            Some(nvml) => nvml.foreign(&facts.uuid, &[std::process::id()]),
            None => Foreign::CannotTell("NVML is not there".to_owned()),
        };
        Listed { facts, foreign, lease, lease_unknown }
    });
    let gpus = listed.collect();
    let folder = leases.as_ref().ok().map(|l| l.folder().to_owned());
    let listing = Listing {
        driver: seen.driver.clone(),
        cuda: seen.cuda,
        why: None,
        unreadable: seen.unreadable.clone(),
        leases: folder,
        gpus,
    };
    show(&listing, printer)
}

fn failed(error: &LeaseError) -> String {
    kernelseek_evaluator::fault::chain(error)
}

fn show(listing: &Listing, printer: &Printer) -> Result<u8, CommandError> {
    if printer.json {
        printer.json(listing)?;
    } else {
        printer.data(&gpu_view::listing(listing, printer.width(), printer.out));
    }
    Ok(exit::OK)
}

fn hold(
    args: &Args,
    global: &Global,
    printer: &Printer,
    program: &OsString,
    rest: &[OsString],
) -> Result<u8, CommandError> {
    let seen = see().map_err(|e| no_gpu(&e))?;
    let gpu = choose(&seen.gpus, global.gpu.as_deref())?;
    let words: Vec<_> = std::iter::once(program).chain(rest).map(|w| w.to_string_lossy()).collect();
    let claim = Claim { command: words.join(" "), lasts: args.lasts, within: settings::gpu_lease() };
    let leases = leases().map_err(|e| unusable(&e))?;
    let lease = wait(&leases, gpu, &claim, args, printer)?;
    if let Some(Foreign::Seen(others)) =
        seen.nvml.as_ref().map(|n| n.foreign(&gpu.uuid, &[std::process::id()]))
    {
        let who: Vec<String> = others.iter().map(nvml::GpuProcess::describe).collect();
        // Inside another lease they are most likely the caller's own.
        if !lease.is_inner() {
            printer.talk(&format!(
                "GPU {} is also in use, without a lease, by {}",
                gpu.index,
                who.join(", ")
            ));
        }
    }
    drop(seen.nvml);
    let env = [
        (env_vars::CUDA_VISIBLE_DEVICES, gpu.uuid.clone()),
        (env_vars::GPU, gpu.uuid.clone()),
        (lease::VARIABLE, lease.token()),
    ];
    lease
        .share_with_children()
        .map_err(|e| CommandError::new(Kind::Harness, format!("cannot pass the lease on: {e}")))?;
    let ended = run::run(program, rest, &env);
    drop(lease);
    match ended {
        Ok(status) => Ok(run::exit_code(status)),
        Err(error) => {
            let code = match &error {
                RunError::NotFound { .. } => exit::NOT_FOUND,
                RunError::NotExecutable { .. } => exit::NOT_EXECUTABLE,
                RunError::System { .. } => exit::HARNESS,
            };
            printer.error(&CommandError::new(Kind::Harness, kernelseek_evaluator::fault::chain(&error)));
            Ok(code)
        }
    }
}

/// Takes the lease, and says whom it waits for: in a line that is redrawn, or once a holder.
fn wait(
    leases: &Leases,
    gpu: &Gpu,
    claim: &Claim,
    args: &Args,
    printer: &Printer,
) -> Result<Lease, CommandError> {
    let mut bar = None;
    let mut told: Option<(Option<u32>, bool)> = None;
    let mut on_wait = |holder: &Holder| {
        let now = lease::now_ms();
        let text = format!("waiting for GPU {}: {}", gpu.index, holder.describe(now));
        let bar = bar.get_or_insert_with(|| printer.spinner());
        match bar {
            Some(bar) => bar.set_message(text),
            None => {
                let state = (holder.pid, holder.overdue(now).is_some());
                if told.replace(state) != Some(state) {
                    printer.talk(&text);
                }
            }
        }
    };
    let lease = leases.acquire(&gpu.uuid, claim, Some(args.wait), &mut on_wait);
    if let Some(Some(bar)) = bar {
        bar.finish_and_clear();
    }
    lease.map_err(|error| match error {
        LeaseError::Held(_) => CommandError::new(Kind::Harness, error.to_string())
            .with_hint("wait longer with `--wait 2h`, or choose another GPU with `--gpu`"),
        other => unusable(&other),
    })
}

fn unusable(error: &LeaseError) -> CommandError {
    CommandError::new(Kind::Harness, format!("no lease can be taken: {}", failed(error))).with_hint(format!(
        "mend the folder, or name another with {}; everybody on the machine must use the same",
        env_vars::GPU_LEASES
    ))
}

/// The hidden entry. It must run before anything starts a thread.
pub(crate) fn attempt(args: &GpuTrial) -> u8 {
    let complain = |message: &str| {
        let _ = writeln!(std::io::stderr().lock(), "kernelseek {}: {message}", trial::COMMAND);
        exit::HARNESS
    };
    let trial = match serde_json::from_str(&args.trial) {
        Ok(trial) => trial,
        Err(error) => return complain(&format!("malformed trial: {error}")),
    };
    let helper = match std::env::current_exe() {
        Ok(helper) => helper,
        Err(error) => return complain(&error.to_string()),
    };
    match trial::perform(&trial, &helper, &environment(), &mut std::io::stdout()) {
        Ok(()) => exit::OK,
        Err(error) => complain(&error.to_string()),
    }
}
