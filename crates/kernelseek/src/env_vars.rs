//! Every environment variable that the tool reads. Documented in `docs/reference/environment.md`, which is generated
//! from [`TABLE`].

/// Where state lives.
pub const STATE_DIR: &str = "KERNELSEEK_STATE_DIR";
/// The C compiler.
pub const CC: &str = "CC";
/// The C++ compiler.
pub const CXX: &str = "CXX";
/// Python for references and baselines.
pub const PYTHON: &str = "KERNELSEEK_PYTHON";
/// Where the supervisor listens; set for an agent that is led.
pub const SUPERVISOR: &str = kernelseek_supervisor::protocol::SOCKET;
/// No colour.
pub const NO_COLOR: &str = "NO_COLOR";

/// Every variable with its meaning.
pub const TABLE: [(&str, &str); 9] = [
    (STATE_DIR, "Folder for caches and records; the same as `--state-dir`"),
    (
        "XDG_STATE_HOME",
        "State lives in `$XDG_STATE_HOME/kernelseek` unless `KERNELSEEK_STATE_DIR` says otherwise",
    ),
    ("HOME", "State lives in `$HOME/.local/state/kernelseek` if neither of the above is set"),
    (CC, "C compiler; the same as `--cc`"),
    (CXX, "C++ compiler; the same as `--cxx`"),
    (PYTHON, "Python interpreter for references and baselines written as `def op(call)`"),
    ("PATH", "Where compilers and interpreters are looked for"),
    (
        SUPERVISOR,
        "Socket of the supervisor; set by `kernelseek run` for the agent it leads, where `eval`, `hypothesis`, `answer` and `hook-decision` ask it",
    ),
    (NO_COLOR, "Any value: no colour"),
];
