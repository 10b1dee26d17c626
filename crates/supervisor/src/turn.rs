//! One turn of an agent: started behind the fence, served over a socket, waited for, and gone with all it started.

use crate::error::SupervisorError;
use crate::ground::{Ground, Place};
use crate::server::{Happening, Listening};
use crate::supervised::{Campaign, now_ms};
use crate::watched::Watched;
use kernelseek_agents::{Heard, Invocation, LONGEST_LINE};
use kernelseek_ledger::entry::Led;
use kernelseek_ledger::{Batch, Entry};
use kernelseek_sandbox::agent::{self, Agent, AgentSpec, AgentStdio, Tee, Waited};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// How often happenings are passed on while the agent works.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of output that may wait for whoever reads them; more is passed over.
const WAITING: usize = 16 << 20;

/// What a turn is about.
pub(crate) struct Job<'a> {
    /// What is started.
    pub(crate) invocation: Invocation,
    /// Its standard streams.
    pub(crate) stdio: AgentStdio,
    /// When it is ended.
    pub(crate) deadline: Option<Instant>,
    /// Its name and the number of the turn, if it is one of several.
    pub(crate) turn: Option<(String, u32)>,
    /// Whether a person wants it to end.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

/// How a turn ended.
#[derive(Debug)]
pub(crate) struct Turned {
    /// In words.
    pub(crate) ended: String,
    /// Processes that had to be killed.
    pub(crate) killed: usize,
    /// What was captured of its output.
    pub(crate) printed: (String, String),
    /// The fence, in words.
    pub(crate) layers: Vec<String>,
    /// Whether every layer of it held.
    pub(crate) fenced: bool,
    /// A person interrupted it.
    pub(crate) interrupted: bool,
}

/// Takes one turn. `hear` understands a line of standard output and returns the name of the session, if it says it.
pub(crate) fn take(
    campaign: &mut Campaign,
    place: &Place,
    ground: &Ground,
    job: Job<'_>,
    hear: &mut dyn FnMut(&str) -> Vec<Heard>,
    watch: &mut dyn FnMut(Watched),
) -> Result<Turned, SupervisorError> {
    let socket = ground.own.0.join("socket");
    let listening = Listening::at(&socket)?;
    let (tell, happenings) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let mut env = place.env.clone();
    env.extend(job.invocation.env.clone());
    env.insert(crate::protocol::SOCKET.into(), socket.into());
    env.insert("TMPDIR".into(), ground.temporary.0.clone().into());
    let mut write = vec![place.site.folder.clone(), ground.temporary.0.clone()];
    write.extend(place.write.iter().cloned().chain(job.invocation.write.iter().cloned()));
    let spec = AgentSpec {
        program: job.invocation.program.clone(),
        args: job.invocation.args.clone(),
        cwd: place.site.folder.clone(),
        env,
        write,
        protect: vec![place.state_dir.clone()],
        stdio: job.stdio,
        tee: Some(tee(tell.clone(), Arc::clone(&waiting))),
    };
    let agent = agent::start(spec)?;
    let layers: Vec<String> = agent.layers().all().map(|(name, state)| format!("{name}: {state}")).collect();
    let fenced = agent.layers().complete();
    let mut command = vec![job.invocation.program.to_string_lossy().into_owned()];
    command.extend(job.invocation.args.iter().map(|a| a.to_string_lossy().into_owned()));
    let (name, number) = job.turn.clone().unzip();
    let started = Led::Started { command, layers: layers.clone(), fenced, agent: name, turn: number };
    campaign.append(Batch::of(Entry::Led(started)), now_ms())?;
    watch(Watched::Started { layers: layers.clone(), fenced });

    let server = listening.serve(place.site.clone(), place.state_dir.clone(), ground.base.clone(), tell);
    let mut output = Output::default();
    let mut session = None;
    let waited = {
        let mut tick = |watch: &mut dyn FnMut(Watched), last: bool| {
            let mut line = |line: &str, watch: &mut dyn FnMut(Watched)| {
                for heard in hear(line) {
                    if let Heard::Session(name) = &heard {
                        session = Some(name.clone());
                    }
                    watch(Watched::Heard(heard));
                }
            };
            for happening in happenings.try_iter() {
                match told(happening) {
                    Told::Output(piece) => {
                        waiting.fetch_sub(piece.len(), Ordering::SeqCst);
                        output.take(&piece, &mut |text| line(text, watch));
                    }
                    Told::Watched(watched) => watch(watched),
                }
            }
            if last {
                output.end(&mut |text| line(text, watch));
            }
        };
        let waited = attend(agent, &job, &mut tick, watch);
        if !job.interrupted_now() {
            server.end();
        } else {
            // Whoever asked is gone, and so is the reason to finish what it asked for.
            server.abandon();
        }
        tick(watch, true);
        waited
    };
    let interrupted = job.interrupted_now();
    let (ended, killed, printed) = waited?;
    campaign.reread()?;
    let left = Led::Left { ended: ended.clone(), killed, session };
    campaign.append(Batch::of(Entry::Led(left)), now_ms())?;
    watch(Watched::Left { ended: ended.clone(), killed });
    Ok(Turned { ended, killed, printed, layers, fenced, interrupted })
}

impl Job<'_> {
    fn interrupted_now(&self) -> bool {
        (self.interrupted)()
    }
}

/// Hands output to the channel on which everything else arrives, so that it keeps its order.
fn tee(tell: Sender<Happening>, waiting: Arc<AtomicUsize>) -> Tee {
    // A channel's sender is not shared between threads by itself.
    let tell = std::sync::Mutex::new(tell);
    Tee::new(move |piece| {
        if waiting.fetch_add(piece.len(), Ordering::SeqCst) > WAITING {
            waiting.fetch_sub(piece.len(), Ordering::SeqCst);
            return;
        }
        if let Ok(tell) = tell.lock() {
            let _ = tell.send(Happening::Output(piece.to_vec()));
        }
    })
}

/// Standard output, cut into lines.
#[derive(Default)]
struct Output {
    rest: Vec<u8>,
    too_long: bool,
}

impl Output {
    /// Takes a piece and hands out the lines that are whole.
    fn take(&mut self, piece: &[u8], each: &mut dyn FnMut(&str)) {
        for part in piece.split_inclusive(|b| *b == b'\n') {
            if self.rest.len() + part.len() > LONGEST_LINE {
                self.too_long = true;
                self.rest.clear();
            }
            if !self.too_long {
                self.rest.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                if !std::mem::take(&mut self.too_long) {
                    each(&String::from_utf8_lossy(&self.rest));
                }
                self.rest.clear();
            }
        }
    }

    /// Hands out a last line without an end.
    fn end(&mut self, each: &mut dyn FnMut(&str)) {
        if !self.rest.is_empty() {
            each(&String::from_utf8_lossy(&std::mem::take(&mut self.rest)));
        }
    }
}

enum Told {
    Output(Vec<u8>),
    Watched(Watched),
}

fn told(happening: Happening) -> Told {
    Told::Watched(match happening {
        Happening::Output(piece) => return Told::Output(piece),
        Happening::Asked(what) => Watched::Asked(what),
        Happening::Event(event) => Watched::Event(event),
        Happening::Attempt(attempt) => Watched::Attempt(attempt),
        Happening::Stated(statement) => Watched::Stated(statement),
        Happening::Answered(answered) => Watched::Answered(answered),
        Happening::Question(question) => Watched::Question(question),
        Happening::Stop(stop) => Watched::Stop(stop),
        Happening::Refused(why) => Watched::Refused(why),
    })
}

/// Passes on what has arrived to whoever watches; the last time for good.
type Tick<'a> = dyn for<'w> FnMut(&'w mut (dyn FnMut(Watched) + 'w), bool) + 'a;
type Attended = (String, usize, (String, String));

/// Waits for the agent's end, its deadline or a person, and for the end of everything that it started.
fn attend(
    mut agent: Agent,
    job: &Job<'_>,
    tick: &mut Tick<'_>,
    watch: &mut dyn FnMut(Watched),
) -> Result<Attended, SupervisorError> {
    let start = Instant::now();
    let ended = loop {
        match agent.wait_deadline(Instant::now() + LOOK)? {
            Waited::Ended(status) => break in_words(status),
            Waited::Flooded => {}
            Waited::Deadline => {
                if job.interrupted_now() {
                    break "interrupted".to_owned();
                }
                if job.deadline.is_some_and(|d| Instant::now() >= d) {
                    break format!("ended after {:.0} s, its limit", start.elapsed().as_secs_f64());
                }
            }
        }
        tick(watch, false);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_cut_into_lines_however_it_arrives() {
        let mut output = Output::default();
        let mut seen = Vec::new();
        for piece in ["one\ntw", "o\n\nthr", "ee"] {
            output.take(piece.as_bytes(), &mut |l| seen.push(l.to_owned()));
        }
        assert_eq!(seen, ["one\n", "two\n", "\n"]);
        output.end(&mut |l| seen.push(l.to_owned()));
        assert_eq!(seen.last().unwrap(), "three");
    }

    #[test]
    fn a_line_without_end_is_passed_over() {
        let mut output = Output::default();
        let mut seen = Vec::new();
        for _ in 0..20 {
            output.take(&vec![b'x'; 64 << 10], &mut |l| seen.push(l.to_owned()));
        }
        output.take(b"tail\nshort\n", &mut |l| seen.push(l.to_owned()));
        assert_eq!(seen, ["short\n"]);
    }

    #[test]
    fn output_that_nobody_reads_is_bounded() {
        let (tell, happenings) = channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let tee = tee(tell, Arc::clone(&waiting));
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            tee.hand(&piece);
        }
        let arrived = happenings.try_iter().count();
        assert!((16..=17).contains(&arrived), "{arrived}");
        assert_eq!(waiting.load(Ordering::SeqCst), arrived << 20);
    }
}
