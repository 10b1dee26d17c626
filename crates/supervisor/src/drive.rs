//! The outer loop: an agent takes turns until the goal is met, a budget is spent, or it has nothing more to do. Hooks of
//! an agent fail open; here nobody but the ledger says that it is done.

use crate::error::SupervisorError;
use crate::ground::{Ground, Place};
use crate::last::Outcome;
use crate::lead::{count, sealed};
use crate::stop::Stop;
use crate::supervised::Campaign;
use crate::turn::{self, Job};
use crate::watched::Watched;
use kernelseek_agents::{Agent, Brief, Heard, Turn, again, first};
use kernelseek_campaign::outer::{self, Course, End, Next, TurnEnd};
use kernelseek_campaign::{StopDecision, StopRule};
use kernelseek_ledger::entry::Led;
use kernelseek_sandbox::agent::{AgentStdio, InterruptWatch, OutputBounds};
use std::time::{Duration, Instant};

/// Longest part of an agent's error output that is shown when it did nothing, in characters.
const SHOWN: usize = 300;

/// Whom to drive, and how far.
#[derive(Debug, Clone)]
pub struct Driving {
    /// Where.
    pub place: Place,
    /// Turns at most.
    pub turns: u32,
    /// How long the whole run may take, the last evaluation apart.
    pub limit: Option<Duration>,
    /// Begin a new session even if an earlier run left one.
    pub fresh: bool,
}

/// What came of a run.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Driven {
    /// Campaign id.
    pub campaign: String,
    /// The agent.
    pub agent: String,
    /// Turns that were taken.
    pub turns: u32,
    /// Whether every layer of the fence held in all of them.
    pub fenced: bool,
    /// The fence, in words.
    pub layers: Vec<String>,
    /// Why it ended.
    pub end: End,
    /// How the goal stands.
    pub outcome: Outcome,
    /// What the agent printed to standard error in its last turn, cut.
    pub last_words: String,
}

/// What one run remembers between turns.
struct Run<'a> {
    campaign: Campaign,
    ground: Ground,
    driving: &'a Driving,
    begun: Instant,
    turns: u32,
    barren: u32,
    fenced: bool,
    layers: Vec<String>,
    session: Option<String>,
    finished: Option<String>,
    last_words: String,
}

/// Drives an agent.
///
/// # Errors
/// When the campaign cannot be led, or an agent cannot be brought to leave.
pub fn drive(
    driving: &Driving,
    agent: &mut dyn Agent,
    watch: &mut dyn FnMut(Watched),
) -> Result<Driven, SupervisorError> {
    let campaign = sealed(&driving.place)?;
    let probe = agent.invoke(&Turn { number: 0, prompt: "", session: None });
    let ground = Ground::prepare(&campaign, &driving.place, &probe.write)?;
    let session = if driving.fresh { None } else { left_session(&campaign, agent.name()) };
    let mut run = Run {
        campaign,
        ground,
        driving,
        begun: Instant::now(),
        turns: 0,
        barren: 0,
        fenced: true,
        layers: Vec::new(),
        session,
        finished: None,
        last_words: String::new(),
    };
    let (end, outcome) = run.go(agent, watch)?;
    Ok(Driven {
        campaign: run.campaign.id().to_owned(),
        agent: agent.name().to_owned(),
        turns: run.turns,
        fenced: run.fenced,
        layers: run.layers,
        end,
        outcome,
        last_words: run.last_words,
    })
}

/// The session that the last turn of this agent left under the seal in force; a run that was interrupted goes on with
/// it.
fn left_session(campaign: &Campaign, agent: &str) -> Option<String> {
    let board = campaign.board();
    let era = board.era();
    let mut open = false;
    let mut session = None;
    for led in board.led.iter().filter(|l| l.row > era) {
        match &led.what {
            Led::Started { agent: Some(name), .. } => open = name == agent,
            Led::Started { agent: None, .. } => open = false,
            Led::Left { session: Some(name), .. } if open => session = Some(name.clone()),
            _ => {}
        }
    }
    session
}

impl Run<'_> {
    fn go(
        &mut self,
        agent: &mut dyn Agent,
        watch: &mut dyn FnMut(Watched),
    ) -> Result<(End, Outcome), SupervisorError> {
        if self.campaign.board().ended.is_some() {
            let decision = self.campaign.decide()?;
            let end = if decision.met { End::Met } else { End::Over { reason: decision.reason.clone() } };
            return Ok((end, told(&decision)));
        }
        let mut prompt = self.task(watch)?;
        loop {
            let before = self.done();
            let stopped = self.turn(agent, &prompt, watch)?;
            let interrupted = stopped.is_none();
            self.barren = if self.done() == before { self.barren + 1 } else { 0 };
            let Some(stop) = stopped else {
                return Ok((End::Interrupted, told(&self.campaign.decide()?)));
            };
            let course = Course {
                turns: self.turns,
                most_turns: self.driving.turns,
                elapsed: self.begun.elapsed(),
                limit: self.driving.limit,
                barren: self.barren,
            };
            let finished = self.finished.take();
            let end = TurnEnd { interrupted, finished: finished.as_deref(), decision: &stop.decision };
            let mut reason = stop.decision.reason.clone();
            let mut outcome = None;
            let mut next = outer::after_turn(&course, &end);
            if next == Next::Evaluate {
                let counted = count(&mut self.campaign, &self.ground.base, self.fenced, watch)?;
                next = outer::after_evaluation(&course, &end, counted.met);
                if counted.row.is_none() && !self.fenced {
                    // No turn can change what the machine lacks.
                    next = Next::End(End::Over { reason: counted.reason.clone() });
                }
                reason = unmet(&counted);
                outcome = Some(counted);
            }
            match next {
                Next::End(end) => {
                    let outcome = outcome.unwrap_or_else(|| told(&stop.decision));
                    return Ok((end, outcome));
                }
                Next::Evaluate | Next::Resume => {
                    let question = match stop.question {
                        Some(question) => Some(question),
                        None => self.campaign.open_question(),
                    };
                    prompt = again(&reason, question.map(|q| q.to_prompt()).as_deref());
                }
            }
        }
    }

    /// What the agent is told at first.
    fn task(&mut self, watch: &mut dyn FnMut(Watched)) -> Result<String, SupervisorError> {
        let question = self.campaign.question_now()?;
        if let Some(question) = &question {
            watch(Watched::Question(Box::new(question.clone())));
        }
        let question = question.map(|q| q.to_prompt());
        let sealed = self.campaign.in_force()?;
        let clauses: Vec<String> = sealed.file.goal.clauses.iter().map(|c| c.text.clone()).collect();
        let brief = Brief {
            candidate: &sealed.file.candidate,
            problem: self.campaign.problem_name()?,
            problem_folder: &sealed.file.problem,
            scenarios: sealed.grid.scenarios.len(),
            clauses: &clauses,
            question: question.as_deref(),
        };
        Ok(first(&brief))
    }

    /// What an agent has done so far: evaluations, hypotheses, answers.
    fn done(&self) -> (usize, usize, usize) {
        let board = self.campaign.board();
        (board.attempts().count(), board.hypotheses.len(), board.answers.len())
    }

    /// Takes a turn, and decides whether the agent may stop; nothing if a person interrupted it.
    fn turn(
        &mut self,
        agent: &mut dyn Agent,
        prompt: &str,
        watch: &mut dyn FnMut(Watched),
    ) -> Result<Option<Stop>, SupervisorError> {
        self.turns += 1;
        let name = agent.name().to_owned();
        let session = self.session.clone();
        watch(Watched::Turn { number: self.turns, agent: name.clone(), session: session.clone() });
        let invocation = agent.invoke(&Turn { number: self.turns, prompt, session: session.as_deref() });
        let interrupts = InterruptWatch::begin();
        let job = Job {
            invocation,
            stdio: AgentStdio::Captured(OutputBounds::default()),
            deadline: self.driving.limit.map(|l| self.begun + l),
            turn: Some((name, self.turns)),
            interrupted: &|| interrupts.seen() > 0,
        };
        let (mut words, mut finished, mut session) = (String::new(), None, None);
        let mut hear = |line: &str| {
            let heard = agent.hear(line);
            for heard in &heard {
                match heard {
                    Heard::Words(text) => words.clone_from(text),
                    Heard::Finished(text) => finished = Some(text.clone()),
                    Heard::Session(name) => session = Some(name.clone()),
                    _ => {}
                }
            }
            heard
        };
        // A stop that the agent asked for itself, with nothing done since, is not asked for again.
        let mut asked: Option<Stop> = None;
        let mut watching = |watched: Watched| {
            match &watched {
                Watched::Stop(stop) => asked = Some((**stop).clone()),
                Watched::Attempt(_) | Watched::Stated(_) | Watched::Answered(_) => asked = None,
                _ => {}
            }
            watch(watched);
        };
        let turned =
            turn::take(&mut self.campaign, &self.driving.place, &self.ground, job, &mut hear, &mut watching)?;
        self.fenced &= turned.fenced;
        self.layers = turned.layers;
        self.finished = finished;
        if session.is_some() {
            self.session = session;
        }
        let printed = turned.printed.1.trim();
        let skipped = printed.chars().count().saturating_sub(SHOWN);
        self.last_words = crate::files::plain(&printed.chars().skip(skipped).collect::<String>(), SHOWN);
        if turned.interrupted {
            return Ok(None);
        }
        // Files may have been changed after it asked.
        let now = self.campaign.decide()?;
        if let Some(stop) = asked.filter(|s| s.decision == now) {
            return Ok(Some(stop));
        }
        if outer::may_be_met(&now) {
            return Ok(Some(Stop { decision: now, campaign: None, question: None }));
        }
        let stop = self.campaign.stop(&words)?;
        watch(Watched::Stop(Box::new(stop.clone())));
        Ok(Some(stop))
    }
}

/// How the goal stands where nothing more was measured.
fn told(decision: &StopDecision) -> Outcome {
    Outcome {
        met: decision.met && decision.rule == StopRule::Ended,
        goal: decision.judgement.clone(),
        ..Outcome::unmet(decision.reason.clone())
    }
}

/// What is missing after the evaluation that counts.
fn unmet(outcome: &Outcome) -> String {
    let mut text = outcome.reason.clone();
    if let Some(goal) = &outcome.goal {
        text.push_str(&format!(".\n{}", kernelseek_campaign::unmet(goal)));
    }
    text
}
