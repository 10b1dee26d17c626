//! `doctor`: the CUDA compiler.

use kernelseek_toolchain::cuda::Nvcc;
use kernelseek_toolchain::{Toolchain, ToolchainError};
use serde_json::{Value, json};

/// What is known of nvcc on this machine.
pub(super) struct Report<'t>(Option<Result<&'t Nvcc, ToolchainError>>);

/// One row: whether it is good, its name, what it says, what to do.
pub(super) struct Row {
    pub(super) good: bool,
    pub(super) name: &'static str,
    pub(super) value: String,
    pub(super) fix: Option<String>,
}

impl<'t> Report<'t> {
    /// Looks for nvcc. Without a host compiler there is nothing to look with.
    pub(super) fn new(toolchain: Option<&'t Toolchain>) -> Self {
        Self(toolchain.map(Toolchain::nvcc))
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        match &self.0 {
            None => Vec::new(),
            Some(Ok(nvcc)) => vec![
                Row {
                    good: true,
                    name: "nvcc",
                    value: format!("{} ({}), found {}", nvcc.version, nvcc.program.display(), nvcc.found),
                    fix: None,
                },
                Row {
                    good: true,
                    name: "CUDA runtime",
                    value: nvcc.runtime.path.display().to_string(),
                    fix: None,
                },
            ],
            Some(Err(error)) => {
                let value = match error {
                    ToolchainError::NotFound { .. } => {
                        "none: the cpu target works, .cu sources do not build".to_owned()
                    }
                    other => kernelseek_evaluator::fault::chain(other),
                };
                vec![Row { good: false, name: "nvcc", value, fix: error.hint().map(str::to_owned) }]
            }
        }
    }

    pub(super) fn json(&self) -> Value {
        match &self.0 {
            None => Value::Null,
            Some(Ok(nvcc)) => json!({
                "program": nvcc.program,
                "found": nvcc.found,
                "version": nvcc.version,
                "root": nvcc.root,
                "runtime": nvcc.runtime.path,
                "identity": nvcc.identity,
            }),
            Some(Err(error)) => json!({ "error": error.to_string(), "fix": error.hint() }),
        }
    }
}
