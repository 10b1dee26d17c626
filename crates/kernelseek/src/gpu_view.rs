//! The list of GPUs as text.

use crate::commands::gpu::{Listed, Listing};
use crate::style::Style;
use crate::{table, wrap};
use kernelseek_device::cuda::lease::now_ms;
use kernelseek_device::cuda::nvml::{ComputeMode, Processes};

/// Processes that are named; the rest is counted.
const MOST: usize = 8;

/// One paragraph a GPU.
pub(crate) fn listing(listing: &Listing, width: usize, style: Style) -> String {
    let mut text = String::new();
    if let Some(why) = &listing.why {
        return format!("{} no GPU: {why}\n", style.doubtful("!"));
    }
    for gpu in &listing.gpus {
        text.push_str(&one(gpu, width, style));
    }
    for line in &listing.unreadable {
        text.push_str(&wrap::hanging(&format!("{} ", style.doubtful("!")), line, width));
    }
    if text.is_empty() {
        text.push_str(&format!("{} the driver shows no GPU\n", style.doubtful("!")));
    }
    text
}

fn one(gpu: &Listed, width: usize, style: Style) -> String {
    let f = &gpu.facts;
    let mut text = format!("{}\n", style.strong(&format!("GPU {}  {}", f.index, f.name)));
    let mut row =
        |name: &str, value: &str| text.push_str(&wrap::hanging(&format!("  {name:<9} "), value, width));
    row("uuid", &f.uuid);
    if let Some(total) = f.memory_total {
        let total = table::bytes(total as f64);
        row(
            "memory",
            &f.memory_used
                .map_or_else(|| total.clone(), |used| format!("{} of {total}", table::bytes(used as f64))),
        );
    }
    let state = state(gpu);
    if !state.is_empty() {
        row("state", &state.join(", "));
    }
    match &f.processes {
        Processes::Known(list) if list.is_empty() => row("processes", "none that the driver shows"),
        Processes::Known(list) => {
            for (i, process) in list.iter().take(MOST).enumerate() {
                let memory =
                    process.memory.map_or_else(String::new, |m| format!(", {}", table::bytes(m as f64)));
                let draws = if process.compute { "" } else { ", draws" };
                let name = if i == 0 { "processes" } else { "" };
                row(name, &format!("{}{memory}{draws}", process.describe().trim_start_matches("process ")));
            }
            if list.len() > MOST {
                row("", &format!("and {} more", list.len() - MOST));
            }
        }
        Processes::Unknown(why) => row("processes", &format!("cannot tell: {why}")),
    }
    match (&gpu.lease, &gpu.lease_unknown) {
        (Some(holder), _) => row("lease", &holder.describe(now_ms())),
        (None, Some(why)) => row("lease", &format!("cannot tell: {why}")),
        (None, None) => row("lease", "free"),
    }
    text
}

/// Clocks, warmth, power and whatever is unusual.
fn state(gpu: &Listed) -> Vec<String> {
    let f = &gpu.facts;
    let mut parts = Vec::new();
    if let (Some(now), Some(most)) = (f.sm_clock_mhz, f.sm_clock_max_mhz) {
        parts.push(format!("{now} of {most} MHz"));
    }
    parts.extend(f.temperature_c.map(|t| format!("{t} °C")));
    if let (Some(now), Some(most)) = (f.power_w, f.power_limit_w) {
        parts.push(format!("{now:.0} of {most:.0} W"));
    }
    parts.extend(match f.compute_mode {
        Some(ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread) => Some("exclusive".to_owned()),
        Some(ComputeMode::Prohibited) => Some("prohibited".to_owned()),
        Some(ComputeMode::Default) | None => None,
    });
    if f.mig == Some(true) {
        parts.push("MIG".to_owned());
    }
    parts.extend(f.throttle.iter().flatten().filter(|w| *w != "idle").map(|w| format!("held back: {w}")));
    parts
}
