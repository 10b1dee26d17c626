//! What an agent must be able to do.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use crate::attempts::{Attempt, Unfenced, ask, c, check, fifo, in_child};

pub(crate) const ORDINARY: &[Attempt] = &[
    ("workspace", Unfenced::Anybody, |w| fs::write(w.work("kernel.c"), "int main(void) { return 0; }")),
    ("temporary", Unfenced::Anybody, |w| fs::write(w.temporary("notes"), "notes")),
    ("rename_across", Unfenced::Anybody, |w| fs::rename(w.temporary("notes"), w.work("notes"))),
    ("link_and_remove", Unfenced::Anybody, |w| {
        fs::hard_link(w.work("notes"), w.work("again"))?;
        fs::remove_file(w.work("notes"))?;
        fs::create_dir(w.work("deep"))?;
        fs::rename(w.work("again"), w.work("deep/again"))?;
        fs::remove_dir_all(w.work("deep"))
    }),
    ("fifo", Unfenced::Anybody, |w| fifo(&w.work("fifo"))),
    ("shorten", Unfenced::Anybody, |w| {
        fs::write(w.work("long"), "long")?;
        File::options().write(true).open(w.work("long"))?.set_len(1)
    }),
    ("compile", Unfenced::Anybody, |w| {
        if !std::path::Path::new("/usr/bin/cc").exists() {
            return Ok(());
        }
        run(Command::new("cc").arg("-pipe").arg(w.work("kernel.c")).arg("-o").arg(w.work("kernel")))?;
        run(&mut Command::new(w.work("kernel")))
    }),
    ("shell", Unfenced::Anybody, |_| {
        run(Command::new("sh").args(["-c", "echo one | grep one > /dev/null && kill -0 $$ && ulimit -n 64"]))
    }),
    ("ask_supervisor", Unfenced::Anybody, ask),
    ("network", Unfenced::Anybody, |w| TcpStream::connect(("127.0.0.1", w.port)).map(drop)),
    ("read_anything", Unfenced::Anybody, |w| {
        fs::read("/etc/passwd")?;
        fs::read_dir(w.state())?;
        fs::read("/proc/self/environ").map(drop)
    }),
    ("null", Unfenced::Anybody, |_| fs::write("/dev/null", "x")),
    ("shared_memory", Unfenced::Anybody, |_| {
        let name = format!("/dev/shm/kernelseek-test-{}", std::process::id());
        fs::write(&name, "x")?;
        fs::remove_file(name)
    }),
    ("terminals", Unfenced::Anybody, |_| {
        let master = File::options().read(true).write(true).open("/dev/ptmx")?;
        let (mut number, mut unlocked) = (0_i32, 0_i32);
        check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw mut unlocked) })?;
        check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &raw mut number) })?;
        // Without the flag it would become the controlling terminal, and hang up with the master.
        let mut slave = File::options();
        slave.read(true).write(true).custom_flags(libc::O_NOCTTY);
        slave.open(format!("/dev/pts/{number}"))?.write_all(b"x")
    }),
    ("trace_child", Unfenced::Anybody, |_| {
        let mut child = Command::new("sleep").arg("60").spawn()?;
        let none = std::ptr::null_mut::<libc::c_void>();
        let seized = check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, child.id(), none, none) });
        child.kill()?;
        child.wait()?;
        seized
    }),
    ("named_threads", Unfenced::Anybody, |_| {
        let thread = std::thread::Builder::new().name("helper".to_owned()).spawn(|| 7)?;
        assert_eq!(thread.join().unwrap(), 7);
        Ok(())
    }),
    ("pipes", Unfenced::Anybody, |_| {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        child.stdin.take().unwrap().write_all(b"through")?;
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text)?;
        child.wait()?;
        if text == "through" { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }),
    // The ledger, the keeper's pipes and whatever else the supervisor holds stay with it.
    ("only_standard_streams", Unfenced::Anybody, |_| {
        // With the one that reads the folder.
        let open = fs::read_dir("/proc/self/fd")?.count();
        if open == 4 { Ok(()) } else { Err(io::Error::from_raw_os_error(1000 + open as i32)) }
    }),
    ("dumpable", Unfenced::Anybody, |_| {
        let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE, 0, 0, 0, 0) };
        if dumpable == 1 { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }),
    // Agents have sandboxes of their own.
    ("own_fence", Unfenced::Anybody, |w| {
        let target = w.work("fenced");
        in_child(|| {
            let handled: u64 = 1 << 1;
            let ruleset =
                unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, 8, 0) };
            check(ruleset)?;
            check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
            check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) })?;
            let fd = unsafe { libc::open(c(&target).as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o600) };
            if fd < 0 { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
        })
    }),
];

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr)))
    }
}
