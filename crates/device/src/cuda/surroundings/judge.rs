//! Facts → rows. No I/O.

use super::{Driver, Nvcc, Row, SeenGpu, Surroundings};
use crate::cuda::nvml::{ComputeMode, Foreign};
use crate::cuda::trial::Tried;
use kernelseek_sandbox::programs::Program;

/// Oldest CUDA version that the bindings of the driver are made for.
const OLDEST_CUDA: (u32, u32) = (12, 0);

fn good(name: &str, value: impl Into<String>) -> Row {
    Row { name: name.to_owned(), good: true, value: value.into(), fix: None }
}

fn bad(name: &str, value: impl Into<String>, fix: impl Into<String>) -> Row {
    Row { name: name.to_owned(), good: false, value: value.into(), fix: Some(fix.into()) }
}

/// The rows, in the order in which they are read.
#[must_use]
pub fn judge(s: &Surroundings) -> Vec<Row> {
    let mut rows = vec![driver(s)];
    let present = matches!(s.driver, Driver::Present { .. });
    if present && s.gpus.is_empty() && s.unreadable.is_empty() {
        rows.push(bad(
            "gpu",
            "the driver answers and shows no GPU",
            "look at CUDA_VISIBLE_DEVICES and at the devices that the job or container was given",
        ));
    }
    for text in &s.unreadable {
        rows.push(bad("gpu", text, "restart the GPU or the machine: the driver has lost it"));
    }
    for (position, gpu) in s.gpus.iter().enumerate() {
        rows.extend(one_gpu(s, position, gpu));
    }
    rows.extend(machine(s, present));
    rows.extend(nvcc(s));
    if present || s.nvcc.is_some() {
        rows.extend(s.tools.iter().map(|(name, program)| tool(name, program.as_ref())));
    }
    rows.extend(agents(&s.agents));
    rows
}

fn driver(s: &Surroundings) -> Row {
    match &s.driver {
        Driver::Absent if s.wsl => bad(
            "driver",
            "no NVIDIA driver in WSL: only the cpu target works",
            "install the NVIDIA driver on Windows, then run `wsl --shutdown`",
        ),
        Driver::Absent if s.device_files => bad(
            "driver",
            "device files of an NVIDIA driver, but not its libraries",
            "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        ),
        Driver::Absent if s.container.is_some() => bad(
            "driver",
            "no NVIDIA driver in this container: only the cpu target works",
            "on a host with a GPU, start the container with it (docker: `--gpus all`)",
        ),
        Driver::Absent => bad(
            "driver",
            "no NVIDIA driver: only the cpu target works",
            "on a machine with an NVIDIA GPU, install its driver, version 580 or newer",
        ),
        Driver::Broken(why) => bad("driver", why, broken(why)),
        Driver::Present { version, cuda } => {
            let version = version.as_deref().map_or_else(|| "NVIDIA".to_owned(), |v| format!("NVIDIA {v}"));
            match cuda {
                Some(cuda) if *cuda < OLDEST_CUDA => bad(
                    "driver",
                    format!("{version}, CUDA {}: too old, {} is needed", dotted(*cuda), dotted(OLDEST_CUDA)),
                    "install a driver of version 525 or newer",
                ),
                Some(cuda) => good("driver", format!("{version}, CUDA {}", dotted(*cuda))),
                None => good("driver", version),
            }
        }
    }
}

/// What helps against a driver that does not answer, by what it says.
fn broken(why: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|w| why.contains(w));
    if says(&["libcuda.so.1 was not found"]) {
        "install the driver's CUDA library; in a container, start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
    } else if says(&["mismatch", "MISMATCH"]) {
        "restart the machine: the driver was updated and the old one is still loaded"
    } else if says(&["not loaded"]) {
        "load the kernel module: `sudo modprobe nvidia`"
    } else if says(&["ermission", "PERMITTED"]) {
        "give this user the device files /dev/nvidia*"
    } else if says(&["NO_DEVICE", "no CUDA-capable"]) {
        "look at CUDA_VISIBLE_DEVICES and at the devices that the job or container was given"
    } else {
        "see what `nvidia-smi` and `dmesg` say, then install the driver again"
    }
}

fn one_gpu(s: &Surroundings, position: usize, gpu: &SeenGpu) -> Vec<Row> {
    let index = gpu.facts.as_ref().map_or(position, |f| f.index as usize);
    let name = format!("gpu {index}");
    let mut rows = vec![good(&name, describe(gpu))];
    let facts = gpu.facts.as_ref();
    let mode = facts.and_then(|f| f.compute_mode);
    let exclusive = mode.is_some_and(|m| m != ComputeMode::Default);
    let fix_mode = format!("sudo nvidia-smi -i {index} -c DEFAULT");
    match mode {
        Some(ComputeMode::Prohibited) => {
            rows.push(bad(&format!("{name} mode"), "prohibited: no process may use it", &*fix_mode));
        }
        Some(ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread) => rows.push(bad(
            &format!("{name} mode"),
            "exclusive: the evaluator and its workers are several processes",
            &*fix_mode,
        )),
        Some(ComputeMode::Default) | None => {}
    }
    if facts.and_then(|f| f.mig) == Some(true) {
        rows.push(bad(
            &format!("{name} mig"),
            "on: an instance shares memory bandwidth and power with the others",
            format!("sudo nvidia-smi -i {index} -mig 0"),
        ));
    }
    let hot: Vec<&str> = facts
        .and_then(|f| f.throttle.as_ref())
        .into_iter()
        .flatten()
        .map(String::as_str)
        .filter(|w| ["warm", "hardware", "brake"].iter().any(|bad| w.contains(bad)))
        .collect();
    if !hot.is_empty() {
        rows.push(bad(
            &format!("{name} clocks"),
            format!("held back: {}", hot.join(", ")),
            "mend its cooling or power supply, and wait until it is cool",
        ));
    }
    match &gpu.foreign {
        Foreign::Seen(list) => {
            let who: Vec<String> =
                list.iter().take(4).map(super::super::nvml::GpuProcess::describe).collect();
            let more = if list.len() > who.len() {
                format!(" and {} more", list.len() - who.len())
            } else {
                String::new()
            };
            rows.push(bad(
                &format!("{name} users"),
                format!("in use by {}{more}", who.join(", ")),
                "wait for them, or choose another GPU with `--gpu`",
            ));
        }
        Foreign::CannotTell(why) => rows.push(bad(
            &format!("{name} users"),
            format!("cannot tell who else uses it: {why}"),
            "run outside a pid namespace (docker: `--pid=host`), or see to it that nobody else uses it",
        )),
        Foreign::None => {}
    }
    rows.extend(tried(
        &format!("{name} ipc"),
        &gpu.share,
        "memory is shared with a second process, and a kernel runs on it",
        || {
            if s.wsl {
                "evaluate on Linux itself: WSL has no CUDA IPC, so trust is reduced there".to_owned()
            } else if exclusive {
                fix_mode.clone()
            } else if s.container.is_some() {
                "start the container with `--ipc=host`; without CUDA IPC trust is reduced".to_owned()
            } else {
                "see docs/guides/gpu.md; without CUDA IPC trust is reduced".to_owned()
            }
        },
    ));
    rows.extend(tried(
        &format!("{name} fence"),
        &gpu.fenced,
        "the driver works behind the sandbox of a worker",
        || {
            if exclusive {
                fix_mode.clone()
            } else if !s.namespaces {
                "allow unprivileged user namespaces; without them trust is reduced".to_owned()
            } else {
                "see docs/guides/gpu.md; without the sandbox trust is reduced".to_owned()
            }
        },
    ));
    rows
}

fn tried(name: &str, tried: &Tried, works: &str, fix: impl FnOnce() -> String) -> Option<Row> {
    match tried {
        Tried::Works => Some(good(name, works)),
        Tried::Fails { step, why } => Some(bad(name, format!("fails to {step}: {why}"), fix())),
        Tried::NotTried => None,
    }
}

fn describe(gpu: &SeenGpu) -> String {
    let (facts, identity) = (gpu.facts.as_ref(), gpu.identity.as_ref());
    let mut parts: Vec<String> = Vec::new();
    parts.extend(identity.map(|i| i.name.clone()).or_else(|| facts.map(|f| f.name.clone())));
    let arch = identity.map(crate::cuda::GpuIdentity::arch);
    parts.extend(
        arch.or_else(|| facts.and_then(|f| f.capability).map(|(major, minor)| format!("sm_{major}{minor}"))),
    );
    let memory = facts.and_then(|f| f.memory_total).or_else(|| identity.map(|i| i.memory_bytes as u64));
    parts.extend(memory.map(|b| format!("{:.1} GiB", b as f64 / f64::from(1 << 30))));
    parts.extend(identity.map(|i| format!("L2 {:.0} MiB", i.l2_bytes as f64 / f64::from(1 << 20))));
    if let Some(f) = facts {
        if let (Some(now), Some(most)) = (f.sm_clock_mhz, f.sm_clock_max_mhz) {
            parts.push(format!("{now} of {most} MHz"));
        }
        parts.extend(f.temperature_c.map(|t| format!("{t} °C")));
        if let (Some(now), Some(most)) = (f.power_w, f.power_limit_w) {
            parts.push(format!("{now:.0} of {most:.0} W"));
        }
    }
    parts.join(", ")
}

fn machine(s: &Surroundings, present: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    if s.wsl {
        rows.push(bad(
            "wsl",
            "Linux on Windows: no CUDA IPC, so trust is reduced; times include Windows' scheduling",
            "measure what counts on Linux itself",
        ));
    }
    match (&s.container, s.namespaces) {
        (Some(kind), false) => rows.push(bad(
            "container",
            format!("in {kind}, without user namespaces: trust is reduced"),
            "start it so that namespaces can be made (docker: `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`)",
        )),
        (Some(kind), true) => rows.push(good("container", format!("in {kind}, with user namespaces"))),
        (None, _) => {}
    }
    if let Some(sign) = &s.mps {
        rows.push(bad(
            "mps",
            format!("a multi-process service is there ({sign}): processes run on the GPU at the same time"),
            "stop it: `echo quit | nvidia-cuda-mps-control`, and unset CUDA_MPS_*",
        ));
    }
    if present && s.counters_reserved {
        rows.push(bad(
            "counters",
            "performance counters are for administrators only: `ncu` will not profile",
            "set `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in /etc/modprobe.d and restart",
        ));
    }
    if let Some(kind) = &s.network_state {
        rows.push(bad(
            "state",
            format!("the state folder is on a network file system ({kind}), which ledgers refuse"),
            "name a local folder with `--state-dir DIR` or KERNELSEEK_STATE_DIR",
        ));
    }
    rows
}

fn nvcc(s: &Surroundings) -> Option<Row> {
    let cuda = match &s.driver {
        Driver::Present { cuda, .. } => *cuda,
        _ => None,
    };
    let Some(Nvcc { program, release }) = &s.nvcc else {
        return matches!(s.driver, Driver::Present { .. }).then(|| {
            bad(
                "nvcc",
                "none: CUDA sources cannot be built",
                "install the CUDA toolkit, or name nvcc with KERNELSEEK_NVCC",
            )
        });
    };
    let Some(release) = release else {
        let why = program.silent.clone().unwrap_or_else(|| "it names no release".to_owned());
        return Some(bad(
            "nvcc",
            format!("{}: {why}", program.path.display()),
            "install the CUDA toolkit again",
        ));
    };
    let found = format!("{} ({})", dotted(*release), program.path.display());
    Some(match cuda {
        Some(cuda) if release.0 > cuda.0 => bad(
            "nvcc",
            format!("{found}: newer than the driver, which supports CUDA {}", dotted(cuda)),
            format!("install a driver for CUDA {}, or a CUDA {} toolkit", release.0, cuda.0),
        ),
        Some(cuda) if *release > cuda => good(
            "nvcc",
            format!("{found}; the driver (CUDA {}) loads its machine code, not its PTX", dotted(cuda)),
        ),
        _ => good("nvcc", found),
    })
}

fn tool(name: &str, program: Option<&Program>) -> Row {
    let use_of = match name {
        "ncu" => "profiles are not taken",
        "compute-sanitizer" => "`--full` does not look for memory errors on the GPU",
        _ => "machine code is not shown",
    };
    match program {
        None => bad(name, format!("none: {use_of}"), format!("install {name}, a part of the CUDA toolkit")),
        Some(Program { version: Some(version), path, .. }) => {
            good(name, format!("{} ({})", short(version), path.display()))
        }
        Some(Program { path, silent, .. }) => bad(
            name,
            format!("{}: {}", path.display(), silent.as_deref().unwrap_or("does not answer")),
            format!("install {name} again"),
        ),
    }
}

fn agents(found: &[Program]) -> Vec<Row> {
    if found.is_empty() {
        return vec![bad(
            "agents",
            "no coding agent on PATH",
            "install one, or let any program that edits files be led: `kernelseek run -- CMD`",
        )];
    }
    found
        .iter()
        .map(|agent| match (&agent.version, &agent.silent) {
            // Some say their own name before the number.
            (Some(version), _) if version.starts_with(&agent.name) => good("agent", version),
            (Some(version), _) => good("agent", format!("{} {version}", agent.name)),
            (None, why) => bad(
                "agent",
                format!("{}: {}", agent.name, why.as_deref().unwrap_or("does not answer")),
                format!("see what `{} --version` says", agent.path.display()),
            ),
        })
        .collect()
}

/// `13.0` out of a version line that has more: what follows the last of the words that tools put before it.
fn short(version: &str) -> &str {
    ["release ", "Version "]
        .iter()
        .find_map(|word| version.rsplit_once(word).map(|(_, rest)| rest))
        .map_or(version, |rest| rest.split([' ', ',']).next().unwrap_or(rest))
}

fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests;
