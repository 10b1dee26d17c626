//! What stands ready before an agent is started: a folder of the supervisor's own, one for the agent's temporary files,
//! and a copy of this program that the agent cannot reach.

use crate::error::SupervisorError;
use crate::reach;
use crate::site::Site;
use crate::supervised::{Campaign, fresh_secret};
use kernelseek_evaluator::settings::Settings;
use kernelseek_sandbox::agent;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Name of the folder with the socket and the copy of this program.
const OWN: &str = "led";
/// Name of the agent's folder for temporary files.
const TEMPORARY: &str = "kernelseek-agent";

/// Where agents of a campaign are led, and with what.
#[derive(Debug, Clone)]
pub struct Place {
    /// The campaign.
    pub site: Site,
    /// The state folder.
    pub state_dir: PathBuf,
    /// Settings of evaluations.
    pub base: Settings,
    /// The agent's environment; the socket and its temporary folder are added.
    pub env: BTreeMap<OsString, OsString>,
    /// Where it may write besides the campaign's folder.
    pub write: Vec<PathBuf>,
    /// Folder in which its temporary folder is made.
    pub temporary: PathBuf,
}

/// A folder that is removed with everything in it.
#[derive(Debug)]
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    fn make(parent: &Path, name: &str) -> Result<Self, SupervisorError> {
        let tail: String = fresh_secret()?.iter().take(6).map(|b| format!("{b:02x}")).collect();
        let path = parent.join(format!("{name}-{}-{tail}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|e| SupervisorError::file(&path, e))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes the scratch folders in `parent` whose supervisors died.
fn remove_scratch(parent: &Path, name: &str) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let pid = file
            .to_str()
            .and_then(|f| f.strip_prefix(name)?.strip_prefix('-')?.split('-').next()?.parse().ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw);
        if pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// What stands ready.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The supervisor's own folder.
    pub(crate) own: Scratch,
    /// The agent's folder for temporary files.
    pub(crate) temporary: Scratch,
    /// Settings of evaluations that nothing in the agent's reach takes part in.
    pub(crate) base: Settings,
}

impl Ground {
    /// Prepares it. `write` is where the agent may write beyond what the place says.
    pub(crate) fn prepare(
        campaign: &Campaign,
        place: &Place,
        write: &[PathBuf],
    ) -> Result<Self, SupervisorError> {
        agent::shield()?;
        for (parent, name) in [(campaign.ledger.folder(), OWN), (place.temporary.as_path(), TEMPORARY)] {
            remove_scratch(parent, name);
        }
        let own = Scratch::make(campaign.ledger.folder(), OWN)?;
        // The agent can reach the file that this program was started from; it cannot reach the copy.
        let helper = own.0.join("kernelseek");
        std::fs::copy(&place.base.helper, &helper)
            .and_then(|_| std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o700)))
            .map_err(|e| SupervisorError::file(&helper, e))?;
        let temporary = Scratch::make(&place.temporary, TEMPORARY)?;
        let mut writable = place.write.clone();
        writable.extend(write.iter().cloned());
        writable.extend([place.site.folder.clone(), temporary.0.clone()]);
        let base = reach::beyond(&writable, Settings { helper, ..place.base.clone() })?;
        Ok(Self { own, temporary, base })
    }
}
