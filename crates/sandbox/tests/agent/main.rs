//! Agents that try to get out, as real processes.
//!
//! The binary plays every side: without a role it is the supervisor and runs the cases; with one it is the
//! agent, a victim, or a supervisor that is about to die.
#![expect(unsafe_code, reason = "hostile calls are made directly")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "this is a test")]

mod attempts;
mod endings;
mod fenced;
mod ordinary;
mod terminal;
mod world;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("attempts_succeed_without_a_fence", fenced::attempts_succeed_without_a_fence),
    ("attempts_fail_inside", fenced::attempts_fail_inside),
    ("ordinary_work_is_allowed", fenced::ordinary_work_is_allowed),
    ("what_remains_changes_no_bytes", fenced::what_remains_changes_no_bytes),
    ("a_shield_keeps_others_out", fenced::a_shield_keeps_others_out),
    ("second_names_are_refused", fenced::second_names_are_refused),
    ("daemons_are_found", endings::daemons_are_found),
    ("fork_bombs_end", endings::fork_bombs_end),
    ("other_processes_stay", endings::other_processes_stay),
    ("everything_ends_with_the_supervisor", endings::everything_ends_with_the_supervisor),
    ("the_terminal_is_shared", terminal::the_terminal_is_shared),
    ("the_same_as_an_ordinary_user", fenced::the_same_as_an_ordinary_user),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first() {
        match first.as_str() {
            "role-attempts" => return fenced::attempts(rest),
            "role-victim" => {
                world::victim(rest);
                return ExitCode::SUCCESS;
            }
            "role-daemons" => return endings::daemons(rest),
            "role-bomb" => return endings::bomb(rest),
            "role-sleeper" => return endings::sleeper(),
            "role-supervisor" => return endings::supervisor(),
            "role-terminal-supervisor" => return terminal::supervisor(rest),
            "role-terminal-agent" => return terminal::agent(rest),
            _ => {}
        }
    }
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let mut failed = Vec::new();
    let mut ran = 0;
    for (name, case) in CASES {
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(filter.as_str())) {
            continue;
        }
        ran += 1;
        let started = Instant::now();
        let good = catch_unwind(case).is_ok();
        println!("test {name} ... {} ({:.2?})", if good { "ok" } else { "FAILED" }, started.elapsed());
        if !good {
            failed.push(name);
        }
    }
    println!("\n{ran} ran, {} failed: {failed:?}", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
