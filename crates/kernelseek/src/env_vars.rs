//! Every environment variable that the tool reads. Documented in `docs/reference/environment.md`, which is generated
//! from [`TABLE`].

/// Where state lives.
pub const STATE_DIR: &str = "KERNELSEEK_STATE_DIR";
/// The C compiler.
pub const CC: &str = "CC";
/// The C++ compiler.
pub const CXX: &str = "CXX";
/// The CUDA compiler.
pub const NVCC: &str = "KERNELSEEK_NVCC";
/// Folders of CUDA toolkits.
pub const CUDA_HOMES: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];
/// The active virtual environment of Python.
pub const VIRTUAL_ENV: &str = "VIRTUAL_ENV";
/// Python for references and baselines.
pub const PYTHON: &str = "KERNELSEEK_PYTHON";
/// Which GPU.
pub const GPU: &str = "KERNELSEEK_GPU";
/// Where leases of GPUs are kept.
pub const GPU_LEASES: &str = "KERNELSEEK_GPU_LEASES";
/// The lease that a process runs under.
pub const GPU_LEASE: &str = kernelseek_device::cuda::lease::VARIABLE;
/// The GPUs that the driver shows.
pub const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";
/// Where the supervisor listens; set for an agent that is led.
pub const SUPERVISOR: &str = kernelseek_supervisor::protocol::SOCKET;
/// No colour.
pub const NO_COLOR: &str = "NO_COLOR";

/// Every variable with its meaning.
pub const TABLE: [(&str, &str); 17] = [
    (STATE_DIR, "Folder for caches and records; the same as `--state-dir`"),
    (
        "XDG_STATE_HOME",
        "State lives in `$XDG_STATE_HOME/kernelseek` unless `KERNELSEEK_STATE_DIR` says otherwise",
    ),
    ("HOME", "State lives in `$HOME/.local/state/kernelseek` if neither of the above is set"),
    (CC, "C compiler; the same as `--cc`"),
    (CXX, "C++ compiler; the same as `--cxx`"),
    (NVCC, "CUDA compiler; the same as `--nvcc`"),
    (CUDA_HOMES[0], "Folder of a CUDA toolkit, where `bin/nvcc` is looked for before `PATH`"),
    (CUDA_HOMES[1], "The same, looked at after `CUDA_HOME`"),
    (VIRTUAL_ENV, "Active virtual environment, whose packages may hold `nvcc`; looked at last"),
    (PYTHON, "Python interpreter for references and baselines written as `def op(call)`"),
    ("PATH", "Where compilers and interpreters are looked for"),
    (GPU, "GPU to use: number, UUID or its beginning; the same as `--gpu`. Set by `kernelseek gpu -- CMD`"),
    (
        GPU_LEASES,
        "Folder for the leases of GPUs, the same for everybody on the machine; otherwise `/run/lock/kernelseek`, or else `/tmp/kernelseek-leases`",
    ),
    (GPU_LEASE, "The lease that a command runs under; set by `kernelseek gpu -- CMD`"),
    (
        CUDA_VISIBLE_DEVICES,
        "GPUs that the driver shows; the first of them is used unless `--gpu` says otherwise. Set by `kernelseek gpu -- CMD`",
    ),
    (
        SUPERVISOR,
        "Socket of the supervisor; set by `kernelseek run` for the agent it leads, where `eval`, `hypothesis`, `answer` and `hook-decision` ask it",
    ),
    (NO_COLOR, "Any value: no colour"),
];
