//! The stories behind the recorded ledgers: what fires and what does not, each pair one step apart.

mod claimed_limit;
mod correctness_break;
mod in_words;
mod plateau;
mod start;
mod suspicious_win;

use crate::script::Script;
use kernelseek_core::decision::DecisionPoint;

/// One recorded ledger.
#[derive(Clone, Copy)]
pub(crate) struct Story {
    /// What happens in it, as the file says it.
    pub(crate) name: &'static str,
    /// Whether the point is reached at its end.
    pub(crate) fires: bool,
    /// Other points that are reached at its end too.
    pub(crate) also: &'static [DecisionPoint],
    /// What happens in it.
    pub(crate) script: fn(&str) -> Script,
}

const fn fires(name: &'static str, script: fn(&str) -> Script) -> Story {
    Story { name, fires: true, also: &[], script }
}

const fn silent(name: &'static str, script: fn(&str) -> Script) -> Story {
    Story { name, fires: false, also: &[], script }
}

impl Story {
    const fn also(self, also: &'static [DecisionPoint]) -> Self {
        Self { also, ..self }
    }

    /// The file's name without its ending.
    pub(crate) fn file(&self) -> String {
        format!("{}-{}", if self.fires { "fires" } else { "silent" }, self.name)
    }

    /// What happens in it, told to its end.
    pub(crate) fn told(&self, folder: &str) -> Script {
        (self.script)(&format!("{}.{}", folder.replace('/', "."), self.file()))
    }
}

/// Stories about one point, in one folder.
pub(crate) struct Chapter {
    pub(crate) point: DecisionPoint,
    /// Folder under `tests/ledgers`.
    pub(crate) folder: &'static str,
    /// Whether only the agent's words make it fire.
    pub(crate) words: bool,
    pub(crate) stories: &'static [Story],
}

/// All of them.
pub(crate) const CHAPTERS: [Chapter; 7] = {
    use DecisionPoint as P;
    const fn chapter(point: P, folder: &'static str, words: bool, stories: &'static [Story]) -> Chapter {
        Chapter { point, folder, words, stories }
    }
    [
        chapter(P::CampaignStart, "campaign_start", false, start::STORIES),
        chapter(P::Plateau, "plateau", false, plateau::STORIES),
        chapter(P::ClaimedLimit, "claimed_limit", false, claimed_limit::STORIES),
        chapter(P::SuspiciousWin, "suspicious_win", false, suspicious_win::STORIES),
        chapter(P::CorrectnessBreak, "correctness_break", false, correctness_break::STORIES),
        chapter(P::ClaimedLimit, "with_words/claimed_limit", true, in_words::LIMITS),
        chapter(P::CorrectnessBreak, "with_words/correctness_break", true, in_words::EXCUSES),
    ]
};

/// Every story with its chapter.
pub(crate) fn all() -> impl Iterator<Item = (&'static Chapter, &'static Story)> {
    const ALL: &[Chapter] = &CHAPTERS;
    ALL.iter().flat_map(|chapter| chapter.stories.iter().map(move |story| (chapter, story)))
}
