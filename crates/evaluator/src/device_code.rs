//! What the compiler remarked about a candidate's GPU kernels, as findings. None of them fails a candidate: slow is no
//! fault, but whoever wants it faster should know.

use kernelseek_core::finding::{Finding, Severity};
use kernelseek_toolchain::Build;
use kernelseek_toolchain::cuda::resources::{Concern, KernelResources, Remark};

/// Kernels that one finding lists at most.
const LISTED: usize = 8;

/// Findings about lost performance, in a fixed order.
#[must_use]
pub fn findings(build: &Build) -> Vec<Finding> {
    let about = |concern| build.remarks.iter().filter(move |r| r.concern == concern);
    let mut out = Vec::new();
    out.extend(
        remarked(
            "built.wgmma-serialized",
            "matrix instructions that should overlap run one after the other",
            about(Concern::WgmmaSerialized),
        )
        .map(|f| {
            f.with_next("keep accumulators in registers of their own from the fence to the wait, without calls or branches between")
        }),
    );
    out.extend(
        remarked("built.setmaxnreg-ignored", "`setmaxnreg` has no effect", about(Concern::SetmaxnregIgnored))
            .map(|f| {
                f.with_next(
                    "state the block size with __launch_bounds__ and call no function that is not inlined",
                )
            }),
    );
    out.extend(spills(&build.kernels));
    out
}

fn remarked<'a>(defence: &str, what: &str, remarks: impl Iterator<Item = &'a Remark>) -> Option<Finding> {
    let lines: Vec<String> = remarks
        .map(|r| {
            let function = r.function.as_deref().map(|f| format!("{f}: ")).unwrap_or_default();
            let code = r.code.as_deref().map(|c| format!(" ({c})")).unwrap_or_default();
            format!("{function}{}{code}", r.cause)
        })
        .collect();
    (!lines.is_empty()).then(|| listed(Finding::new(defence, Severity::Warning, what), lines))
}

fn spills(kernels: &[KernelResources]) -> Option<Finding> {
    let mut spilling: Vec<&KernelResources> =
        kernels.iter().filter(|k| k.spill_stores > 0 || k.spill_loads > 0).collect();
    spilling.sort_by_key(|k| std::cmp::Reverse(u64::from(k.spill_stores) + u64::from(k.spill_loads)));
    let worst = spilling.first()?;
    let message = match spilling.len() {
        1 => format!("`{}` spills registers to local memory", short(&worst.readable)),
        n => format!("{n} kernels spill registers to local memory, `{}` most", short(&worst.readable)),
    };
    let lines = spilling.iter().map(|k| {
        let registers = k.registers.map(|r| format!(", {r} registers")).unwrap_or_default();
        let arch = if k.arch.is_empty() { String::new() } else { format!(" for {}", k.arch) };
        let (stores, loads) = (k.spill_stores, k.spill_loads);
        format!("{}{arch}: {stores} bytes stored, {loads} loaded{registers}", k.readable)
    });
    Some(listed(Finding::new("built.spills", Severity::Warning, message), lines.collect()).with_next(
        "keep fewer values alive at once, or allow more registers (__launch_bounds__, -maxrregcount)",
    ))
}

/// A function's name without its parameters.
fn short(readable: &str) -> &str {
    let end = readable
        .char_indices()
        .find(|&(i, c)| c == '(' && !readable[i..].starts_with("(anonymous"))
        .map(|(i, _)| i);
    let name = &readable[..end.unwrap_or(readable.len())];
    name.strip_prefix("void ").unwrap_or(name)
}

fn listed(mut finding: Finding, lines: Vec<String>) -> Finding {
    let more = lines.len().saturating_sub(LISTED);
    finding.evidence.extend(lines.into_iter().take(LISTED));
    if more > 0 {
        finding.evidence.push(format!("and {more} more"));
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(readable: &str, stores: u32) -> KernelResources {
        KernelResources {
            readable: readable.into(),
            arch: "sm_90a".into(),
            entry: true,
            registers: Some(32),
            spill_stores: stores,
            spill_loads: stores,
            ..KernelResources::default()
        }
    }

    #[test]
    fn names() {
        for (readable, name) in [
            ("scale(float*)", "scale"),
            (
                "void (anonymous namespace)::scale<128>(float const*, int)",
                "(anonymous namespace)::scale<128>",
            ),
            ("plain", "plain"),
        ] {
            assert_eq!(short(readable), name);
        }
    }

    #[test]
    fn the_worst_spill_leads() {
        assert_eq!(spills(&[kernel("a(int)", 0)]), None);
        let finding = spills(&[kernel("a(int)", 8), kernel("b(int)", 0), kernel("c(int)", 560)]).unwrap();
        assert_eq!(finding.message, "2 kernels spill registers to local memory, `c` most");
        assert_eq!(finding.evidence[0], "c(int) for sm_90a: 560 bytes stored, 560 loaded, 32 registers");
        assert_eq!((finding.severity, finding.evidence.len()), (Severity::Warning, 2));
        let many: Vec<_> = (1..=20).map(|n| kernel("k(int)", n)).collect();
        assert_eq!(spills(&many).unwrap().evidence.last().unwrap(), "and 12 more");
    }

    #[test]
    fn remarks_are_told_with_their_cause() {
        let remark = Remark {
            concern: Concern::WgmmaSerialized,
            code: Some("C7511".into()),
            cause: "insufficient register resources".into(),
            function: Some("f(int)".into()),
        };
        let finding = remarked("built.wgmma-serialized", "x", [&remark].into_iter()).unwrap();
        assert_eq!(finding.evidence, ["f(int): insufficient register resources (C7511)"]);
        assert_eq!(remarked("x.y", "x", std::iter::empty()), None);
    }
}
