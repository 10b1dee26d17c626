//! The supervisor's side of the socket. Every connection opens the campaign for itself: there is no state that one
//! could spoil for another, and the ledger orders what they write.

use crate::attempt::Request;
use crate::error::SupervisorError;
use crate::files;
use crate::protocol::{Ask, AskKind, Refusal, Reply, Say, VERSION, receive, send};
use crate::site::Site;
use crate::supervised::{Campaign, Openness, now_ms};
use kernelseek_evaluator::event::Event;
use kernelseek_evaluator::settings::Settings;
use kernelseek_ledger::entry::{Answered, Hypothesis, Led};
use kernelseek_ledger::{Batch, Busy, Entry, EvaluationLock};
use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections served at once; more are refused.
const MOST: usize = 32;
/// How long a connection may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// Refusals of one run that are written down; more are only counted against whoever asks.
const REFUSALS: usize = 100;
/// Longest refusal in characters.
const LONGEST_WHY: usize = 300;
/// How often a request that waits for another looks again.
const LOOK: Duration = Duration::from_millis(50);
/// Longest that a request may wait for an evaluation of somebody else, in seconds.
const LONGEST_WAIT_S: u64 = 3600;
/// Longest path that a socket's address holds on Linux, with room for the end.
const LONGEST_PATH: usize = 100;

/// What happens on the socket, for whoever watches.
#[derive(Debug)]
pub(crate) enum Happening {
    /// The agent printed.
    Output(Vec<u8>),
    /// Something was asked.
    Asked(&'static str),
    /// A step of an evaluation.
    Event(Event),
    /// An attempt has a verdict.
    Attempt(Box<crate::attempt::Attempt>),
    /// A hypothesis was stated.
    Stated(Box<Hypothesis>),
    /// A question was answered.
    Answered(Box<Answered>),
    /// A question was asked outside an evaluation.
    Question(Box<crate::asking::Question>),
    /// A stop was decided.
    Stop(Box<crate::stop::Stop>),
    /// A request was refused.
    Refused(String),
}

/// A path under which a socket can be reached, however long its own is, and the folder that keeps it valid.
pub(crate) fn reachable(socket: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if socket.as_os_str().len() < LONGEST_PATH {
        return Ok((socket.to_owned(), None));
    }
    let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no path of a socket"));
    };
    let folder = File::open(folder)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name), Some(folder)))
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    busy: Arc<AtomicUsize>,
}

/// A bound socket: whoever connects waits until somebody serves.
#[derive(Debug)]
pub(crate) struct Listening {
    path: PathBuf,
    listener: UnixListener,
}

impl Listening {
    /// Binds a socket at `path`.
    pub(crate) fn at(path: &Path) -> Result<Self, SupervisorError> {
        let fail = |source| SupervisorError::Socket { path: path.to_owned(), source };
        let (address, _folder) = reachable(path).map_err(fail)?;
        let listener = UnixListener::bind(address).map_err(fail)?;
        Ok(Self { path: path.to_owned(), listener })
    }

    /// Serves in threads of its own.
    pub(crate) fn serve(
        self,
        site: Site,
        state_dir: PathBuf,
        settings: Settings,
        tell: Sender<Happening>,
    ) -> Server {
        let Self { path, listener } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let busy = Arc::new(AtomicUsize::new(0));
        let shared = Arc::new(Shared {
            site,
            state_dir,
            settings,
            stop: Arc::clone(&stop),
            evaluating: Mutex::new(()),
            refusals: AtomicUsize::new(0),
        });
        let (stopping, count) = (Arc::clone(&stop), Arc::clone(&busy));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                if count.fetch_add(1, Ordering::SeqCst) >= MOST {
                    count.fetch_sub(1, Ordering::SeqCst);
                    refuse(stream, "too many requests at once");
                    continue;
                }
                let (shared, tell, count) = (Arc::clone(&shared), tell.clone(), Arc::clone(&count));
                std::thread::spawn(move || {
                    shared.serve(stream, &tell);
                    count.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Server { path, stop, thread: Some(thread), busy }
    }
}

impl Server {
    /// Takes no further request, and waits until those that are served have ended.
    pub(crate) fn end(self) {
        self.close(true);
    }

    /// Takes no further request, and leaves those that are served to the end of this process: what they have begun is
    /// given up in the ledger when it is opened for the next evaluation.
    pub(crate) fn abandon(self) {
        self.close(false);
    }

    fn close(mut self, wait: bool) {
        self.stop.store(true, Ordering::SeqCst);
        if let Ok((path, _folder)) = reachable(&self.path) {
            // Wakes the listener.
            let _ = UnixStream::connect(path);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        while wait && self.busy.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn refuse(mut stream: UnixStream, why: &str) {
    let refusal = Refusal { message: why.to_owned(), hint: None };
    // Whoever asked may be gone.
    let _ = send(&mut stream, &Say::Error(refusal));
}

struct Shared {
    site: Site,
    state_dir: PathBuf,
    settings: Settings,
    /// The agent has left.
    stop: Arc<AtomicBool>,
    /// One evaluation at a time, so that those that wait can be told to stop waiting.
    evaluating: Mutex<()>,
    refusals: AtomicUsize,
}

impl Shared {
    fn serve(&self, stream: UnixStream, tell: &Sender<Happening>) {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let Ok(reading) = stream.try_clone() else { return };
        let ask = match receive::<Ask>(&mut BufReader::new(reading)) {
            Ok(Some(ask)) if ask.version == VERSION => ask.ask,
            Ok(Some(ask)) => {
                let why = format!(
                    "protocol version {} is not known; this supervisor speaks {VERSION}",
                    ask.version
                );
                return self.refused(stream, "a request", &why, tell);
            }
            Ok(None) => return,
            Err(error) => return self.refused(stream, "a request", &format!("no request: {error}"), tell),
        };
        let _ = tell.send(Happening::Asked(ask.name()));
        let mut out = stream;
        let say = match self.answer(ask, &mut out, tell) {
            Ok(reply) => Say::Done(Box::new(reply)),
            Err(error) => Say::Error(Refusal::from(&error)),
        };
        let _ = send(&mut out, &say);
    }

    fn refused(&self, stream: UnixStream, request: &str, why: &str, tell: &Sender<Happening>) {
        let why = &files::plain(why, LONGEST_WHY);
        if self.refusals.fetch_add(1, Ordering::SeqCst) >= REFUSALS {
            return refuse(stream, why);
        }
        let entry = Led::Refused { request: request.to_owned(), why: why.to_owned() };
        if let Ok(mut campaign) = Campaign::open(&self.site, &self.state_dir, Openness::Writing) {
            let _ = campaign.append(Batch::of(Entry::Led(entry)), now_ms());
        }
        let _ = tell.send(Happening::Refused(why.to_owned()));
        refuse(stream, why);
    }

    /// Waits until no other request of this agent is being evaluated.
    fn turn(&self, request: &Request, out: &mut UnixStream) -> Result<MutexGuard<'_, ()>, SupervisorError> {
        let start = Instant::now();
        let mut told = false;
        loop {
            match self.evaluating.try_lock() {
                Ok(turn) => return Ok(turn),
                // What another request's end left is not shared.
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            if self.stop.load(Ordering::SeqCst) {
                return Err(SupervisorError::Refused("the agent has left".to_owned()));
            }
            if let Some(busy) = EvaluationLock::holder(&self.state_dir) {
                if start.elapsed() >= Duration::from_secs(request.patience_s) {
                    let seconds = (now_ms() - busy.since_ms).max(0) / 1000;
                    return Err(SupervisorError::Busy { busy, seconds });
                }
                if !told {
                    let _ = send(out, &Say::Waiting(busy));
                    told = true;
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    fn answer(
        &self,
        ask: AskKind,
        out: &mut UnixStream,
        tell: &Sender<Happening>,
    ) -> Result<Reply, SupervisorError> {
        // The campaign file is read anew: the seal decides whether it may have changed.
        let site = Site::read(&self.site.folder)?;
        let mut campaign = Campaign::open(&site, &self.state_dir, Openness::Writing)?;
        match ask {
            AskKind::Evaluate(mut request) => {
                request.patience_s = request.patience_s.min(LONGEST_WAIT_S);
                let _turn = self.turn(&request, out)?;
                let mut waiting_out = out.try_clone().ok();
                let mut sink = |event: &Event| {
                    let _ = send(out, &Say::Event(event.clone()));
                    let _ = tell.send(Happening::Event(event.clone()));
                };
                let mut waiting = |busy: &Busy| {
                    if let Some(out) = &mut waiting_out {
                        let _ = send(out, &Say::Waiting(busy.clone()));
                    }
                };
                let attempt = campaign.attempt(&request, &self.settings, true, &mut sink, &mut waiting)?;
                let _ = tell.send(Happening::Attempt(Box::new(attempt.clone())));
                Ok(Reply::Attempt(Box::new(attempt)))
            }
            AskKind::Hypothesis { text, layer, expect } => {
                let row = campaign.state(&text, layer, expect)?;
                let _ = tell.send(Happening::Stated(Box::new(Hypothesis { text, layer, expect })));
                Ok(Reply::Row(row))
            }
            AskKind::Answer { question, text, artefact } => {
                let answered = campaign.answer(question, &text, artefact)?;
                let _ = tell.send(Happening::Answered(Box::new(answered.clone())));
                Ok(Reply::Answered(answered))
            }
            AskKind::Stop { words } => {
                let stop = campaign.stop(&words)?;
                let _ = tell.send(Happening::Stop(Box::new(stop.clone())));
                Ok(Reply::Stop(Box::new(stop)))
            }
            AskKind::Open => {
                let open = campaign.question_now()?;
                if let Some(question) = &open {
                    let _ = tell.send(Happening::Question(Box::new(question.clone())));
                }
                Ok(Reply::Open(open))
            }
        }
    }
}
