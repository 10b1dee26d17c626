//! Leading an agent: it works behind a fence and asks over a socket; what counts is measured after it has left.

use crate::attempt::Attempt;
use crate::error::SupervisorError;
use crate::last::Outcome;
use crate::reach;
use crate::server::{Happening, Listening};
use crate::site::Site;
use crate::stop::Stop;
use crate::supervised::{Campaign, Openness, fresh_secret, now_ms};
use kernelseek_evaluator::event::{Event, Sink};
use kernelseek_evaluator::settings::Settings;
use kernelseek_ledger::entry::Led;
use kernelseek_ledger::{Batch, Busy, Entry};
use kernelseek_sandbox::agent::{self, Agent, AgentSpec, AgentStdio, Interrupts, Waited};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Name of the folder with the socket and the copy of this program.
const OWN: &str = "led";
/// Name of the agent's folder for temporary files.
const TEMPORARY: &str = "kernelseek-agent";
/// How often happenings are passed on while the agent works.
const LOOK: Duration = Duration::from_millis(100);

/// Whom to lead, and how.
#[derive(Debug)]
pub struct Leading {
    /// The campaign.
    pub site: Site,
    /// The state folder.
    pub state_dir: PathBuf,
    /// Settings of evaluations.
    pub base: Settings,
    /// The agent's command.
    pub command: Vec<OsString>,
    /// Its environment; the socket and its temporary folder are added.
    pub env: BTreeMap<OsString, OsString>,
    /// Where it may write besides the campaign's folder.
    pub write: Vec<PathBuf>,
    /// Folder in which its temporary folder is made.
    pub temporary: PathBuf,
    /// Its standard streams.
    pub stdio: AgentStdio,
    /// How long it may work.
    pub limit: Option<Duration>,
}

/// What happens meanwhile, for whoever watches.
#[derive(Debug)]
pub enum Watched {
    /// The agent works; what the fence holds, in words.
    Started {
        /// Every layer with its state.
        layers: Vec<String>,
        /// Whether all of them hold.
        fenced: bool,
    },
    /// It asked for something.
    Asked(&'static str),
    /// A step of an evaluation.
    Event(Event),
    /// An attempt has a verdict.
    Attempt(Box<Attempt>),
    /// A stop was decided.
    Stop(Box<Stop>),
    /// A request was refused.
    Refused(String),
    /// It has left.
    Left {
        /// How it ended, in words.
        ended: String,
        /// Processes of it that had to be killed.
        killed: usize,
    },
    /// The supervisor's own evaluation waits for another.
    Waiting(Busy),
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

/// A folder that is removed with everything in it.
struct Scratch(PathBuf);

impl Scratch {
    fn make(parent: &Path, name: &str) -> Result<Self, SupervisorError> {
        let tail: String = fresh_secret()?.iter().take(6).map(|b| format!("{b:02x}")).collect();
        let path = parent.join(format!("{name}-{}-{tail}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(|e| SupervisorError::file(&path, e))?;
        Ok(Self(path))
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

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Leads an agent until it leaves, then makes the evaluation that counts.
///
/// # Errors
/// When the campaign cannot be led, or the agent cannot be brought to leave.
pub fn lead(leading: Leading, watch: &mut dyn FnMut(Watched)) -> Result<LedOutcome, SupervisorError> {
    let mut campaign = Campaign::open(&leading.site, &leading.state_dir, Openness::Writing)?;
    let changes = campaign.changes()?;
    if !changes.is_empty() {
        return Err(SupervisorError::SealBroken(changes));
    }
    agent::shield()?;
    for (parent, name) in [(campaign.ledger.folder(), OWN), (leading.temporary.as_path(), TEMPORARY)] {
        remove_scratch(parent, name);
    }
    let own = Scratch::make(campaign.ledger.folder(), OWN)?;
    // The agent can reach the file that this program was started from; it cannot reach the copy.
    let helper = own.0.join("kernelseek");
    std::fs::copy(&leading.base.helper, &helper)
        .and_then(|_| std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o700)))
        .map_err(|e| SupervisorError::file(&helper, e))?;
    let socket = own.0.join("socket");
    let listening = Listening::at(&socket)?;
    let temporary = Scratch::make(&leading.temporary, TEMPORARY)?;
    let mut writable = leading.write.clone();
    writable.extend([leading.site.folder.clone(), temporary.0.clone()]);
    let base = reach::beyond(&writable, Settings { helper, ..leading.base.clone() })?;
    // Ctrl-C is the agent's while it works; what counts comes after it.
    let interrupts = (leading.stdio == AgentStdio::Inherit).then(Interrupts::ignored);
    let agent = agent::start(spec(&leading, &socket, &temporary.0)?)?;
    let layers: Vec<String> = agent.layers().all().map(|(name, state)| format!("{name}: {state}")).collect();
    let fenced = agent.layers().complete();
    let started = Led::Started {
        command: leading.command.iter().map(|c| c.to_string_lossy().into_owned()).collect(),
        layers: layers.clone(),
        fenced,
    };
    campaign.append(Batch::of(Entry::Led(started)), now_ms())?;
    watch(Watched::Started { layers: layers.clone(), fenced });

    let (tell, happenings) = channel();
    let server = listening.serve(leading.site.clone(), leading.state_dir.clone(), base.clone(), tell);
    let waited = attend(agent, leading.limit, &happenings, watch);
    server.end();
    pass_on(&happenings, watch);
    drop(interrupts);
    let (ended, killed, printed) = waited?;
    campaign.reread()?;
    campaign.append(Batch::of(Entry::Led(Led::Left { ended: ended.clone(), killed })), now_ms())?;
    watch(Watched::Left { ended: ended.clone(), killed });

    let outcome = last(&mut campaign, &base, fenced, watch)?;
    Ok(LedOutcome { campaign: campaign.id().to_owned(), fenced, layers, ended, killed, outcome, printed })
}

fn last(
    campaign: &mut Campaign,
    base: &Settings,
    fenced: bool,
    watch: &mut dyn FnMut(Watched),
) -> Result<Outcome, SupervisorError> {
    if !fenced && !campaign.in_force()?.file.goal.accept_reduced_trust {
        return Ok(Outcome {
            met: false,
            reason:
                "a layer of the fence is missing on this machine, so what the agent did proves nothing; say \
                     `trust = \"reduced\"` in the goal to accept that"
                    .to_owned(),
            row: None,
            goal: None,
            verdict: None,
        });
    }
    let watch = std::cell::RefCell::new(watch);
    let mut sink = |event: &Event| (*watch.borrow_mut())(Watched::Event(event.clone()));
    let sink: &mut dyn Sink = &mut sink;
    let mut waiting = |busy: &Busy| (*watch.borrow_mut())(Watched::Waiting(busy.clone()));
    campaign.last_evaluation(base, sink, &mut waiting)
}

fn spec(leading: &Leading, socket: &Path, temporary: &Path) -> Result<AgentSpec, SupervisorError> {
    let Some((program, args)) = leading.command.split_first() else {
        return Err(SupervisorError::Refused("no command was given".to_owned()));
    };
    let mut env = leading.env.clone();
    env.insert(crate::protocol::SOCKET.into(), socket.into());
    env.insert("TMPDIR".into(), temporary.into());
    let mut write = vec![leading.site.folder.clone(), temporary.to_owned()];
    write.extend(leading.write.iter().cloned());
    Ok(AgentSpec {
        program: program.into(),
        args: args.to_vec(),
        cwd: leading.site.folder.clone(),
        env,
        write,
        protect: vec![leading.state_dir.clone()],
        stdio: leading.stdio,
    })
}

fn pass_on(happenings: &Receiver<Happening>, watch: &mut dyn FnMut(Watched)) {
    for happening in happenings.try_iter() {
        watch(match happening {
            Happening::Asked(what) => Watched::Asked(what),
            Happening::Event(event) => Watched::Event(event),
            Happening::Attempt(attempt) => Watched::Attempt(attempt),
            Happening::Stop(stop) => Watched::Stop(stop),
            Happening::Refused(why) => Watched::Refused(why),
        });
    }
}

type Attended = (String, usize, (String, String));

/// Waits for the agent's end, or its limit, and for the end of everything that it started.
fn attend(
    mut agent: Agent,
    limit: Option<Duration>,
    happenings: &Receiver<Happening>,
    watch: &mut dyn FnMut(Watched),
) -> Result<Attended, SupervisorError> {
    let start = Instant::now();
    let ended = loop {
        match agent.wait_deadline(Instant::now() + LOOK)? {
            Waited::Ended(status) => break in_words(status),
            Waited::Flooded => {}
            Waited::Deadline => {
                if let Some(limit) = limit.filter(|l| start.elapsed() >= *l) {
                    break format!("ended after {:.0} s, its limit", limit.as_secs_f64());
                }
            }
        }
        pass_on(happenings, watch);
    };
    let killed = agent.leave()?;
    let (out, err) = agent.output();
    Ok((ended, killed, (out.text(), err.text())))
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
