//! The agent's side of the socket.

use crate::error::SupervisorError;
use crate::protocol::{Ask, AskKind, Reply, Say, VERSION, receive, send};
use crate::server::reachable;
use kernelseek_evaluator::event::Sink;
use kernelseek_ledger::Busy;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Asks the supervisor and waits for its answer.
///
/// # Errors
/// When it cannot be reached, or refuses.
pub fn ask(
    socket: &Path,
    ask: AskKind,
    sink: &mut dyn Sink,
    waiting: &mut dyn FnMut(&Busy),
) -> Result<Reply, SupervisorError> {
    let fail = |source| SupervisorError::Socket { path: socket.to_owned(), source };
    let (path, _folder) = reachable(socket).map_err(fail)?;
    let mut stream = UnixStream::connect(path).map_err(fail)?;
    match send(&mut stream, &Ask { version: VERSION, ask }) {
        // A supervisor that refuses says why before it hangs up.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        sent => sent.map_err(fail)?,
    }
    let mut lines = BufReader::new(stream);
    loop {
        match receive::<Say>(&mut lines).map_err(fail)? {
            Some(Say::Event(event)) => sink.on(&event),
            Some(Say::Waiting(busy)) => waiting(&busy),
            Some(Say::Done(reply)) => return Ok(*reply),
            Some(Say::Error(refusal)) => {
                let text = match refusal.hint {
                    Some(hint) => format!("{}\nhint: {hint}", refusal.message),
                    None => refusal.message,
                };
                return Err(SupervisorError::Refused(text));
            }
            None => {
                let gone =
                    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "it ended without an answer");
                return Err(fail(gone));
            }
        }
    }
}
