//! What the kernel's part of the driver says of the GPUs, read from files: quick enough for a stop decision, and without starting
//! the driver in this process.

use std::path::Path;

/// Where it says so.
const ROOT: &str = "/proc/driver/nvidia";

/// The driver's version and each model of GPU once, as lines that change when either does; empty without a driver.
#[must_use]
pub fn lines() -> Vec<String> {
    lines_at(Path::new(ROOT))
}

fn lines_at(root: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(root.join("version")).unwrap_or_default();
    let mut lines: Vec<String> = version_in(&text).map(|v| format!("GPU driver {v}")).into_iter().collect();
    let mut models: Vec<String> = std::fs::read_dir(root.join("gpus"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|gpu| std::fs::read_to_string(gpu.path().join("information")).ok())
        .filter_map(|text| Some(format!("GPU {}", value_of(&text, "Model")?)))
        .collect();
    models.sort();
    models.dedup();
    lines.extend(models);
    lines
}

/// The first word that looks like a version in `NVRM version: NVIDIA UNIX … Module for x86_64  580.159.04  …`.
fn version_in(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with("NVRM version"))?;
    line.split_whitespace().find(|word| {
        word.contains('.')
            && word.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// The value of a line `NAME: VALUE`.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.split_once(':').filter(|(key, _)| key.trim() == name))
        .map(|(_, v)| v.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_and_models_are_read_and_said_once() {
        let root = tempfile::tempdir().unwrap();
        assert!(lines_at(root.path()).is_empty());
        let version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@y)\n\
                       GCC version:  gcc version 13.3.0\n";
        std::fs::write(root.path().join("version"), version).unwrap();
        for pci in ["0000:00:06.0", "0000:00:07.0"] {
            let folder = root.path().join("gpus").join(pci);
            std::fs::create_dir_all(&folder).unwrap();
            let text = format!("Model: \t\t NVIDIA H200\nIRQ:   \t\t 24\nGPU UUID: \t GPU-{pci}\n");
            std::fs::write(folder.join("information"), text).unwrap();
        }
        assert_eq!(lines_at(root.path()), ["GPU driver 580.159.04", "GPU NVIDIA H200"]);
    }

    #[test]
    fn what_is_no_version_is_none() {
        assert_eq!(version_in("NVRM version: x86_64 nothing\n"), None);
        assert_eq!(version_in("GCC version: 13.3.0\n"), None);
    }
}
