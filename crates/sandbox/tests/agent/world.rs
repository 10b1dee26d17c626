//! What a led campaign consists of, and the processes that play it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kernelseek_sandbox::agent::{AgentSpec, AgentStdio, OutputBounds};

/// More than any case takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a victim holds in its memory.
pub(crate) const SECRET: u64 = 0x6b65_726e_656c_7365;
pub(crate) static WORD: AtomicU64 = AtomicU64::new(SECRET);

/// What an agent is told about the world, as far as it could find out itself.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) root: PathBuf,
    pub(crate) victim: i32,
    pub(crate) descriptor: i32,
    pub(crate) address: usize,
    pub(crate) port: u16,
}

impl World {
    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }
    pub(crate) fn state(&self) -> PathBuf {
        self.at("state")
    }
    pub(crate) fn ledger(&self) -> PathBuf {
        self.at("state/ledger")
    }
    pub(crate) fn socket(&self) -> PathBuf {
        self.at("state/socket")
    }
    pub(crate) fn program(&self) -> PathBuf {
        self.at("bin/kernelseek")
    }
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.at("work").join(name)
    }
    pub(crate) fn temporary(&self, name: &str) -> PathBuf {
        self.at("tmp").join(name)
    }
    pub(crate) fn abstract_name(&self) -> SocketAddr {
        SocketAddr::from_abstract_name(self.root.as_os_str().as_encoded_bytes()).unwrap()
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        vec![
            self.root.to_str().unwrap().to_owned(),
            self.victim.to_string(),
            self.descriptor.to_string(),
            self.address.to_string(),
            self.port.to_string(),
        ]
    }

    pub(crate) fn parse(words: &[String]) -> Self {
        Self {
            root: words[0].clone().into(),
            victim: words[1].parse().unwrap(),
            descriptor: words[2].parse().unwrap(),
            address: words[3].parse().unwrap(),
            port: words[4].parse().unwrap(),
        }
    }
}

/// A world on disk with somebody behind its sockets.
pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) ledger: fs::File,
    port: u16,
}

pub(crate) fn own_binary() -> PathBuf {
    std::env::current_exe().unwrap()
}

impl Stage {
    pub(crate) fn build() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["state", "state/artefacts", "bin", "work", "tmp"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("state/ledger"), "row one\nrow two\n").unwrap();
        fs::write(at("state/problem.toml"), "tolerance = 1").unwrap();
        fs::write(at("state/artefacts/source"), "source").unwrap();
        fs::copy("/bin/true", at("bin/kernelseek")).unwrap();
        let ledger = fs::File::options().read(true).write(true).open(at("state/ledger")).unwrap();
        let listener = UnixListener::bind(at("state/socket")).unwrap();
        let hidden = {
            let name = SocketAddr::from_abstract_name(folder.path().as_os_str().as_encoded_bytes()).unwrap();
            UnixListener::bind_addr(&name).unwrap()
        };
        let network = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = network.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for mut peer in listener.incoming().flatten() {
                let mut question = [0; 4];
                if peer.read_exact(&mut question).is_ok() && question == *b"eval" {
                    let _ = peer.write_all(b"PASS");
                }
            }
        });
        std::thread::spawn(move || hidden.incoming().flatten().for_each(drop));
        std::thread::spawn(move || network.incoming().flatten().for_each(drop));
        Self { folder, ledger, port }
    }

    /// The world as seen by an agent that attacks this very process.
    pub(crate) fn world(&self) -> World {
        World {
            root: self.folder.path().canonicalize().unwrap(),
            victim: std::process::id() as i32,
            descriptor: self.ledger.as_raw_fd(),
            address: &raw const WORD as usize,
            port: self.port,
        }
    }

    /// Everything protected: names, bytes, and which file it is.
    pub(crate) fn protected(&self) -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut pending = vec![self.folder.path().join("state"), self.folder.path().join("bin")];
        while let Some(path) = pending.pop() {
            let about = fs::symlink_metadata(&path).unwrap();
            let mut bytes = Vec::new();
            if about.is_dir() {
                pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if about.is_file() {
                bytes = fs::read(&path).unwrap();
            }
            found.insert(path, (about.ino(), bytes));
        }
        found
    }

    pub(crate) fn spec(&self, role: &str, more: &[&str]) -> AgentSpec {
        let at = |name: &str| self.folder.path().join(name);
        let mut args: Vec<String> = vec![role.to_owned()];
        args.extend(self.world().arguments());
        args.extend(more.iter().map(|word| (*word).to_owned()));
        AgentSpec {
            program: own_binary(),
            args: args.into_iter().map(Into::into).collect(),
            cwd: at("work"),
            env: [
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("TMPDIR".into(), at("tmp").into_os_string()),
            ]
            .into(),
            write: vec![at("work"), at("tmp")],
            protect: vec![at("state"), at("bin/kernelseek")],
            stdio: AgentStdio::Captured(OutputBounds::default()),
            tee: None,
        }
    }
}

/// A process that stands for the supervisor where an attempt may succeed.
pub(crate) struct Victim {
    child: Child,
    pub(crate) world: World,
}

impl Victim {
    pub(crate) fn start(stage: &Stage, shielded: bool) -> Self {
        let mut command = Command::new(own_binary());
        command.args(["role-victim", stage.world().ledger().to_str().unwrap()]);
        command.arg(if shielded { "shielded" } else { "open" });
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (descriptor, address) = line.trim().split_once(' ').unwrap();
        let world = World {
            victim: child.id() as i32,
            descriptor: descriptor.parse().unwrap(),
            address: address.parse().unwrap(),
            ..stage.world()
        };
        Self { child, world }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn victim(words: &[String]) {
    if words[1] == "shielded" {
        kernelseek_sandbox::agent::shield().unwrap();
    }
    let ledger = fs::File::options().read(true).write(true).open(&words[0]).unwrap();
    println!("{} {}", ledger.as_raw_fd(), &raw const WORD as usize);
    // Until whoever started it is gone.
    let _ = std::io::stdin().read(&mut [0]);
    assert!(WORD.load(Ordering::Relaxed) != 0);
}

/// Whether a process with this word among its arguments has not ended.
pub(crate) fn anybody_with(word: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
