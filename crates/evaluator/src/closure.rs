//! The project files that the seed and the reference are made of.

use crate::event::{Side, Sink};
use crate::session::{Session, SessionError};
use kernelseek_core::problem::Language;
use kernelseek_inspect::PathClass;
use kernelseek_toolchain::Build;
use std::path::{Path, PathBuf};

fn own_files(source: &Path, build: &Build) -> Vec<PathBuf> {
    let workspace = source.parent().unwrap_or(Path::new("/"));
    build
        .sources
        .iter()
        .filter(|f| f.class == PathClass::Workspace)
        .map(|f| workspace.join(&f.name))
        .collect()
}

impl Session {
    /// Every project file that the seed's build reads.
    ///
    /// # Errors
    /// When it does not build.
    pub fn seed_files(&mut self, sink: &mut dyn Sink) -> Result<Vec<PathBuf>, SessionError> {
        // Which GPU it is says what the seed is built for.
        self.gpu(sink)?;
        let build = self.seed_build(sink)?;
        let path = self.files.path(&self.files.problem.seed.path)?;
        Ok(own_files(&path, &build))
    }

    /// Every project file that the reference's build reads; a Python module alone.
    ///
    /// # Errors
    /// When it does not build.
    pub fn reference_files(&mut self, sink: &mut dyn Sink) -> Result<Vec<PathBuf>, SessionError> {
        self.gpu(sink)?;
        let source = &self.files.problem.reference.source;
        let path = self.files.path(&source.path)?;
        if source.language == Language::Python {
            return Ok(vec![path]);
        }
        let build = self.build(&path, Side::Reference, sink).map_err(|e| e.of(Side::Reference))?;
        Ok(own_files(&path, &build))
    }
}
