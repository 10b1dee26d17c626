//! Asking the machine.

use super::{Driver, Nvcc, SeenGpu, Surroundings};
use crate::cuda::device::GpuIdentity;
use crate::cuda::nvml::{Foreign, Gpu, Machine, Nvml, NvmlError};
use crate::cuda::plain::plain;
use crate::cuda::trial::{self, Trial, Tried};
use kernelseek_sandbox::programs::{self, Program};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a program has to name its version.
const PATIENCE: Duration = Duration::from_secs(3);
/// Tools of the toolkit that the cuda target can use.
const TOOLS: [&str; 3] = ["ncu", "compute-sanitizer", "cuobjdump"];

/// What the caller knows of the environment.
#[derive(Debug, Clone)]
pub struct Places {
    /// The tool's own binary.
    pub helper: PathBuf,
    /// Folders with programs.
    pub path: Vec<PathBuf>,
    /// A compiler that was named.
    pub nvcc: Option<PathBuf>,
    /// Folder of the toolkit that was named (`CUDA_HOME`).
    pub toolkit: Option<PathBuf>,
    /// The environment for the processes that are started.
    pub env: BTreeMap<OsString, OsString>,
    /// Names of coding agents.
    pub agents: Vec<String>,
}

/// What the caller has asked elsewhere.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Whether namespaces can be made without privileges.
    pub namespaces: bool,
    /// The kind of network file system that the state folder is on.
    pub network_state: Option<String>,
}

/// Asks. `step` is told what takes time.
#[must_use]
pub fn read(places: &Places, asked: Asked, step: &mut dyn FnMut(&str)) -> Surroundings {
    step("asking the NVIDIA driver");
    let opened = Nvml::open();
    let machine = opened.as_ref().map_err(Clone::clone).and_then(Nvml::machine);
    let listed = trial::list(&places.helper, &places.env);
    let driver = driver(&machine, &listed);
    let seen = pair(machine.as_ref().ok(), listed.unwrap_or_default());
    let unreadable = machine.as_ref().map(|m| m.unreadable.clone()).unwrap_or_default();
    let gpus = seen
        .into_iter()
        .map(|(facts, identity)| {
            let uuid = identity.as_ref().map(|i| i.uuid.clone());
            let mut attempt = |what: &str, trial: &dyn Fn(String) -> Trial| match &uuid {
                Some(uuid) => {
                    step(what);
                    trial::ask(&places.helper, &places.env, &trial(uuid.clone()))
                }
                None => Tried::NotTried,
            };
            let share = attempt("sharing GPU memory between processes", &|gpu| Trial::Share { gpu });
            let fenced = attempt("starting the driver behind the sandbox", &|gpu| Trial::Fenced { gpu });
            let foreign = match (&opened, &facts) {
                // After the trials, whose processes have ended.
                (Ok(nvml), Some(facts)) => nvml.foreign(&facts.uuid, &[std::process::id()]),
                _ => Foreign::CannotTell("NVML does not answer".to_owned()),
            };
            SeenGpu { facts, identity, foreign, share, fenced }
        })
        .collect();
    step("asking tools and agents for their versions");
    let (nvcc, tools, agents) = found(places);
    Surroundings {
        driver,
        gpus,
        unreadable,
        device_files: Path::new("/dev/nvidiactl").exists(),
        wsl: is_wsl(&text("/proc/version"), Path::new("/dev/dxg").exists()),
        container: container(),
        namespaces: asked.namespaces,
        mps: mps(places),
        counters_reserved: counters_reserved(&text("/proc/driver/nvidia/params"))
            && !rustix::process::geteuid().is_root(),
        network_state: asked.network_state,
        nvcc,
        tools,
        agents,
    }
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn driver(machine: &Result<Machine, NvmlError>, listed: &Result<Vec<GpuIdentity>, Tried>) -> Driver {
    match (machine, listed) {
        (Ok(m), Ok(_)) => Driver::Present { version: Some(m.driver.clone()), cuda: m.cuda },
        (Err(_), Ok(list)) => Driver::Present {
            version: None,
            cuda: list.first().map(|i| (i.driver_cuda / 1000, i.driver_cuda % 1000 / 10)),
        },
        // NVML may answer where the driver API has no device to offer: its own words say more.
        (nvml, Err(Tried::Fails { why, .. })) => {
            let no_library = why.contains("libcuda.so.1 was not found");
            match nvml {
                Err(NvmlError::NoLibrary) if no_library => Driver::Absent,
                Err(error) if no_library => Driver::Broken(error.to_string()),
                _ => Driver::Broken(plain(why, 200)),
            }
        }
        (_, Err(_)) => Driver::Broken("the driver does not answer".to_owned()),
    }
}

/// The two views of each GPU, by UUID; those that the driver API does not offer at the end.
fn pair(machine: Option<&Machine>, listed: Vec<GpuIdentity>) -> Vec<(Option<Gpu>, Option<GpuIdentity>)> {
    let mut facts: Vec<Gpu> = machine.map(|m| m.gpus.clone()).unwrap_or_default();
    let mut pairs: Vec<_> = listed
        .into_iter()
        .map(|identity| {
            let at = facts.iter().position(|f| f.uuid == identity.uuid);
            (at.map(|at| facts.remove(at)), Some(identity))
        })
        .collect();
    pairs.extend(facts.into_iter().map(|f| (Some(f), None)));
    pairs
}

type Found = (Option<Nvcc>, Vec<(String, Option<Program>)>, Vec<Program>);

fn found(places: &Places) -> Found {
    let mut toolkit = places.path.clone();
    toolkit.extend(places.toolkit.iter().map(|home| home.join("bin")));
    toolkit.push("/usr/local/cuda/bin".into());
    let nvcc = places.nvcc.clone().or_else(|| programs::find("nvcc", &toolkit));
    let mut wanted: Vec<(String, PathBuf)> = Vec::new();
    wanted.extend(nvcc.map(|path| ("nvcc".to_owned(), path)));
    let located = |name: &str, path: &[PathBuf]| programs::find(name, path).map(|at| (name.to_owned(), at));
    wanted.extend(TOOLS.iter().filter_map(|name| located(name, &toolkit)));
    let of_toolkit = wanted.len();
    wanted.extend(places.agents.iter().filter_map(|name| located(name, &places.path)));
    let mut answers = programs::ask(wanted, &places.env, PATIENCE);
    let agents = answers.split_off(of_toolkit);
    let mut take = |name: &str| answers.iter().position(|p| p.name == name).map(|at| answers.remove(at));
    let nvcc = take("nvcc").map(|program| {
        let release = program.version.as_deref().and_then(release_in);
        Nvcc { program, release }
    });
    let tools = TOOLS.iter().map(|name| ((*name).to_owned(), take(name))).collect();
    (nvcc, tools, agents)
}

/// The release in what `nvcc --version` says: `release 13.0`.
#[must_use]
pub fn release_in(version: &str) -> Option<(u32, u32)> {
    let (_, rest) = version.rsplit_once("release ")?;
    let number = rest.split([',', ' ']).next()?;
    let (major, minor) = number.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn is_wsl(version: &str, paravirtual: bool) -> bool {
    paravirtual || version.to_ascii_lowercase().contains("microsoft")
}

/// Whether the driver keeps its counters for administrators: `RmProfilingAdminOnly: 1` among its parameters.
#[must_use]
pub fn counters_reserved(params: &str) -> bool {
    params
        .lines()
        .filter_map(|l| l.split_once(':'))
        .any(|(k, v)| k.trim() == "RmProfilingAdminOnly" && v.trim() == "1")
}

fn container() -> Option<String> {
    container_in(
        Path::new("/.dockerenv").exists(),
        Path::new("/run/.containerenv").exists(),
        &text("/proc/1/cgroup"),
        &text("/run/systemd/container"),
    )
}

fn container_in(docker: bool, podman: bool, cgroup: &str, systemd: &str) -> Option<String> {
    let named = systemd.trim();
    let marks = [
        ("kubepods", "kubernetes"),
        ("docker", "docker"),
        ("libpod", "podman"),
        ("lxc", "lxc"),
        ("containerd", "containerd"),
    ];
    if docker {
        return Some("docker".to_owned());
    }
    if podman {
        return Some("podman".to_owned());
    }
    if !named.is_empty() {
        return Some(plain(named, 20));
    }
    marks.iter().find(|(mark, _)| cgroup.contains(mark)).map(|(_, kind)| (*kind).to_owned())
}

/// A sign of MPS: the environment, the pipe of its control daemon, or the daemon itself.
fn mps(places: &Places) -> Option<String> {
    let variable = ["CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]
        .into_iter()
        .find(|name| places.env.contains_key(&OsString::from(name)));
    if let Some(name) = variable {
        return Some(name.to_owned());
    }
    let pipe = Path::new("/tmp/nvidia-mps/control");
    let running = || {
        std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
            let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
            // The kernel keeps fifteen characters of a name.
            name.starts_with("nvidia-cuda-mps")
                .then(|| format!("process {}", entry.file_name().to_string_lossy()))
        })
    };
    // The pipe stays behind when the daemon has gone: then the daemon's process is what counts.
    running().or_else(|| {
        (pipe.exists() && is_locked(Path::new("/tmp/nvidia-mps"))).then(|| pipe.display().to_string())
    })
}

/// Whether the daemon's lock file in the folder is locked.
fn is_locked(folder: &Path) -> bool {
    use rustix::fs::{FlockOperation, flock};
    let Ok(file) = std::fs::File::open(folder.join("nvidia-cuda-mps-control.lock")) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::nvml::tests::gpu;
    use proptest::prelude::*;

    fn identity(uuid: &str) -> GpuIdentity {
        GpuIdentity {
            name: "x".into(),
            uuid: uuid.into(),
            capability: (9, 0),
            multiprocessors: 1,
            l2_bytes: 1,
            persisting_l2_bytes: 0,
            memory_bytes: 1,
            sm_clock_khz: 1,
            driver_cuda: 12040,
        }
    }

    fn machine() -> Machine {
        Machine {
            driver: "580".into(),
            cuda: Some((13, 0)),
            gpus: vec![gpu(0, "GPU-a"), gpu(1, "GPU-b")],
            unreadable: Vec::new(),
        }
    }

    #[test]
    fn the_two_libraries_make_one_driver() {
        let fails = |why: &str| Err(Tried::Fails { step: "start the driver".into(), why: why.into() });
        let gone = "libcuda.so.1 was not found: x";
        let rows = [
            (Ok(machine()), Ok(vec![]), Driver::Present { version: Some("580".into()), cuda: Some((13, 0)) }),
            (
                Err(NvmlError::NoLibrary),
                Ok(vec![identity("a")]),
                Driver::Present { version: None, cuda: Some((12, 4)) },
            ),
            (Err(NvmlError::NoLibrary), fails(gone), Driver::Absent),
            (Err(NvmlError::Start("y".into())), fails(gone), Driver::Broken("NVML does not start: y".into())),
            (Ok(machine()), fails("cuInit: z"), Driver::Broken("cuInit: z".into())),
            (Err(NvmlError::NoLibrary), fails("cuInit: z"), Driver::Broken("cuInit: z".into())),
        ];
        for (nvml, listed, expected) in rows {
            assert_eq!(driver(&nvml, &listed), expected);
        }
    }

    #[test]
    fn gpus_are_paired_by_their_uuid() {
        let pairs = pair(Some(&machine()), vec![identity("GPU-b"), identity("GPU-c")]);
        let uuids: Vec<_> = pairs
            .iter()
            .map(|(f, i)| (f.as_ref().map(|f| f.uuid.as_str()), i.as_ref().map(|i| i.uuid.as_str())))
            .collect();
        assert_eq!(uuids, [(Some("GPU-b"), Some("GPU-b")), (None, Some("GPU-c")), (Some("GPU-a"), None)]);
    }

    #[test]
    fn the_signs_of_a_machine_are_read() {
        assert!(is_wsl("Linux version 5.15.90.1-microsoft-standard-WSL2", false));
        assert!(is_wsl("Linux version 6.1", true));
        assert!(!is_wsl("Linux version 6.1", false));
        assert!(counters_reserved("RmMsg: \"\"\nRmProfilingAdminOnly: 1\n"));
        assert!(!counters_reserved("RmProfilingAdminOnly: 0\n"));
        assert!(!counters_reserved(""));
        assert_eq!(release_in("Cuda compilation tools, release 13.0, V13.0.88"), Some((13, 0)));
        assert_eq!(release_in("nvcc 13"), None);
        let kinds = [
            (true, false, "", "", Some("docker")),
            (false, true, "", "", Some("podman")),
            (false, false, "0::/kubepods/pod1/docker-2", "", Some("kubernetes")),
            (false, false, "0::/", "systemd-nspawn\n", Some("systemd-nspawn")),
            (false, false, "0::/init.scope", "", None),
        ];
        for (docker, podman, cgroup, systemd, kind) in kinds {
            assert_eq!(container_in(docker, podman, cgroup, systemd).as_deref(), kind, "{cgroup}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".*") {
            let _ = (release_in(&text), counters_reserved(&text), is_wsl(&text, false));
            let _ = container_in(false, false, &text, &text);
        }
    }
}
