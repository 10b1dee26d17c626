//! Leading an agent: it works behind a fence and asks over a socket; what counts is measured after it has left.

use crate::error::SupervisorError;
use crate::ground::{Ground, Place};
use crate::last::Outcome;
use crate::supervised::{Campaign, Openness};
use crate::turn::{self, Job};
use crate::watched::Watched;
use kernelseek_agents::Invocation;
use kernelseek_evaluator::event::{Event, Sink};
use kernelseek_evaluator::settings::Settings;
use kernelseek_ledger::Busy;
use kernelseek_sandbox::agent::{AgentStdio, Interrupts};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Whom to lead, once, with a person before it.
#[derive(Debug)]
pub struct Leading {
    /// Where.
    pub place: Place,
    /// The agent's command.
    pub command: Vec<OsString>,
    /// Its standard streams.
    pub stdio: AgentStdio,
    /// How long it may work.
    pub limit: Option<Duration>,
}

/// What came of it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LedOutcome {
    /// Campaign id.
    pub campaign: String,
    /// Whether every layer of the fence held.
    pub fenced: bool,
    /// The fence, in words.
    pub layers: Vec<String>,
    /// How the agent ended, in words.
    pub ended: String,
    /// Processes that had to be killed.
    pub killed: usize,
    /// The supervisor's own evaluation.
    pub outcome: Outcome,
    /// What the agent printed, where it was captured.
    #[serde(skip)]
    pub printed: (String, String),
}

/// Leads an agent until it leaves, then makes the evaluation that counts.
///
/// # Errors
/// When the campaign cannot be led, or the agent cannot be brought to leave.
pub fn lead(leading: Leading, watch: &mut dyn FnMut(Watched)) -> Result<LedOutcome, SupervisorError> {
    let place = &leading.place;
    let mut campaign = sealed(place)?;
    let Some((program, args)) = leading.command.split_first() else {
        return Err(SupervisorError::Refused("no command was given".to_owned()));
    };
    let ground = Ground::prepare(&campaign, place, &[])?;
    // Ctrl-C is the agent's while it works; what counts comes after it.
    let interrupts = (leading.stdio == AgentStdio::Inherit).then(Interrupts::ignored);
    let invocation =
        Invocation { program: program.into(), args: args.to_vec(), env: BTreeMap::new(), write: Vec::new() };
    let job = Job {
        invocation,
        stdio: leading.stdio,
        deadline: leading.limit.map(|l| Instant::now() + l),
        turn: None,
        interrupted: &|| false,
    };
    let turned = turn::take(&mut campaign, place, &ground, job, &mut |_| Vec::new(), watch)?;
    drop(interrupts);
    let outcome = count(&mut campaign, &ground.base, turned.fenced, watch)?;
    Ok(LedOutcome {
        campaign: campaign.id().to_owned(),
        fenced: turned.fenced,
        layers: turned.layers,
        ended: turned.ended,
        killed: turned.killed,
        outcome,
        printed: turned.printed,
    })
}

/// Opens the campaign of a place, which must stand under its seal.
pub(crate) fn sealed(place: &Place) -> Result<Campaign, SupervisorError> {
    let campaign = Campaign::open(&place.site, &place.state_dir, Openness::Writing)?;
    let changes = campaign.changes()?;
    if changes.is_empty() { Ok(campaign) } else { Err(SupervisorError::SealBroken(changes)) }
}

/// Makes the evaluation that counts.
pub(crate) fn count(
    campaign: &mut Campaign,
    base: &Settings,
    fenced: bool,
    watch: &mut dyn FnMut(Watched),
) -> Result<Outcome, SupervisorError> {
    if !fenced && !campaign.in_force()?.file.goal.accept_reduced_trust {
        return Ok(Outcome::unmet(
            "a layer of the fence is missing on this machine, so what the agent did proves nothing; say \
             `trust = \"reduced\"` in the goal to accept that",
        ));
    }
    watch(Watched::Own);
    let outcome = {
        let watch = std::cell::RefCell::new(&mut *watch);
        let mut sink = |event: &Event| (*watch.borrow_mut())(Watched::Event(event.clone()));
        let sink: &mut dyn Sink = &mut sink;
        let mut waiting = |busy: &Busy| (*watch.borrow_mut())(Watched::Waiting(busy.clone()));
        campaign.last_evaluation(base, sink, &mut waiting)?
    };
    watch(Watched::Counted(Box::new(outcome.clone())));
    Ok(outcome)
}
