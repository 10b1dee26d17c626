//! From a worker's death to a finding that names the tensor, the reason and the next step.

use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::client::{DeviceError, Ending};

/// What a device error of the candidate's worker means. `doing` says what was asked of it.
#[must_use]
pub fn finding(error: &DeviceError, case: Option<&Case>, doing: &str) -> Finding {
    match error {
        DeviceError::Died { ending, fault } => {
            let (defence, message) = match ending {
                Ending::Exited(code) if fault.is_none() => {
                    ("correct.exit", format!("the candidate's process exited with code {code} {doing}"))
                }
                _ => ("correct.crash", format!("the candidate's process was {ending} {doing}")),
            };
            let mut finding = Finding::new(defence, Severity::Fail, message);
            if let Some(fault) = fault {
                finding = finding.with_evidence(match fault.place {
                    Some((slot, storage, offset)) => place(case, slot, storage, offset),
                    None => format!(
                        "{} at address {:#x}",
                        kernelseek_device::client::signal_name(fault.signal),
                        fault.address
                    ),
                });
            }
            finding.with_next("run the same scenario under a debugger or with `-fsanitize=address`")
        }
        DeviceError::Deadline(limit) => Finding::new(
            "correct.deadline",
            Severity::Fail,
            format!("the candidate did not answer within {:.1} s {doing}", limit.as_secs_f64()),
        )
        .with_next(
            "look for a loop that does not end on this shape, or a wait for something that never comes",
        ),
        DeviceError::Flood(bytes) => Finding::new(
            "sandbox.flood",
            Severity::Fail,
            format!("the candidate printed {} MiB {doing} and was killed", bytes >> 20),
        )
        .with_next("a kernel has nothing to print: remove the output"),
        DeviceError::Gpu { doing: while_, code, name, text } => Finding::new(
            "correct.device-error",
            Severity::Fail,
            format!("the GPU reports an error {while_}: {text}"),
        )
        .with_evidence(format!("{name} ({code}), {doing}"))
        .with_next(device_advice(*code)),
        DeviceError::Synchronises => Finding::new(
            "timed.synchronises",
            Severity::Unproven,
            format!("a call waits for the device {doing}, where it must only enqueue"),
        )
        .with_next("enqueue on the call's stream and return, or evaluate with `--column call`"),
        DeviceError::Refused(message) => Finding::new("correct.refused", Severity::Fail, message.clone())
            .with_next("make the library load and map in a process of its own"),
        DeviceError::Unexpected { .. } | DeviceError::Channel(_) => Finding::new(
            "correct.protocol",
            Severity::Fail,
            format!("the candidate's process broke the worker protocol {doing}"),
        )
        .with_evidence(error.to_string())
        .with_next("the candidate must leave the file descriptors it did not open alone"),
        other => Finding::new("harness.device", Severity::Unproven, format!("the harness failed {doing}"))
            .with_evidence(chain(other))
            .with_next("run `kernelseek doctor`"),
    }
}

/// What to do about an error of the CUDA driver.
const fn device_advice(code: u32) -> &'static str {
    match code {
        2 => {
            "ask for less memory: the workspace is for scratch, and the device is shared with the inputs and outputs"
        }
        209 | 218 | 222 => "compile for the architecture of this GPU",
        700 | 716 | 717 | 718 => {
            "run `kernelseek eval --sanitize memcheck` on the scenario: it names the line"
        }
        701 => "use fewer registers or less shared memory for each block, or smaller blocks",
        702 => "look for a loop that does not end on this shape",
        710 => "an `assert` in a kernel does not hold: look at what it says on this shape",
        714 | 715 | 719 => {
            "look for a trap, a stack overflow or a bad instruction: `--sanitize memcheck` names the line"
        }
        900..=908 => "what the call does cannot be part of a graph: enqueue everything on the call's stream",
        _ => "check what every launch returns, and run `kernelseek eval --sanitize memcheck` on the scenario",
    }
}

/// An error with its sources, on one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Describes an address relative to the storage whose region or guard pages it lies in.
fn place(case: Option<&Case>, slot: usize, storage: usize, offset: i64) -> String {
    let name = case.and_then(|c| c.storages.get(storage)).map_or("a buffer", |s| s.name.as_str());
    let bytes = case.and_then(|c| c.storages.get(storage)).map_or(0, |s| s.bytes() as i64);
    if offset < 0 {
        format!("access {} bytes before `{name}` (slot {slot})", -offset)
    } else if offset >= bytes {
        format!("access {} bytes past the end of `{name}` (slot {slot}, {bytes} bytes)", offset - bytes)
    } else {
        format!("access at byte {offset} of `{name}` (slot {slot})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelseek_core::case::Storage;
    use kernelseek_core::dtype::DType;
    use kernelseek_device::control::Fault;

    fn case() -> Case {
        Case {
            id: "s".into(),
            tags: vec![],
            tensors: vec![],
            storages: vec![Storage { name: "out".into(), dtype: DType::F32, elements: 10, misalign: 0 }],
            attributes: vec![],
            flops: None,
            bytes: None,
            tolerance: vec![],
        }
    }

    #[test]
    fn a_crash_names_the_tensor() {
        let died = |offset| DeviceError::Died {
            ending: Ending::Killed(11),
            fault: Some(Fault { signal: 11, address: 0x1000, place: Some((2, 0, offset)) }),
        };
        let text = |offset| finding(&died(offset), Some(&case()), "during a call").evidence.join("");
        assert_eq!(text(48), "access 8 bytes past the end of `out` (slot 2, 40 bytes)");
        assert_eq!(text(-4), "access 4 bytes before `out` (slot 2)");
        assert_eq!(text(4), "access at byte 4 of `out` (slot 2)");
    }

    #[test]
    fn an_exit_is_not_a_crash() {
        let error = DeviceError::Died { ending: Ending::Exited(0), fault: None };
        let f = finding(&error, None, "during a call");
        assert_eq!(f.defence, "correct.exit");
        assert_eq!(f.severity, Severity::Fail);
        assert!(f.message.contains("exited with code 0"), "{}", f.message);
    }
}
