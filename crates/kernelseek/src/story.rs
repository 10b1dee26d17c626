//! A run as a story: what the agent does, what is true about it, what it is asked. One entry a happening, from what
//! happened alone.

use crate::style::Style;
use crate::wrap::wrap;
use kernelseek_agents::Heard;
use kernelseek_campaign::outer;
use kernelseek_core::decision::Layer;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::goal::Miss;
use kernelseek_core::verdict::Word;
use kernelseek_core::wording::counted;
use kernelseek_evaluator::evaluate::Verdict;
use kernelseek_evaluator::event::Event;
use kernelseek_report::words;
use kernelseek_supervisor::{Attempt, Outcome, Question, Stop, Watched};

/// Columns before the text: the clock and the mark.
const MARGIN: usize = 9;
/// Misses of the goal that a refused stop names.
const NAMED: usize = 3;

/// An entry of the story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    mark: String,
    /// Paragraphs; the first stands beside the mark.
    text: Vec<String>,
}

impl Entry {
    fn new(mark: String, text: impl Into<String>) -> Self {
        Self { mark, text: vec![text.into()] }
    }

    fn and(mut self, text: impl Into<String>) -> Self {
        self.text.push(text.into());
        self
    }

    /// The entry with the time it happened at, broken for `width` columns.
    pub(crate) fn render(&self, clock: &str, style: Style, width: usize) -> String {
        let mut out = String::new();
        let room = width.saturating_sub(MARGIN).max(30);
        for (i, line) in self.text.iter().flat_map(|paragraph| wrap(paragraph, room)).enumerate() {
            if i == 0 {
                out.push_str(&format!("{}  {} {line}\n", style.faint(&format!("{clock:>5}")), self.mark));
            } else {
                out.push_str(&format!("{}{line}\n", " ".repeat(MARGIN)));
            }
        }
        out
    }
}

/// Turns happenings into entries.
#[derive(Debug)]
pub(crate) struct Story {
    style: Style,
    agent: String,
    doing: String,
    fenced: Option<bool>,
    /// What the agent said last.
    words: String,
}

impl Story {
    pub(crate) fn new(style: Style) -> Self {
        Self { style, agent: "agent".to_owned(), doing: String::new(), fenced: None, words: String::new() }
    }

    /// What is going on now, for a line that is redrawn.
    pub(crate) fn doing(&self) -> &str {
        &self.doing
    }

    /// The entries that a happening is worth.
    pub(crate) fn tell(&mut self, watched: &Watched) -> Vec<Entry> {
        let style = self.style;
        match watched {
            Watched::Turn { number, agent, session } => {
                self.agent.clone_from(agent);
                self.doing = format!("{agent} works");
                let how = if session.is_some() { "goes on" } else { "begins" };
                vec![Entry::new(style.strong("»"), format!("turn {number}: {agent} {how}"))]
            }
            Watched::Started { layers, fenced } => self.started(layers, *fenced),
            Watched::Heard(heard) => self.heard(heard),
            Watched::Asked(_) => Vec::new(),
            Watched::Event(event) => {
                if let Some(text) = step(event) {
                    self.doing = text;
                }
                Vec::new()
            }
            Watched::Attempt(attempt) => {
                self.doing = format!("{} works", self.agent);
                self.attempt(attempt)
            }
            Watched::Stated(h) => {
                self.doing = format!("{} edits", self.agent);
                let expects = h.expect.map_or_else(String::new, |x| format!(", expects {x:.2}×"));
                let layer = h.layer.map_or_else(|| "hypothesis".to_owned(), |l: Layer| l.to_string());
                let head = style.faint(&format!("({layer}{expects})"));
                vec![Entry::new(style.strong("→"), format!("{} {head}", h.text))]
            }
            Watched::Answered(answered) => {
                let (mark, why) = match answered.accepted {
                    Some(true) => (style.good("✓"), String::new()),
                    Some(false) => {
                        (style.doubtful("✓"), format!(" {}", style.faint(&format!("({})", answered.why))))
                    }
                    None => (style.strong("✓"), String::new()),
                };
                vec![Entry::new(mark, format!("answer: {}{why}", answered.text))]
            }
            Watched::Question(question) => vec![self.question(question)],
            Watched::Stop(stop) => self.stop(stop),
            Watched::Refused(why) => {
                vec![Entry::new(style.bad("✗"), format!("a request was refused: {why}"))]
            }
            Watched::Left { ended, killed } => {
                let killed = match killed {
                    0 => String::new(),
                    1 => "; 1 process of it had to be ended".to_owned(),
                    n => format!("; {n} processes of it had to be ended"),
                };
                self.doing = "judging".to_owned();
                vec![Entry::new(
                    style.strong("«"),
                    style.faint(&format!("{} has left ({ended}){killed}", self.agent)),
                )]
            }
            Watched::Own => {
                self.doing = "the evaluation that counts".to_owned();
                let text = "the supervisor's own evaluation: full, from stored sources, with fresh contents";
                vec![Entry::new(style.strong("◆"), text)]
            }
            Watched::Counted(outcome) => self.counted(outcome),
            Watched::Waiting(busy) => {
                let text =
                    format!("waiting: an evaluation of {} is running (process {})", busy.what, busy.pid);
                vec![Entry::new(style.faint("·"), text)]
            }
        }
    }

    fn started(&mut self, layers: &[String], fenced: bool) -> Vec<Entry> {
        if self.fenced.replace(fenced) == Some(fenced) {
            return Vec::new();
        }
        if fenced {
            let text =
                "behind a fence: it can write to the campaign's folder; ledger and seal are out of its reach";
            return vec![Entry::new(self.style.faint("·"), self.style.faint(text))];
        }
        let missing: Vec<&str> =
            layers.iter().filter(|l| !l.ends_with(": enforced")).map(String::as_str).collect();
        let text = format!(
            "the fence has gaps on this machine ({}): a win will count only for a goal with `trust = \"reduced\"`",
            missing.join(", ")
        );
        vec![Entry::new(self.style.doubtful("!"), text)]
    }

    fn heard(&mut self, heard: &Heard) -> Vec<Entry> {
        let style = self.style;
        match heard {
            Heard::Session(_) => Vec::new(),
            Heard::Says(text) => vec![Entry::new(style.faint("·"), style.faint(text))],
            Heard::Edits(path) => {
                self.doing = format!("{} edits {path}", self.agent);
                Vec::new()
            }
            Heard::Runs(command) => {
                self.doing = format!("{} runs {command}", self.agent);
                Vec::new()
            }
            Heard::Words(text) => {
                self.words.clone_from(text);
                vec![Entry::new(style.strong("“"), text.clone())]
            }
            Heard::Finished(text) if *text == self.words => Vec::new(),
            Heard::Finished(text) => vec![Entry::new(style.faint("·"), style.faint(text))],
            Heard::Broken(text) => vec![Entry::new(style.bad("✗"), text.clone())],
        }
    }

    fn attempt(&mut self, attempt: &Attempt) -> Vec<Entry> {
        let style = self.style;
        let mut entries = vec![verdict(&attempt.evaluation.verdict, style)];
        if let Some(said) = &attempt.promotion {
            let mark = if attempt.promoted { style.good("▲") } else { style.doubtful("▽") };
            entries.push(Entry::new(mark, said.clone()));
        }
        entries.extend(attempt.questions.iter().map(|q| self.question(q)));
        if let Some(ended) = &attempt.ended {
            entries.push(Entry::new(style.doubtful("■"), format!("the campaign ends: {ended}")));
        }
        entries
    }

    fn question(&self, question: &Question) -> Entry {
        let style = self.style;
        let who = match (question.person, question.point) {
            (true, _) => "a person asks".to_owned(),
            (false, Some(point)) => point.words().to_owned(),
            (false, None) => "question".to_owned(),
        };
        Entry::new(
            style.strong("?"),
            format!("{} {}", style.strong(&who), style.faint(&format!("({})", question.reason))),
        )
        .and(question.question.clone())
    }

    fn stop(&mut self, stop: &Stop) -> Vec<Entry> {
        let style = self.style;
        let decision = &stop.decision;
        let first = decision.reason.lines().next().unwrap_or_default().trim_end_matches('.');
        if decision.allow {
            return vec![Entry::new(style.good("■"), format!("it may stop: {first}"))];
        }
        if outer::may_be_met(decision) {
            let text = "every clause holds so far; what counts is measured after it has left";
            return vec![Entry::new(style.good("◇"), text)];
        }
        let mut entry = Entry::new(style.bad("■"), format!("{}: {first}", style.bad("stop refused")));
        if let Some(judgement) = &decision.judgement {
            for (clause, fresh) in judgement.told_once().into_iter().filter(|(clause, _)| !clause.met) {
                let misses: Vec<String> = fresh.iter().take(NAMED).map(|m| self.miss(m)).collect();
                let more = fresh.len().saturating_sub(NAMED);
                let why = match (misses.is_empty(), more) {
                    (true, _) => "for the same reason".to_owned(),
                    (false, 0) => misses.join("; "),
                    (false, more) => format!("{}; and {more} more", misses.join("; ")),
                };
                entry = entry.and(format!("`{}` — {why}", clause.clause));
            }
        }
        let mut entries = vec![entry];
        entries.extend(stop.question.iter().map(|q| self.question(q)));
        entries
    }

    fn miss(&self, miss: &Miss) -> String {
        if miss.scenario.is_empty() {
            miss.message.clone()
        } else {
            format!("{}: {}", self.style.strong(&miss.scenario), miss.message)
        }
    }

    fn counted(&self, outcome: &Outcome) -> Vec<Entry> {
        let style = self.style;
        let mut entries: Vec<Entry> = outcome.verdict.iter().map(|v| verdict(v, style)).collect();
        let mark = if outcome.met { style.good("■") } else { style.bad("■") };
        entries.push(Entry::new(mark, outcome.reason.clone()));
        entries
    }
}

/// A verdict in a line or two.
fn verdict(verdict: &Verdict, style: Style) -> Entry {
    let (mark, word) = match verdict.word {
        Word::Pass => (style.good("●"), style.good("PASS")),
        Word::Fail => (style.bad("●"), style.bad("FAIL")),
        other => (style.doubtful("●"), style.doubtful(other.as_str())),
    };
    let tier = verdict.tier.as_str();
    let ratio =
        verdict.geomean.map_or_else(String::new, |r| format!("  {}", style.strong(&words::interval(&r))));
    let audited = verdict.scenarios.iter().filter(|s| s.audited).count();
    let audited = if audited > 0 { ", audited" } else { "" };
    let scenarios = verdict.scenarios.len();
    let of = counted(scenarios, "scenario");
    let entry =
        Entry::new(mark, format!("{word}{ratio}  {}", style.faint(&format!("{of}, {tier}{audited}"))));
    match worst(verdict) {
        Some((scenario, finding)) => {
            let place = scenario.map_or_else(String::new, |s| format!("{}: ", style.strong(s)));
            entry.and(format!(
                "{place}{} {}",
                finding.message,
                style.faint(&format!("[{}]", finding.defence))
            ))
        }
        None => entry,
    }
}

/// The finding that weighs most, if one changes the word.
fn worst(verdict: &Verdict) -> Option<(Option<&str>, &Finding)> {
    let own = verdict.findings.iter().map(|f| (None, f));
    let theirs = verdict.scenarios.iter().flat_map(|s| s.findings.iter().map(|f| (Some(s.id.as_str()), f)));
    let all: Vec<_> = own.chain(theirs).filter(|(_, f)| f.severity >= Severity::Unproven).collect();
    let most = all.iter().map(|(_, f)| f.severity).max()?;
    all.into_iter().find(|(_, f)| f.severity == most)
}

/// A step of an evaluation, for the line that is redrawn.
fn step(event: &Event) -> Option<String> {
    Some(match event {
        Event::Problem { name, scenarios } => {
            format!("evaluating {name} on {}", counted(*scenarios, "scenario"))
        }
        Event::Again { why } => why.clone(),
        Event::Building { side } => format!("building the {}", side.as_str()),
        Event::Built { .. } | Event::Scenario(_) => return None,
        Event::MeasuringPeaks => "measuring this machine's peaks (once)".to_owned(),
        Event::WaitingForGpu { .. } => "waiting for the GPU, which somebody else holds".to_owned(),
        Event::Calibrating { .. } => "calibrating: the seed against itself".to_owned(),
        Event::Referencing { scenario } => format!("reference: {scenario}"),
        Event::Instance { index, of } => format!("evaluating: instance {index} of {of}"),
        Event::Measured { scenario, instance, ratio } => {
            let ratio = ratio.map_or_else(String::new, |r| format!(" {r:.3}×"));
            format!("evaluating: instance {instance}, {scenario}{ratio}")
        }
        Event::Remeasured { scenario, why } => format!("{scenario}: measured again, {why}"),
        Event::Auditing { scenario, ratio } => format!("auditing {scenario}: {ratio:.2}× is suspicious"),
        Event::UnderTool { tool, scenario } => format!("{scenario}: under {tool}"),
        Event::HeldOut { drawn } => format!("held out: {} drawn", counted(*drawn, "scenario")),
    })
}
