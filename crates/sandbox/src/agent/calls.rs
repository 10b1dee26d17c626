//! The few system calls that an agent does not get and that no other layer stops.
//!
//! An agent is a person's tool: it compiles, debugs, profiles and talks to its model, so this is no
//! allow-list. Programs of another architecture's interface (32-bit ones) are killed: the numbers of their
//! calls mean other calls, and the same requests would pass unseen.

use crate::bpf::{Action, Arm, Half, Policy, Rule, Test};

/// Types into a terminal as if a person did: the shell that started the supervisor would read it.
const TIOCSTI: u32 = 0x5412;
/// Pastes into a console, to the same end.
const TIOCLINUX: u32 = 0x541C;

fn is(argument: u8, half: Half, equals: u32) -> Test {
    Test { argument, half, mask: u32::MAX, equals }
}

/// The rules of an agent.
pub(crate) fn policy() -> Policy {
    let deny = |request| Arm { tests: vec![is(1, Half::Low, request)], action: Action::Deny };
    let ioctl = Rule {
        number: libc::SYS_ioctl as u32,
        arms: vec![deny(TIOCSTI), deny(TIOCLINUX)],
        otherwise: Action::Allow,
    };
    // One's own limits by pid 0, and questions about anybody's; a limit on the size of files would keep the
    // supervisor from writing, and no other layer stops that.
    let prlimit = Rule {
        number: libc::SYS_prlimit64 as u32,
        arms: vec![
            Arm { tests: vec![is(0, Half::Low, 0)], action: Action::Allow },
            Arm { tests: vec![is(2, Half::Low, 0), is(2, Half::High, 0)], action: Action::Allow },
        ],
        otherwise: Action::Deny,
    };
    Policy { rules: vec![ioctl, prlimit], otherwise: Action::Allow }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::tests::{Call, interpret};
    use crate::seccomp::unsupervised;
    use crate::syscalls::number;

    #[test]
    fn only_these_are_denied() {
        let code = unsupervised(&policy()).unwrap();
        let answer = |name: &str, arguments: [u64; 6]| {
            let answer = interpret(&code, &Call::new(number(name).unwrap(), arguments));
            if answer == libc::SECCOMP_RET_ALLOW {
                true
            } else {
                assert_eq!(answer, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs());
                false
            }
        };
        assert!(!answer("ioctl", [0, 0x5412, 1, 0, 0, 0]));
        // The kernel reads 32 bits of the request.
        assert!(!answer("ioctl", [0, 0x1_0000_5412, 1, 0, 0, 0]));
        assert!(!answer("ioctl", [0, 0x541C, 1, 0, 0, 0]));
        assert!(answer("ioctl", [0, 0x5413, 1, 0, 0, 0]));
        assert!(answer("prlimit64", [0, 7, 0xFFFF, 0, 0, 0]));
        assert!(answer("prlimit64", [42, 7, 0, 0xFFFF, 0, 0]));
        assert!(!answer("prlimit64", [42, 7, 0xFFFF, 0, 0, 0]));
        assert!(!answer("prlimit64", [42, 7, 0xFFFF_0000_0000, 0, 0, 0]));
        for free in ["ptrace", "kill", "openat", "socket", "mount"] {
            assert!(answer(free, [1; 6]), "{free}");
        }
    }
}
