//! Workers, builds and hostile programs as real processes.
//!
//! The binary plays both sides: without a role it is the supervisor and runs the cases; with a role as first
//! argument it is the process under test. A worker must start with a single thread, which the usual test
//! harness cannot give.
#![expect(unsafe_code, reason = "hostile calls are made directly")]
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "this is a test")]

mod commands;
mod hostile;
mod lifetimes;
mod role;
mod supervisor;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::Instant;

type Case = (&'static str, fn());

const CASES: &[Case] = &[
    ("probe_reports", supervisor::probe_reports),
    ("denied_and_recorded_in_namespaces", hostile::denied_and_recorded_in_namespaces),
    ("denied_and_recorded_without_namespaces", hostile::denied_and_recorded_without_namespaces),
    ("ordinary_work_is_allowed", hostile::ordinary_work_is_allowed),
    ("compiled_libraries_work", hostile::compiled_libraries_work),
    ("attempts_are_counted", hostile::attempts_are_counted),
    ("fork_bomb_is_contained", hostile::fork_bomb_is_contained),
    ("threads_can_be_forbidden", hostile::threads_can_be_forbidden),
    ("memory_is_limited", hostile::memory_is_limited),
    ("endings_are_mirrored", lifetimes::endings_are_mirrored),
    ("stop_cont_and_cpu_time", lifetimes::stop_cont_and_cpu_time),
    ("a_waiting_call_does_not_block_death", lifetimes::a_waiting_call_does_not_block_death),
    ("worker_dies_with_supervisor", lifetimes::worker_dies_with_supervisor),
    ("output_is_bounded", lifetimes::output_is_bounded),
    ("environment_is_explicit", lifetimes::environment_is_explicit),
    ("deadline_kills_grandchildren", commands::deadline_kills_grandchildren),
    ("leftovers_are_killed", commands::leftovers_are_killed),
    ("command_stays_inside", commands::command_stays_inside),
    ("command_compiles", commands::command_compiles),
    ("command_output_is_bounded", commands::command_output_is_bounded),
    ("missing_program_is_an_error", commands::missing_program_is_an_error),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first() {
        match first.as_str() {
            "role-worker" => return role::worker(rest),
            "role-plain" => return role::plain(rest),
            "role-supervisor" => return role::supervisor(rest),
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
