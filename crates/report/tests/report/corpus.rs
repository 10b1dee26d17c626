//! Ledgers for reports: the recorded ones of the campaign crate, and rows that a test makes.

use kernelseek_campaign::{Board, Scene, Situation, Verdicts};
use kernelseek_core::campaign_file::{self, CampaignFile};
use kernelseek_core::goal::{Grid, GridScenario};
use kernelseek_core::verdict::Digest;
use kernelseek_core::{problem, scenario};
use kernelseek_ledger::seal::Seal;
use kernelseek_ledger::{Access, Entry, Ledger, Row, import};
use kernelseek_report::{Material, Report, Setting, gather};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Folder of the recorded ledgers.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../campaign/tests/ledgers")
}

/// Every recorded ledger by the name that it has below the folder.
pub(crate) fn recorded() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let mut folders = vec![folder()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder()).unwrap().with_extension("").display().to_string();
                found.push((name, path));
            }
        }
    }
    found.sort();
    found
}

/// A ledger with its artefacts.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) rows: Vec<Row>,
    pub(crate) artefacts: BTreeMap<String, Vec<u8>>,
    pub(crate) clock_behind_ms: i64,
    /// Whether the workspace holds other sources than those that were evaluated last.
    pub(crate) edited_since: bool,
}

impl Verdicts for Told {
    fn digest(&self, hash: &str) -> Result<Digest, String> {
        let bytes = self.artefacts.get(hash).ok_or_else(|| format!("artefact {hash} was dropped"))?;
        serde_json::from_slice(bytes).map_err(|e| e.to_string())
    }
}

impl Told {
    /// Imports an exported file.
    pub(crate) fn import(file: &Path, scratch: &Path) -> Self {
        let imported = import(file, scratch, None, "0.1.0", 0).unwrap();
        let ledger = Ledger::open(&imported.folder, Access::Read).unwrap();
        let artefacts = ledger.artefacts().unwrap().into_keys();
        let artefacts =
            artefacts.map(|hash| (hash.clone(), ledger.artefact(&hash).unwrap().unwrap())).collect();
        Self { rows: ledger.rows().unwrap(), artefacts, clock_behind_ms: 0, edited_since: false }
    }

    /// One of the recorded ones.
    pub(crate) fn named(name: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        Self::import(&folder().join(format!("{name}.jsonl")), scratch.path())
    }

    /// Takes the row that importing writes away.
    pub(crate) fn at_home(mut self) -> Self {
        self.rows.retain(|r| r.kind != "imported_from");
        self
    }

    /// One more row, a minute later.
    pub(crate) fn push(&mut self, entry: &Entry) -> u64 {
        let seq = self.rows.len() as u64 + 1;
        let at_ms = self.rows.last().map_or(0, |r| r.at_ms) + 60_000;
        let body = serde_json::to_string(entry).unwrap();
        let hash = format!("{seq:064x}");
        self.rows.push(Row { seq, at_ms, kind: entry.kind().to_owned(), body, prev: String::new(), hash });
        seq
    }

    /// Changes every entry.
    pub(crate) fn map(&mut self, mut change: impl FnMut(&mut Entry)) {
        for row in &mut self.rows {
            let mut entry = row.entry().unwrap();
            change(&mut entry);
            row.body = serde_json::to_string(&entry).unwrap();
        }
    }

    fn text(&self, hash: &str) -> String {
        String::from_utf8(self.artefacts[hash].clone()).unwrap()
    }

    /// The sealed terms, read back.
    fn terms(&self, board: &Board) -> (CampaignFile, Grid, Seal) {
        let sealed = &board.seal().expect("a seal").what;
        let file = campaign_file::parse_campaign("campaign.toml", &self.text(&sealed.campaign.hash)).unwrap();
        let kept = |path: &str| {
            self.text(&sealed.problem.iter().find(|f| f.path == path).expect("a sealed file").hash)
        };
        let problem = problem::parse_problem("problem.toml", &kept("problem.toml")).unwrap();
        let scenarios = scenario::parse_scenarios(&problem, "all.jsonl", &kept("all.jsonl")).unwrap();
        let scenarios = scenarios
            .into_iter()
            .map(|s| GridScenario { id: s.id, values: s.values, tags: s.tags })
            .collect();
        (file, Grid { scenarios }, serde_json::from_str(&self.text(&sealed.artefact)).unwrap())
    }

    /// The report while the workspace holds the sources that were evaluated last.
    pub(crate) fn report(&self) -> Report {
        let board = Board::of(&self.rows);
        let (file, grid, seal) = self.terms(&board);
        let last: BTreeMap<String, String> = board
            .evaluations
            .last()
            .into_iter()
            .filter(|_| !self.edited_since)
            .flat_map(|e| e.facts.sources.iter().map(|s| (s.path.clone(), s.hash.clone())))
            .collect();
        let hash_of = |path: &str| last.get(path).cloned();
        let scene = Scene {
            board: &board,
            file: &file,
            grid: &grid,
            verdicts: self,
            now_ms: self.rows.last().map_or(0, |r| r.at_ms),
        };
        let decision = scene.stop(&Situation { changes: &[], running: None, hash_of: &hash_of });
        let setting = |hash: &str| -> Setting {
            self.artefacts.get(hash).and_then(|b| serde_json::from_slice(b).ok()).unwrap_or_default()
        };
        gather(&Material {
            scene,
            rows: &self.rows,
            seal: &seal,
            decision: &decision,
            current: scene.of_current_sources(&hash_of).map(|e| e.row),
            setting: &setting,
            tool: "0.1.0",
            clock_behind_ms: self.clock_behind_ms,
        })
    }
}
