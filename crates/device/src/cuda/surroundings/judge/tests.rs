use super::*;
use crate::cuda::nvml::GpuProcess;
use crate::cuda::nvml::tests::gpu;
use std::path::PathBuf;

fn program(name: &str, version: Option<&str>) -> Program {
    Program {
        name: name.into(),
        path: PathBuf::from("/usr/bin").join(name),
        version: version.map(Into::into),
        silent: version.is_none().then(|| "no answer within 3 s".into()),
    }
}

fn nothing() -> Surroundings {
    Surroundings {
        driver: Driver::Absent,
        gpus: Vec::new(),
        unreadable: Vec::new(),
        device_files: false,
        wsl: false,
        container: None,
        namespaces: true,
        mps: None,
        counters_reserved: false,
        network_state: None,
        nvcc: None,
        tools: vec![("ncu".into(), None)],
        agents: vec![program("claude", Some("2.1.5 (Claude Code)"))],
    }
}

fn seen() -> SeenGpu {
    SeenGpu {
        facts: Some(gpu(0, "GPU-1")),
        identity: None,
        foreign: Foreign::None,
        share: Tried::Works,
        fenced: Tried::Works,
    }
}

fn nvcc_of(release: (u32, u32)) -> Nvcc {
    Nvcc { program: program("nvcc", Some("x")), release: Some(release) }
}

/// A machine on which nothing is amiss.
fn healthy() -> Surroundings {
    Surroundings {
        driver: Driver::Present { version: Some("580.159.04".into()), cuda: Some((13, 0)) },
        gpus: vec![seen()],
        device_files: true,
        nvcc: Some(nvcc_of((13, 0))),
        tools: vec![("ncu".into(), Some(program("ncu", Some("Version 2025.3.1.0 (build 1)"))))],
        ..nothing()
    }
}

#[test]
fn nothing_is_bad_on_a_healthy_machine() {
    let rows = judge(&healthy());
    assert!(rows.iter().all(|r| r.good && r.fix.is_none()), "{rows:#?}");
    let text: Vec<String> = rows.iter().map(|r| format!("{}: {}", r.name, r.value)).collect();
    assert_eq!(
        text,
        [
            "driver: NVIDIA 580.159.04, CUDA 13.0",
            "gpu 0: NVIDIA H200, sm_90, 150.0 GiB, 345 of 1980 MHz, 31 °C, 76 of 700 W",
            "gpu 0 ipc: memory is shared with a second process, and a kernel runs on it",
            "gpu 0 fence: the driver works behind the sandbox of a worker",
            "nvcc: 13.0 (/usr/bin/nvcc)",
            "ncu: 2025.3.1.0 (/usr/bin/ncu)",
            "agent: claude 2.1.5 (Claude Code)",
        ]
    );
}

#[test]
fn a_machine_without_a_driver_gets_one_row_about_it() {
    let rows = judge(&nothing());
    let names: Vec<&str> = rows.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["driver", "agent"], "tools of a toolkit are of no use here");
    assert!(rows[0].value.contains("only the cpu target works"));
}

type Change = fn(&mut Surroundings);

/// Every way in which a row can be bad: the change, the row's name, a word of its value, a word of its fix.
const AMISS: [(Change, &str, &str, &str); 34] = [
    (|s| *s = nothing(), "driver", "cpu target works", "version 580"),
    (|s| (*s, s.wsl) = (nothing(), true), "driver", "WSL", "on Windows"),
    (
        |s| (*s, s.device_files) = (nothing(), true),
        "driver",
        "not its libraries",
        "NVIDIA_DRIVER_CAPABILITIES",
    ),
    (|s| (*s, s.container) = (nothing(), Some("docker".into())), "driver", "container", "--gpus all"),
    (
        |s| s.driver = Driver::Broken("libcuda.so.1 was not found: x".into()),
        "driver",
        "libcuda",
        "NVIDIA_DRIVER_CAPABILITIES",
    ),
    (
        |s| s.driver = Driver::Broken("RM detects a driver/library version mismatch".into()),
        "driver",
        "mismatch",
        "restart",
    ),
    (|s| s.driver = Driver::Broken("NVIDIA driver is not loaded".into()), "driver", "not loaded", "modprobe"),
    (|s| s.driver = Driver::Broken("does not have permission".into()), "driver", "permission", "/dev/nvidia"),
    (
        |s| s.driver = Driver::Broken("cuInit: no CUDA-capable device is detected".into()),
        "driver",
        "cuInit",
        "CUDA_VISIBLE_DEVICES",
    ),
    (|s| s.driver = Driver::Broken("cuInit: unknown error".into()), "driver", "unknown", "dmesg"),
    (
        |s| s.driver = Driver::Present { version: Some("470.1".into()), cuda: Some((11, 4)) },
        "driver",
        "too old",
        "525",
    ),
    (|s| s.gpus.clear(), "gpu", "no GPU", "CUDA_VISIBLE_DEVICES"),
    (|s| s.unreadable = vec!["GPU 1: fell off the bus".into()], "gpu", "off the bus", "restart"),
    (
        |s| facts(s).compute_mode = Some(ComputeMode::ExclusiveProcess),
        "gpu 0 mode",
        "exclusive",
        "-i 0 -c DEFAULT",
    ),
    (
        |s| facts(s).compute_mode = Some(ComputeMode::Prohibited),
        "gpu 0 mode",
        "prohibited",
        "-i 0 -c DEFAULT",
    ),
    (|s| facts(s).mig = Some(true), "gpu 0 mig", "on", "-mig 0"),
    (
        |s| facts(s).throttle = Some(vec!["power limit".into(), "too warm".into()]),
        "gpu 0 clocks",
        "held back: too warm",
        "cooling",
    ),
    (|s| s.gpus[0].foreign = users(1), "gpu 0 users", "process 100 (python)", "--gpu"),
    (|s| s.gpus[0].foreign = users(9), "gpu 0 users", "and 5 more", "--gpu"),
    (
        |s| s.gpus[0].foreign = Foreign::CannotTell("namespace".into()),
        "gpu 0 users",
        "cannot tell",
        "--pid=host",
    ),
    (|s| s.gpus[0].share = failed(), "gpu 0 ipc", "fails to open the memory: refused", "docs/guides/gpu.md"),
    (|s| (s.gpus[0].share, s.wsl) = (failed(), true), "gpu 0 ipc", "refused", "WSL has no CUDA IPC"),
    (
        |s| (s.gpus[0].share, s.container) = (failed(), Some("docker".into())),
        "gpu 0 ipc",
        "refused",
        "--ipc=host",
    ),
    (|s| s.gpus[0].fenced = failed(), "gpu 0 fence", "refused", "docs/guides/gpu.md"),
    (|s| (s.gpus[0].fenced, s.namespaces) = (failed(), false), "gpu 0 fence", "refused", "user namespaces"),
    (|s| s.wsl = true, "wsl", "trust is reduced", "Linux itself"),
    (
        |s| (s.container, s.namespaces) = (Some("docker".into()), false),
        "container",
        "in docker, without",
        "seccomp=unconfined",
    ),
    (|s| s.mps = Some("CUDA_MPS_PIPE_DIRECTORY".into()), "mps", "CUDA_MPS_PIPE_DIRECTORY", "quit"),
    (|s| s.counters_reserved = true, "counters", "administrators", "NVreg_RestrictProfilingToAdminUsers=0"),
    (|s| s.network_state = Some("NFS".into()), "state", "NFS", "--state-dir"),
    (|s| s.nvcc = None, "nvcc", "none", "KERNELSEEK_NVCC"),
    (
        |s| s.nvcc = Some(nvcc_of((14, 1))),
        "nvcc",
        "14.1 (/usr/bin/nvcc): newer than the driver, which supports CUDA 13.0",
        "driver for CUDA 14",
    ),
    (|s| s.tools[0].1 = None, "ncu", "none", "install ncu"),
    (|s| s.agents.clear(), "agents", "no coding agent", "kernelseek run"),
];

fn facts(s: &mut Surroundings) -> &mut crate::cuda::nvml::Gpu {
    s.gpus[0].facts.as_mut().unwrap()
}

fn failed() -> Tried {
    Tried::Fails { step: "open the memory".into(), why: "refused".into() }
}

fn users(count: u32) -> Foreign {
    let one = |pid| GpuProcess { pid, memory: None, name: Some("python".into()), compute: true };
    Foreign::Seen((100..100 + count).map(one).collect())
}

#[test]
fn every_bad_row_says_what_and_names_one_fix() {
    for (change, name, value, fix) in AMISS {
        let mut s = healthy();
        change(&mut s);
        let rows = judge(&s);
        let row = rows
            .iter()
            .find(|r| !r.good && r.name == name && r.value.contains(value))
            .unwrap_or_else(|| panic!("no bad row {name} with {value}: {rows:#?}"));
        assert!(row.fix.as_deref().is_some_and(|f| f.contains(fix)), "{row:?} has no {fix}");
        for row in &rows {
            assert_eq!(row.good, row.fix.is_none(), "{row:?}");
            assert!(row.name.chars().count() <= 16, "{row:?}");
            let numbered = row.value.chars().chain(row.fix.iter().flat_map(|f| f.chars()));
            assert!(numbered.clone().all(|c| !c.is_control()), "{row:?}");
        }
    }
}

#[test]
fn a_silent_program_is_bad_and_a_newer_minor_release_is_explained() {
    let mut s = healthy();
    s.agents = vec![program("codex", None), program("aider", Some("aider 0.86.1"))];
    s.tools = vec![("cuobjdump".into(), Some(program("cuobjdump", None)))];
    s.nvcc = Some(nvcc_of((13, 5)));
    let rows = judge(&s);
    let row =
        |name: &str, word: &str| rows.iter().find(|r| r.name == name && r.value.contains(word)).unwrap();
    assert!(!row("agent", "codex: no answer").good);
    assert_eq!(row("agent", "aider").value, "aider 0.86.1");
    assert!(!row("cuobjdump", "no answer").good);
    assert!(row("nvcc", "not its PTX").good);
    s.nvcc = Some(Nvcc { program: program("nvcc", None), release: None });
    assert!(judge(&s).iter().any(|r| r.name == "nvcc" && !r.good));
}

#[test]
fn a_gpu_that_only_the_driver_api_knows_is_described() {
    let mut s = healthy();
    s.gpus[0].facts = None;
    s.gpus[0].identity = Some(crate::cuda::GpuIdentity {
        name: "NVIDIA H200".into(),
        uuid: "GPU-1".into(),
        capability: (9, 0),
        multiprocessors: 132,
        l2_bytes: 60 << 20,
        persisting_l2_bytes: 0,
        memory_bytes: 139 << 30,
        sm_clock_khz: 1,
        driver_cuda: 13000,
    });
    let rows = judge(&s);
    assert_eq!(rows[1].value, "NVIDIA H200, sm_90a, 139.0 GiB, L2 60 MiB");
}
