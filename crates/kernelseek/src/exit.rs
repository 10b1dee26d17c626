//! Exit codes. Documented in `docs/reference/exit-codes.md`, which is generated from [`TABLE`].

/// The harness worked; for `eval`, whatever the verdict.
pub const OK: u8 = 0;
/// What was asked for is not so: `check` refuses the problem, `selftest` misses a bar, or the verdict is not PASS
/// (`goal`, `run`: the goal is unmet) and `--exit-code` was given.
pub const UNMET: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// One of the user's files is wrong: a problem, a scenario file, a source.
pub const INPUT: u8 = 3;
/// A compiler or interpreter is missing or does not work.
pub const TOOLCHAIN: u8 = 4;
/// The machine or the harness failed: a worker could not be started, the seed or the reference failed.
pub const HARNESS: u8 = 5;
/// `gpu -- CMD`: CMD is there and cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// `gpu -- CMD`: there is no such program.
pub const NOT_FOUND: u8 = 127;
/// A person interrupted it; nothing is lost.
pub const INTERRUPTED: u8 = 130;
/// A bug in KernelSeek.
pub const INTERNAL: u8 = 70;

/// Every code with its meaning.
pub const TABLE: [(u8, &str); 10] = [
    (
        OK,
        "The harness worked. For `eval` that is so whatever the verdict, so that an agent's hooks see no failed command",
    ),
    (
        UNMET,
        "What was asked for is not so: `check` refuses the problem, `selftest` misses a bar, or the verdict is not PASS (`goal`, `run`: the goal is unmet) and `--exit-code` was given",
    ),
    (USAGE, "The command line is wrong"),
    (
        INPUT,
        "One of your files is wrong: the problem, a scenario file, the seed or the reference, the campaign; or the seal is broken",
    ),
    (TOOLCHAIN, "A compiler or interpreter is missing or does not work"),
    (
        HARNESS,
        "The machine or the harness failed: a worker could not be started, or the seed or the reference failed",
    ),
    (INTERNAL, "A bug in KernelSeek"),
    (NOT_EXECUTABLE, "`gpu -- CMD`: CMD is there and cannot be executed"),
    (
        NOT_FOUND,
        "`gpu -- CMD`: there is no program CMD. Otherwise `gpu -- CMD` exits as CMD does, with 128 + N if signal N ended it",
    ),
    (INTERRUPTED, "A person interrupted `run`; nothing is lost, and the same command goes on"),
];
