//! The part of `doctor` about GPUs, their toolkit and coding agents.

use super::gpu::environment;
use crate::printer::Printer;
use crate::style::Style;
use crate::{env_vars, wrap};
use kernelseek_device::cuda::surroundings::{self, Asked, Places, Row, Surroundings};
use kernelseek_evaluator::settings::Settings;
use kernelseek_ledger::LedgerError;
use kernelseek_sandbox::Layers;
use serde::Serialize;
use std::path::PathBuf;

/// Coding agents that are looked for.
const AGENTS: [&str; 12] = [
    "claude",
    "codex",
    "gemini",
    "opencode",
    "aider",
    "cursor-agent",
    "copilot",
    "goose",
    "amp",
    "crush",
    "qwen",
    "droid",
];

/// Facts and what they come to.
#[derive(Debug, Serialize)]
pub(crate) struct GpuReport {
    pub(crate) surroundings: Surroundings,
    pub(crate) rows: Vec<Row>,
}

/// Asks the machine.
pub(crate) fn look(settings: &Settings, layers: &Layers, printer: &Printer) -> GpuReport {
    let network_state = match kernelseek_ledger::refuse_network(&settings.state_dir) {
        Err(LedgerError::Network { kind, .. }) => Some(kind.to_owned()),
        _ => None,
    };
    let places = Places {
        helper: settings.helper.clone(),
        path: settings.path.clone(),
        nvcc: named(env_vars::NVCC),
        toolkit: named(env_vars::CUDA_HOMES[0]),
        env: environment(),
        agents: AGENTS.map(str::to_owned).to_vec(),
    };
    let namespaces = layers.all().any(|(name, state)| name == "user" && state.is_enforced());
    let bar = printer.spinner();
    let surroundings = surroundings::read(&places, Asked { namespaces, network_state }, &mut |step| {
        if let Some(bar) = &bar {
            bar.set_message(step.to_owned());
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let rows = surroundings::judge(&surroundings);
    GpuReport { surroundings, rows }
}

fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The rows as `doctor` prints its own, broken for the width.
pub(crate) fn text(rows: &[Row], width: usize, style: Style) -> String {
    let mut out = String::new();
    for row in rows {
        let mark = if row.good { style.good("✓") } else { style.doubtful("!") };
        out.push_str(&wrap::hanging(&format!("{mark} {:<16} ", row.name), &row.value, width));
        if let Some(fix) = &row.fix {
            out.push_str(&wrap::hanging(&format!("{:19}{} ", "", style.strong("fix:")), fix, width));
        }
    }
    out
}
