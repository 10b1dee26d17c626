//! What evaluations of one process share: compilers that were asked what they are, and the hold on a GPU.
//!
//! For whoever evaluates many times in a row, as the self-test does. Workers are never shared: every evaluation starts its
//! own.

use crate::gpu_hold::GpuHold;
use crate::session::{Session, SessionError};
use crate::settings::Settings;
use kernelseek_toolchain::Toolchain;
use std::path::Path;
use std::rc::Rc;

/// What is shared.
#[derive(Debug, Default)]
pub struct Stand {
    toolchain: Option<Toolchain>,
    gpu: Option<Rc<GpuHold>>,
}

impl Stand {
    /// Opens a session on what is there already.
    ///
    /// # Errors
    /// When the problem is malformed or there is no compiler.
    pub fn open(
        &self,
        folder: &Path,
        candidate: Option<&Path>,
        settings: &Settings,
    ) -> Result<Session, SessionError> {
        let mut session = Session::open_with(folder, candidate, settings, self.toolchain.clone())?;
        session.gpu.clone_from(&self.gpu);
        Ok(session)
    }

    /// Takes over what a session has found. A context in which the supervisor's own work failed is not kept: the next
    /// session opens the GPU again.
    pub fn keep(&mut self, session: &Session) {
        self.toolchain = Some(session.toolchain().clone());
        self.gpu = session.gpu.clone().filter(|hold| hold.gpu().take_failure().is_none());
    }

    /// Lets go of the GPU.
    pub fn release(&mut self) {
        self.gpu = None;
    }

    /// The hold on the GPU, once there is one.
    #[must_use]
    pub fn gpu(&self) -> Option<&GpuHold> {
        self.gpu.as_deref()
    }
}
