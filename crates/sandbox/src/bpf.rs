//! Compiles a list of rules into the program of the classic packet-filter machine that seccomp runs.
//!
//! Pure: rules in, instructions out; the tests interpret the result.

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// It runs.
    Allow,
    /// It fails with `EPERM` or `EACCES` and the attempt is recorded.
    Deny,
    /// It fails with this error and nothing is recorded: for calls that a C library tries first and
    /// replaces by an older one.
    Fail(u16),
    /// The supervisor looks at the path and decides; without a supervisor the call runs.
    Judge,
}

/// Which half of a 64-bit argument a test reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// Bits 0..32: all there is of an `int` argument.
    Low,
    /// Bits 32..64.
    High,
}

/// Holds when `argument & mask == equals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Test {
    /// 0..6.
    pub(crate) argument: u8,
    pub(crate) half: Half,
    pub(crate) mask: u32,
    pub(crate) equals: u32,
}

/// An action taken when all its tests hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arm {
    pub(crate) tests: Vec<Test>,
    pub(crate) action: Action,
}

/// What happens to one call: the first arm that holds, else `otherwise`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) number: u32,
    pub(crate) arms: Vec<Arm>,
    pub(crate) otherwise: Action,
}

/// A whole filter: rules in order of how often they are expected, and the action for all other calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) rules: Vec<Rule>,
    pub(crate) otherwise: Action,
}

/// Who answers denied calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answering {
    /// A supervisor, through a listener.
    Supervisor,
    /// The kernel: denied calls fail with `EPERM`, unrecorded.
    Kernel,
}

/// One instruction: the layout of `struct sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) operand: u32,
}

#[cfg(target_arch = "x86_64")]
pub(crate) const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
pub(crate) const ARCHITECTURE: u32 = 0xC000_00B7;

pub(crate) const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
pub(crate) const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
pub(crate) const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
pub(crate) const JUMP_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
pub(crate) const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

// Offsets into `struct seccomp_data`; both supported architectures are little-endian.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

fn argument_at(test: &Test) -> u32 {
    let half = match test.half {
        Half::Low => 0,
        Half::High => 4,
    };
    ARGUMENTS_AT + 8 * u32::from(test.argument) + half
}

fn result(action: Action, answering: Answering) -> u32 {
    let errno = |number: u32| libc::SECCOMP_RET_ERRNO | (number & libc::SECCOMP_RET_DATA);
    match (action, answering) {
        (Action::Allow, _) | (Action::Judge, Answering::Kernel) => libc::SECCOMP_RET_ALLOW,
        (Action::Fail(number), _) => errno(number.into()),
        (Action::Deny | Action::Judge, Answering::Supervisor) => libc::SECCOMP_RET_USER_NOTIF,
        (Action::Deny, Answering::Kernel) => errno(libc::EPERM.unsigned_abs()),
    }
}

fn plain(code: u16, operand: u32) -> Instruction {
    Instruction { code, jump_true: 0, jump_false: 0, operand }
}

/// `if A == operand` go on, else skip `skip` instructions.
fn unless_equal(operand: u32, skip: usize) -> Option<Instruction> {
    Some(Instruction { code: JUMP_EQUAL, jump_true: 0, jump_false: u8::try_from(skip).ok()?, operand })
}

fn block(rule: &Rule, answering: Answering) -> Option<Vec<Instruction>> {
    let mut code = Vec::new();
    for arm in &rule.arms {
        // Three instructions a test and one for the answer: a failed test skips the rest of its arm.
        let length = 3 * arm.tests.len() + 1;
        for (index, test) in arm.tests.iter().enumerate() {
            code.push(plain(LOAD, argument_at(test)));
            code.push(plain(AND, test.mask));
            code.push(unless_equal(test.equals, length - 3 * (index + 1))?);
        }
        code.push(plain(RETURN, result(arm.action, answering)));
    }
    code.push(plain(RETURN, result(rule.otherwise, answering)));
    Some(code)
}

/// The program of a policy; `None` if a rule has more arms than a jump can span.
///
/// Calls made under another architecture's interface kill the process: their numbers mean other calls.
pub(crate) fn compile(policy: &Policy, answering: Answering) -> Option<Vec<Instruction>> {
    let mut code = vec![
        plain(LOAD, ARCHITECTURE_AT),
        Instruction { code: JUMP_EQUAL, jump_true: 1, jump_false: 0, operand: ARCHITECTURE },
        plain(RETURN, libc::SECCOMP_RET_KILL_PROCESS),
        plain(LOAD, NUMBER_AT),
    ];
    if cfg!(target_arch = "x86_64") {
        code.push(Instruction {
            code: JUMP_AT_LEAST,
            jump_true: 0,
            jump_false: 1,
            operand: crate::syscalls::X32_FIRST,
        });
        code.push(plain(RETURN, result(Action::Deny, answering)));
    }
    for rule in &policy.rules {
        let block = block(rule, answering)?;
        code.push(unless_equal(rule.number, block.len())?);
        code.extend(block);
    }
    code.push(plain(RETURN, result(policy.otherwise, answering)));
    Some(code)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A call as the kernel shows it to a filter.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Call {
        pub(crate) number: u32,
        pub(crate) architecture: u32,
        pub(crate) arguments: [u64; 6],
    }

    impl Call {
        pub(crate) fn new(number: u32, arguments: [u64; 6]) -> Self {
            Self { number, architecture: ARCHITECTURE, arguments }
        }

        fn load(&self, offset: u32) -> u32 {
            match offset {
                NUMBER_AT => self.number,
                ARCHITECTURE_AT => self.architecture,
                at if at >= ARGUMENTS_AT => {
                    let word = (at - ARGUMENTS_AT) / 4;
                    (self.arguments[(word / 2) as usize] >> (32 * (word % 2))) as u32
                }
                at => panic!("load from {at}"),
            }
        }
    }

    /// Runs a program the way the kernel does.
    pub(crate) fn interpret(code: &[Instruction], call: &Call) -> u32 {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let now = code[at];
            at += 1;
            match now.code {
                LOAD => accumulator = call.load(now.operand),
                AND => accumulator &= now.operand,
                JUMP_EQUAL | JUMP_AT_LEAST => {
                    let holds = if now.code == JUMP_EQUAL {
                        accumulator == now.operand
                    } else {
                        accumulator >= now.operand
                    };
                    at += usize::from(if holds { now.jump_true } else { now.jump_false });
                }
                RETURN => return now.operand,
                other => panic!("instruction {other}"),
            }
        }
    }

    fn expected(policy: &Policy, call: &Call) -> Action {
        let Some(rule) = policy.rules.iter().find(|rule| rule.number == call.number) else {
            return policy.otherwise;
        };
        let holds = |test: &Test| {
            let value = call.arguments[usize::from(test.argument)];
            let half = if test.half == Half::Low { value as u32 } else { (value >> 32) as u32 };
            half & test.mask == test.equals
        };
        rule.arms.iter().find(|arm| arm.tests.iter().all(holds)).map_or(rule.otherwise, |arm| arm.action)
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            Just(Action::Allow),
            Just(Action::Deny),
            Just(Action::Judge),
            (1_u16..100).prop_map(Action::Fail)
        ]
    }

    prop_compose! {
        fn test()(argument in 0_u8..6, high: bool, mask in 0_u32..8, equals in 0_u32..4) -> Test {
            Test { argument, half: if high { Half::High } else { Half::Low }, mask, equals }
        }
    }

    prop_compose! {
        fn rule()(number in 0_u32..12,
                  arms in prop::collection::vec((prop::collection::vec(test(), 0..4), action()), 0..4),
                  otherwise in action()) -> Rule {
            let arms = arms.into_iter().map(|(tests, action)| Arm { tests, action }).collect();
            Rule { number, arms, otherwise }
        }
    }

    proptest! {
        #[test]
        fn the_program_does_what_the_rules_say(
            rules in prop::collection::vec(rule(), 0..8),
            otherwise in action(),
            number in 0_u32..14,
            arguments: [u8; 12],
        ) {
            let policy = Policy { rules, otherwise };
            let arguments = std::array::from_fn(|i| {
                u64::from(arguments[2 * i] % 8) | (u64::from(arguments[2 * i + 1] % 4) << 32)
            });
            let call = Call::new(number, arguments);
            for answering in [Answering::Supervisor, Answering::Kernel] {
                let code = compile(&policy, answering).unwrap();
                prop_assert_eq!(interpret(&code, &call), result(expected(&policy, &call), answering));
            }
        }
    }

    #[test]
    fn foreign_interfaces_are_refused() {
        let policy = Policy { rules: Vec::new(), otherwise: Action::Allow };
        let code = compile(&policy, Answering::Supervisor).unwrap();
        let mut call = Call::new(1, [0; 6]);
        assert_eq!(interpret(&code, &call), libc::SECCOMP_RET_ALLOW);
        if cfg!(target_arch = "x86_64") {
            call.number = 0x4000_0001;
            assert_eq!(interpret(&code, &call), libc::SECCOMP_RET_USER_NOTIF);
        }
        call.architecture = 0x4000_0003;
        assert_eq!(interpret(&code, &call), libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn an_instruction_has_the_kernel_layout() {
        assert_eq!(size_of::<Instruction>(), size_of::<libc::sock_filter>());
    }
}
