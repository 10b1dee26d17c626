//! One case, called a few times by a process of its own: what sanitizers and profilers are put around.
//!
//! It shares nothing with a timed worker. Every storage is an allocation of exactly its own size, so that a sanitizer
//! sees where a tensor ends; what a call has to write is left as the device hands it out, so that reading it first is
//! seen too. Nothing here is timed, and nothing that it says is part of a comparison.

use super::device::Context;
use super::error::CudaError;
use super::memory::{self, DeviceMemory};
use super::stream::Stream;
use crate::layout::{ALIGN, ArenaLayout};
use crate::protocol::{Plan, Status};
use crate::worker::library::Library;
use crate::worker::mapping::{CallStruct, build_call};
use kernelseek_core::case::Case;
use kernelseek_core::layout::CallLayout;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of [`SoloSpec`] as JSON.
pub const VERSION: u32 = 1;

/// What a storage holds before a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contents {
    /// The bytes of a file.
    File(PathBuf),
    /// Zeros.
    Zeros,
    /// Whatever the memory holds: outputs, and constants that are there already.
    Untouched,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoloSpec {
    /// Version of this form.
    pub version: u32,
    /// The library.
    pub artifact: PathBuf,
    /// Name of its entry point.
    pub entry: String,
    /// UUID or ordinal of the GPU; the first without it.
    pub gpu: Option<String>,
    /// Tensors, attributes and the storages' sizes and alignments. One slot; the places of its regions mean nothing here.
    pub plan: Plan,
    /// For each call, what every storage holds before it.
    pub rounds: Vec<Vec<Contents>>,
    /// Folder that the written storages are saved to after the last call, as `storage-N.bin`.
    pub save: Option<PathBuf>,
}

impl SoloSpec {
    /// A specification for `case` without rounds.
    #[must_use]
    pub fn new(case: &Case, artifact: &Path, entry: &str) -> Self {
        Self {
            version: VERSION,
            artifact: artifact.to_owned(),
            entry: entry.to_owned(),
            gpu: None,
            plan: crate::client::plan(case, ArenaLayout::new(case, 1)),
            rounds: Vec::new(),
            save: None,
        }
    }

    /// What is wrong with it, if anything: it comes from a file.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn check(&self) -> Result<(), SoloError> {
        if self.version != VERSION {
            return Err(SoloError::Spec(format!("version {} is not {VERSION}", self.version)));
        }
        let storages = self.storages()?.len();
        for (index, round) in self.rounds.iter().enumerate() {
            if round.len() != storages {
                return Err(SoloError::Spec(format!(
                    "call {index} has contents for {} storages of {storages}",
                    round.len()
                )));
            }
        }
        for tensor in &self.plan.tensors {
            if tensor.storage.is_some_and(|s| s >= storages) {
                return Err(SoloError::Spec(format!("tensor `{}` lies in no storage", tensor.name)));
            }
        }
        Ok(())
    }

    /// Bytes and misalignment of every storage.
    fn storages(&self) -> Result<Vec<(usize, usize)>, SoloError> {
        let regions =
            self.plan.layout.regions.first().ok_or_else(|| SoloError::Spec("there is no slot".to_owned()))?;
        Ok(regions.iter().map(|r| (r.bytes, r.data % ALIGN)).collect())
    }

    /// Which storages the call writes.
    fn written(&self, storage: usize) -> bool {
        self.plan.tensors.iter().any(|t| t.storage == Some(storage) && t.writes)
    }
}

/// Why it could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SoloError {
    /// The specification is not usable.
    #[error("malformed specification: {0}")]
    Spec(String),
    /// A file of it cannot be read or written.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file does not have the storage's size.
    #[error("{path} has {given} bytes and the storage {expected}")]
    Size {
        /// The file.
        path: PathBuf,
        /// Bytes of the file.
        given: usize,
        /// Bytes of the storage.
        expected: usize,
    },
    /// The library cannot be loaded, or a call struct cannot be built.
    #[error("{0}")]
    Library(String),
    /// The driver refused something before any call was made.
    #[error("the device could not be prepared")]
    Device(#[from] CudaError),
    /// The calls did something wrong on the device.
    #[error("{after} ended with a device error")]
    Call {
        /// After which call.
        after: String,
        /// What the driver says.
        #[source]
        source: CudaError,
    },
}

/// What came of it, as one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SoloReport {
    /// Whether every call was made and the device is well.
    pub ok: bool,
    /// What `prepare` answered, if there is one.
    pub prepare: Option<Status>,
    /// What each call answered.
    pub statuses: Vec<Status>,
    /// Bytes of workspace.
    pub workspace_bytes: usize,
    /// What went wrong.
    pub error: Option<String>,
}

/// Does it.
///
/// # Errors
/// When the device, the library or a file is not usable, or the calls left a device error.
pub fn run(spec: &SoloSpec) -> Result<SoloReport, SoloError> {
    spec.check()?;
    let context = Context::open(spec.gpu.as_deref())?;
    let stream = Stream::new()?;
    // What a file lacks is found before the candidate's code exists here.
    let rounds = spec.rounds.iter().map(|round| read(spec, round)).collect::<Result<Vec<_>, _>>()?;
    let mut storages = Vec::new();
    let mut addresses = Vec::new();
    for (bytes, misalign) in spec.storages()? {
        let memory = DeviceMemory::new(bytes + misalign)?;
        addresses.push(memory.address() as usize + misalign);
        storages.push(memory);
    }
    let artifact = spec.artifact.to_string_lossy();
    let library = Library::open(&artifact, &spec.entry, None).map_err(SoloError::Library)?;
    let layout = CallLayout::new(spec.plan.tensors.len(), spec.plan.attributes.len());
    let mut call = build_call(&spec.plan, &layout, &addresses).map_err(SoloError::Library)?;
    call.put_u64(layout.stream, stream.as_ptr() as u64);
    let (workspace, workspace_bytes) = provide_workspace(&library, &mut call, &layout, &stream)?;
    let mut report =
        SoloReport { ok: true, prepare: None, statuses: Vec::new(), workspace_bytes, error: None };
    for (index, round) in rounds.iter().enumerate() {
        for ((bytes, &address), (size, _)) in round.iter().zip(&addresses).zip(spec.storages()?) {
            match bytes {
                Filled::Bytes(bytes) => memory::upload(address as u64, bytes, &stream)?,
                Filled::Zeros => memory::set(address as u64, 0, size, &stream)?,
                Filled::Untouched => {}
            }
        }
        stream.synchronize()?;
        if let (0, Some(prepare)) = (index, library.prepare) {
            report.prepare = Some(Status::from_code(prepare.call(&call)));
            settle(&context, "prepare")?;
        }
        let status = match library.entry(crate::protocol::Entry::Main) {
            Ok(function) => function.call(&call),
            Err(message) => return Err(SoloError::Library(message)),
        };
        report.statuses.push(Status::from_code(status));
        settle(&context, &format!("call {}", index + 1))?;
    }
    if let Some(folder) = &spec.save {
        save(spec, folder, &addresses, &stream)?;
    }
    drop(workspace);
    Ok(report)
}

/// Waits for everything, whatever stream it was put on.
fn settle(context: &Context, after: &str) -> Result<(), SoloError> {
    context.synchronize().map_err(|source| SoloError::Call { after: after.to_owned(), source })
}

fn provide_workspace(
    library: &Library,
    call: &mut CallStruct,
    layout: &CallLayout,
    stream: &Stream,
) -> Result<(Option<DeviceMemory>, usize), SoloError> {
    let bytes = library.workspace.map_or(0, |ask| ask.call(call));
    if bytes == 0 {
        return Ok((None, 0));
    }
    let workspace = DeviceMemory::new(bytes)?;
    memory::set(workspace.address(), 0, bytes, stream)?;
    stream.synchronize()?;
    call.put_u64(layout.workspace, workspace.address());
    call.put_u64(layout.workspace_bytes, bytes as u64);
    Ok((Some(workspace), bytes))
}

enum Filled {
    Bytes(Vec<u8>),
    Zeros,
    Untouched,
}

fn read(spec: &SoloSpec, round: &[Contents]) -> Result<Vec<Filled>, SoloError> {
    round
        .iter()
        .zip(spec.storages()?)
        .map(|(contents, (expected, _))| match contents {
            Contents::Zeros => Ok(Filled::Zeros),
            Contents::Untouched => Ok(Filled::Untouched),
            Contents::File(path) => {
                let bytes =
                    std::fs::read(path).map_err(|source| SoloError::File { path: path.clone(), source })?;
                if bytes.len() != expected {
                    return Err(SoloError::Size { path: path.clone(), given: bytes.len(), expected });
                }
                Ok(Filled::Bytes(bytes))
            }
        })
        .collect()
}

fn save(spec: &SoloSpec, folder: &Path, addresses: &[usize], stream: &Stream) -> Result<(), SoloError> {
    for (index, ((bytes, _), &address)) in spec.storages()?.iter().zip(addresses).enumerate() {
        if !spec.written(index) {
            continue;
        }
        let mut data = vec![0; *bytes];
        memory::download(&mut data, address as u64, stream)?;
        let path = folder.join(format!("storage-{index}.bin"));
        std::fs::write(&path, data).map_err(|source| SoloError::File { path, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Region;
    use crate::protocol::PlanTensor;

    fn spec() -> SoloSpec {
        let region = |data, bytes| Region { offset: 0, size: 8192, data, bytes };
        let tensor = |name: &str, storage, writes| PlanTensor {
            name: name.into(),
            dtype: 0,
            shape: vec![3],
            stride: vec![1],
            storage: Some(storage),
            offset: 0,
            writes,
        };
        SoloSpec {
            version: VERSION,
            artifact: "/k.so".into(),
            entry: "k".into(),
            gpu: None,
            plan: Plan {
                layout: ArenaLayout {
                    slots: 1,
                    regions: vec![vec![region(4096 + 4, 12), region(4096, 12)]],
                    constant: vec![false, false],
                    bytes: 16384,
                },
                tensors: vec![tensor("x", 0, false), tensor("y", 1, true)],
                attributes: vec![],
            },
            rounds: vec![vec![Contents::Zeros, Contents::Untouched]],
            save: None,
        }
    }

    #[test]
    fn storages_keep_size_and_misalignment() {
        assert_eq!(spec().storages().unwrap(), [(12, 4), (12, 0)]);
        assert!(!spec().written(0));
        assert!(spec().written(1));
    }

    #[test]
    fn what_does_not_fit_is_said() {
        assert!(spec().check().is_ok());
        type Break = fn(&mut SoloSpec);
        let broken: [(Break, &str); 4] = [
            (|s| s.version = 9, "version 9"),
            (|s| s.rounds[0].truncate(1), "call 0 has contents for 1 storages of 2"),
            (|s| s.plan.tensors[1].storage = Some(7), "`y` lies in no storage"),
            (|s| s.plan.layout.regions.clear(), "no slot"),
        ];
        for (breaks, says) in broken {
            let mut spec = spec();
            breaks(&mut spec);
            let message = spec.check().unwrap_err().to_string();
            assert!(message.contains(says), "{message}");
        }
    }

    #[test]
    fn files_must_have_the_storages_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bin");
        std::fs::write(&path, [0; 11]).unwrap();
        let round = [Contents::File(path), Contents::Zeros];
        assert!(matches!(read(&spec(), &round), Err(SoloError::Size { given: 11, expected: 12, .. })));
        let round = [Contents::File(folder.path().join("none")), Contents::Zeros];
        assert!(matches!(read(&spec(), &round), Err(SoloError::File { .. })));
    }

    #[test]
    fn it_survives_the_way_through_a_file() {
        let text = serde_json::to_string(&spec()).unwrap();
        assert_eq!(serde_json::from_str::<SoloSpec>(&text).unwrap(), spec());
    }
}
