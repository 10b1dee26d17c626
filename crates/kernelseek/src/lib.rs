//! The command line: clap types, resolved settings, the printer, reporters and exit codes. No logic.
//!
//! Duty: turn arguments and environment into settings, hand them to the engine, and print what it says. Data goes to
//! standard output, talk to standard error.

mod attempt_view;
pub mod cli;
mod commands;
pub mod env_vars;
mod error;
pub mod exit;
mod goal_view;
mod gpu_view;
mod live;
mod log_view;
mod narrator;
mod printer;
mod progress;
mod settings;
mod status_view;
mod story;
mod style;
mod sweep_view;
mod table;
mod verdict_view;
mod wrap;

use clap::Parser;
use cli::{Cli, Command};
use printer::Printer;

/// Runs the command line and returns the exit code.
#[must_use]
pub fn main() -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap prints help and version to standard output, errors to standard error.
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            let _ = error.print();
            return code;
        }
    };
    // The hidden entries come first: they must touch nothing that the others set up.
    if let Command::Worker(args) = &cli.command {
        return commands::worker::run(args);
    }
    if let Command::Solo(args) = &cli.command {
        return commands::solo::run(args);
    }
    if let Command::GpuTrial(args) = &cli.command {
        return commands::gpu::attempt(args);
    }
    let mut printer = Printer::new(&cli.global);
    let outcome = match &cli.command {
        Command::Demo(args) => commands::demo::run(args, &cli.global, &mut printer),
        Command::Eval(args) => commands::eval::run(args, &cli.global, &mut printer),
        Command::Init(args) => commands::init::run(args, &cli.global, &mut printer),
        Command::Check(args) => commands::check::run(args, &cli.global, &mut printer),
        Command::Sweep(args) => commands::sweep::run(args, &cli.global, &mut printer),
        Command::Header(args) => commands::header::run(args, &mut printer),
        Command::Draw(args) => commands::draw::run(args, &mut printer),
        Command::Build(args) => commands::build::run(args, &cli.global, &mut printer),
        Command::Inspect(args) => commands::inspect::run(args, &mut printer),
        Command::Profile(args) => commands::profile::run(args, &cli.global, &mut printer),
        Command::Doctor(args) => commands::doctor::run(args, &cli.global, &mut printer),
        Command::Gpu(args) => commands::gpu::run(args, &cli.global, &mut printer),
        Command::Selftest(args) => commands::selftest::run(args, &cli.global, &mut printer),
        Command::Seal(args) => commands::seal::run(args, &cli.global, &mut printer),
        Command::Goal(args) => commands::goal::run(args, &cli.global, &mut printer),
        Command::Status(args) => commands::status::run(args, &cli.global, &mut printer),
        Command::Log(args) => commands::log::run(args, &cli.global, &mut printer),
        Command::Ask(args) => commands::ask::ask(args, &cli.global, &mut printer),
        Command::Hypothesis(args) => commands::ask::hypothesis(args, &cli.global, &mut printer),
        Command::Answer(args) => commands::ask::answer(args, &cli.global, &mut printer),
        Command::Report(args) => commands::report::run(args, &cli.global, &mut printer),
        Command::Run(args) => commands::run::run(args, &cli.global, &mut printer),
        Command::Export(args) => commands::transfer::export(args, &cli.global, &mut printer),
        Command::Import(args) => commands::transfer::import(args, &cli.global, &mut printer),
        Command::HookDecision(args) => commands::hook_decision::run(args, &cli.global, &mut printer),
        Command::Completions(args) => commands::completions::run(args, &mut printer),
        Command::Agent(entry) => commands::agent::run(entry, &printer),
        Command::Worker(_) | Command::Solo(_) | Command::GpuTrial(_) => Ok(exit::OK),
    };
    outcome.unwrap_or_else(|error| {
        printer.error(&error);
        error.kind.exit_code()
    })
}
