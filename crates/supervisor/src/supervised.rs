//! An open campaign: its site, its ledger, and where it stands.

use crate::error::SupervisorError;
use crate::files;
use crate::sealing;
use crate::site::Site;
use kernelseek_campaign::{Board, Scene, Verdicts};
use kernelseek_core::campaign_file::{self, CampaignFile};
use kernelseek_core::goal::{Grid, GridScenario};
use kernelseek_core::verdict::Digest;
use kernelseek_core::{problem, scenario};
use kernelseek_ledger::entry::{Created, Workspace};
use kernelseek_ledger::registry::{self, Match};
use kernelseek_ledger::seal::{Change, Seal};
use kernelseek_ledger::{Access, Batch, Entry, Ledger, Row};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970 by the machine's clock.
#[must_use]
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

/// 32 bytes that nobody can guess.
///
/// # Errors
/// When the machine gives none.
pub fn fresh_secret() -> Result<[u8; 32], SupervisorError> {
    let path = Path::new("/dev/urandom");
    let mut bytes = [0; 32];
    std::fs::File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| SupervisorError::file(path, e))?;
    Ok(bytes)
}

/// A number from 0 to 1 that nobody can guess.
pub(crate) fn draw() -> Result<f64, SupervisorError> {
    let bytes = fresh_secret()?;
    let bits =
        u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]);
    Ok((bits >> 11) as f64 / (1u64 << 53) as f64)
}

/// Whether the caller writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openness {
    /// Only reads; works behind a fence and on a read-only folder.
    Reading,
    /// Reads and appends.
    Writing,
}

/// The seal in force, read back from the ledger.
#[derive(Debug, Clone)]
pub(crate) struct InForce {
    pub(crate) row: u64,
    pub(crate) seal: Seal,
    /// The campaign file as it was sealed.
    pub(crate) file: CampaignFile,
    pub(crate) grid: Grid,
    /// Name of the problem.
    pub(crate) problem: String,
}

/// Verdicts of one ledger, each read once.
struct Kept<'a> {
    ledger: &'a Ledger,
    known: RefCell<BTreeMap<String, Result<Digest, String>>>,
}

impl Verdicts for Kept<'_> {
    fn digest(&self, hash: &str) -> Result<Digest, String> {
        if let Some(known) = self.known.borrow().get(hash) {
            return known.clone();
        }
        let read = read_digest(self.ledger, hash);
        self.known.borrow_mut().insert(hash.to_owned(), read.clone());
        read
    }
}

pub(crate) fn read_digest(ledger: &Ledger, hash: &str) -> Result<Digest, String> {
    let bytes = ledger
        .artefact(hash)
        .map_err(|e| e.to_string())?
        .ok_or_else(|| format!("artefact {hash} was dropped"))?;
    let digest: Digest = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
    if digest.format > kernelseek_core::verdict::FORMAT {
        return Err(format!("it has format {}, which a newer version wrote", digest.format));
    }
    Ok(digest)
}

/// An open campaign.
#[derive(Debug)]
pub struct Campaign {
    /// Its site, as it is on the disk.
    pub site: Site,
    pub(crate) state_dir: PathBuf,
    pub(crate) ledger: Ledger,
    pub(crate) board: Board,
    pub(crate) sealed: Option<InForce>,
    /// By how much the clock was behind the last row when the campaign was opened, milliseconds.
    pub clock_behind_ms: i64,
}

impl Campaign {
    /// Opens the campaign of a site.
    ///
    /// # Errors
    /// [`SupervisorError::NotSealed`] when there is none, or its ledger is not usable.
    pub fn open(site: &Site, state_dir: &Path, openness: Openness) -> Result<Self, SupervisorError> {
        let known = registry::look(&site.folder)?;
        if state_dir.starts_with(&known.path) {
            return Err(SupervisorError::StateInside { state: state_dir.to_owned(), workspace: known.path });
        }
        let Some(found) = registry::find(state_dir, &known)? else {
            return Err(SupervisorError::NotSealed(site.folder.clone()));
        };
        let access = match openness {
            Openness::Reading => Access::Read,
            Openness::Writing => Access::Write,
        };
        let ledger = Ledger::open(&found.folder, access)?;
        if ledger.campaign() != found.campaign {
            return Err(kernelseek_ledger::LedgerError::OtherCampaign {
                path: ledger.path().to_owned(),
                found: ledger.campaign().to_owned(),
                expected: found.campaign,
            }
            .into());
        }
        let mut campaign = Self::of(site, state_dir, ledger)?;
        if openness == Openness::Writing && found.matched != Match::Path {
            campaign.append(
                Batch::of(Entry::Workspace(Workspace {
                    path: known.path.clone(),
                    device: known.device,
                    inode: known.inode,
                    because: found.matched.as_str().to_owned(),
                })),
                now_ms(),
            )?;
            registry::register(campaign.ledger.folder(), &known)?;
        }
        Ok(campaign)
    }

    pub(crate) fn open_or_create(site: &Site, state_dir: &Path) -> Result<Self, SupervisorError> {
        match Self::open(site, state_dir, Openness::Writing) {
            Err(SupervisorError::NotSealed(_)) => {
                std::fs::create_dir_all(state_dir).map_err(|e| SupervisorError::file(state_dir, e))?;
                let tail: String = fresh_secret()?.iter().take(3).map(|b| format!("{b:02x}")).collect();
                let id = format!("{}-{tail}", site.file.name);
                let folder = registry::campaigns(state_dir).join(&id);
                let mut ledger = Ledger::create(&folder, &id)?;
                let created = Created { campaign: id, tool: env!("CARGO_PKG_VERSION").to_owned() };
                ledger.append(Batch::of(Entry::Created(created)), now_ms())?;
                Self::of(site, state_dir, ledger)
            }
            other => other,
        }
    }

    fn of(site: &Site, state_dir: &Path, ledger: Ledger) -> Result<Self, SupervisorError> {
        let mut board = Board::default();
        ledger.each(|row| board.apply(&row))?;
        let clock_behind_ms = ledger.clock_behind(now_ms())?;
        let mut campaign = Self {
            site: site.clone(),
            state_dir: state_dir.to_owned(),
            ledger,
            board,
            sealed: None,
            clock_behind_ms,
        };
        campaign.load_seal()?;
        Ok(campaign)
    }

    /// Campaign id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.ledger.campaign()
    }
    /// The ledger.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }
    /// Where the campaign stands.
    #[must_use]
    pub const fn board(&self) -> &Board {
        &self.board
    }

    /// Reads the seal in force back from its artefacts: the files on the disk may have changed since.
    pub(crate) fn load_seal(&mut self) -> Result<(), SupervisorError> {
        let Some(sealed) = self.board.seal().cloned() else {
            self.sealed = None;
            return Ok(());
        };
        let read = |what: &str, hash: &str| -> Result<String, SupervisorError> {
            let unreadable = |why: String| SupervisorError::Unreadable { what: what.to_owned(), why };
            let bytes = self.ledger.artefact(hash)?.ok_or_else(|| unreadable("it was dropped".to_owned()))?;
            String::from_utf8(bytes).map_err(|e| unreadable(e.to_string()))
        };
        let wrong = |what: &str, why: String| SupervisorError::Unreadable { what: what.to_owned(), why };
        let seal: Seal = serde_json::from_str(&read("the seal", &sealed.what.artefact)?)
            .map_err(|e| wrong("the seal", e.to_string()))?;
        let text = read("the sealed campaign file", &sealed.what.campaign.hash)?;
        let file = campaign_file::parse_campaign(campaign_file::FILE, &text)
            .map_err(|e| wrong("the sealed campaign file", e.to_string()))?;
        let kept = |path: &str| sealed.what.problem.iter().find(|f| f.path == path).map(|f| f.hash.clone());
        let missing = |path: &str| wrong(path, "the seal does not name it".to_owned());
        let problem_text =
            read("problem.toml", &kept("problem.toml").ok_or_else(|| missing("problem.toml"))?)?;
        let problem = problem::parse_problem("problem.toml", &problem_text)
            .map_err(|e| wrong("the sealed problem.toml", e.to_string()))?;
        let set = file.set.clone().unwrap_or_else(|| problem.scenarios.default.clone());
        let file_of_set = problem
            .scenarios
            .files
            .iter()
            .find(|(name, _)| *name == set)
            .map(|(_, file)| file)
            .ok_or_else(|| missing(&set))?;
        let scenarios =
            read("the scenarios", &kept(&file_of_set.path).ok_or_else(|| missing(&file_of_set.path))?)?;
        let scenarios = scenario::of_set(&problem, file_of_set, &file_of_set.path, &scenarios)
            .map_err(|e| wrong("the sealed scenarios", e.to_string()))?;
        let grid = Grid {
            scenarios: scenarios
                .into_iter()
                .map(|s| GridScenario { id: s.id, values: s.values, tags: s.tags })
                .collect(),
        };
        self.sealed = Some(InForce { row: sealed.row, seal, file, grid, problem: problem.name });
        Ok(())
    }

    /// Name of the sealed problem.
    pub(crate) fn problem_name(&self) -> Result<&str, SupervisorError> {
        self.in_force().map(|sealed| sealed.problem.as_str())
    }

    pub(crate) fn in_force(&self) -> Result<&InForce, SupervisorError> {
        self.sealed.as_ref().ok_or_else(|| SupervisorError::NotSealed(self.site.folder.clone()))
    }

    /// What differs from the seal now.
    ///
    /// # Errors
    /// When nothing is sealed.
    pub fn changes(&self) -> Result<Vec<Change>, SupervisorError> {
        let sealed = &self.in_force()?.seal;
        Ok(sealed.changes(&sealing::quick(sealed, &self.site)))
    }

    /// Appends a batch and takes its rows.
    pub(crate) fn append(&mut self, batch: Batch, now_ms: i64) -> Result<Vec<Row>, SupervisorError> {
        let rows = self.ledger.append(batch, now_ms)?;
        // Another process may have written in between; then what it wrote is read too.
        let expected = self.board.rows + 1;
        if rows.first().is_some_and(|r| r.seq != expected) {
            let mut board = Board::default();
            self.ledger.each(|row| board.apply(&row))?;
            self.board = board;
        } else {
            rows.iter().for_each(|row| self.board.apply(row));
        }
        Ok(rows)
    }

    /// Calls `f` with everything that deciding reads.
    pub(crate) fn with_scene<T>(&self, f: impl FnOnce(&Scene<'_>) -> T) -> Result<T, SupervisorError> {
        let sealed = self.in_force()?;
        let kept = Kept { ledger: &self.ledger, known: RefCell::default() };
        let scene = Scene {
            board: &self.board,
            file: &sealed.file,
            grid: &sealed.grid,
            verdicts: &kept,
            now_ms: now_ms(),
        };
        Ok(f(&scene))
    }

    /// Hash of a file of the workspace as it is now, by its path there.
    pub(crate) fn hash_of(&self, path: &str) -> Option<String> {
        let bytes = files::read(&self.site.folder.join(path)).ok()?;
        Some(kernelseek_ledger::artefact::hash(&bytes))
    }
}
