//! A ledger opened for deciding: rows folded, the sealed terms read back, verdicts at hand.

use kernelseek_campaign::{Board, Scene, Verdicts};
use kernelseek_core::campaign_file::{self, CampaignFile};
use kernelseek_core::goal::{Grid, GridScenario};
use kernelseek_core::verdict::Digest;
use kernelseek_core::{problem, scenario};
use kernelseek_ledger::entry::Sealed;
use kernelseek_ledger::{Access, Entry, Ledger, Row, import};
use std::collections::BTreeMap;
use std::path::Path;

/// Verdicts by their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store(pub(crate) BTreeMap<String, Vec<u8>>);

impl Verdicts for Store {
    fn digest(&self, hash: &str) -> Result<Digest, String> {
        let bytes = self.0.get(hash).ok_or_else(|| format!("artefact {hash} is missing"))?;
        serde_json::from_slice(bytes).map_err(|e| e.to_string())
    }
}

/// Everything that deciding reads.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) rows: Vec<Row>,
    pub(crate) store: Store,
    pub(crate) board: Board,
    pub(crate) file: Option<CampaignFile>,
    pub(crate) grid: Grid,
    pub(crate) now_ms: i64,
}

impl World {
    pub(crate) fn of(rows: Vec<Row>, artefacts: BTreeMap<String, Vec<u8>>) -> Self {
        let mut world = Self {
            now_ms: rows.last().map_or(0, |r| r.at_ms),
            board: Board::of(&rows),
            rows,
            store: Store(artefacts),
            file: None,
            grid: Grid::default(),
        };
        let sealed = world.board.seal().map(|s| s.what.clone());
        if let Some(sealed) = sealed {
            world.read_terms(&sealed);
        }
        world
    }

    fn read_terms(&mut self, sealed: &Sealed) {
        let text = |hash: &str| String::from_utf8(self.store.0[hash].clone()).unwrap();
        let kept =
            |path: &str| text(&sealed.problem.iter().find(|f| f.path == path).expect("a sealed file").hash);
        let file = campaign_file::parse_campaign("campaign.toml", &text(&sealed.campaign.hash)).unwrap();
        let problem = problem::parse_problem("problem.toml", &kept("problem.toml")).unwrap();
        let scenarios = scenario::parse_scenarios(&problem, "all.jsonl", &kept("all.jsonl")).unwrap();
        let scenarios = scenarios
            .into_iter()
            .map(|s| GridScenario { id: s.id, values: s.values, tags: s.tags })
            .collect();
        (self.file, self.grid) = (Some(file), Grid { scenarios });
    }

    /// The world as it was after the first `n` rows.
    pub(crate) fn cut(&self, n: usize) -> Self {
        Self::of(self.rows[..n].to_vec(), self.store.0.clone())
    }

    /// Imports an exported file; the row that importing writes is left out.
    pub(crate) fn import(file: &Path, scratch: &Path) -> Result<Self, String> {
        let imported = import(file, scratch, None, "0.1.0", 0).map_err(|e| e.to_string())?;
        let ledger = Ledger::open(&imported.folder, Access::Read).map_err(|e| e.to_string())?;
        let mut rows = ledger.rows().map_err(|e| e.to_string())?;
        let last = rows.pop().and_then(|r| r.entry().ok());
        if !matches!(last, Some(Entry::ImportedFrom(_))) {
            return Err("importing wrote no row".to_owned());
        }
        let mut artefacts = BTreeMap::new();
        for hash in ledger.artefacts().map_err(|e| e.to_string())?.into_keys() {
            let data = ledger.artefact(&hash).map_err(|e| e.to_string())?.ok_or("an artefact was dropped")?;
            artefacts.insert(hash, data);
        }
        Ok(Self::of(rows, artefacts))
    }

    /// The scene, if anything is sealed.
    pub(crate) fn scene(&self) -> Option<Scene<'_>> {
        Some(Scene {
            board: &self.board,
            file: self.file.as_ref()?,
            grid: &self.grid,
            verdicts: &self.store,
            now_ms: self.now_ms,
        })
    }
}
