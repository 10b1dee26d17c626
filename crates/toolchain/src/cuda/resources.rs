//! What the assembler of GPU code says about each kernel: `-Xptxas -v`, and its remarks about lost performance.
//!
//! The words are the compiler's about the candidate's code, printed by the compiler. A source can print lines of its own
//! while it is compiled, so nothing here decides a verdict; what a library really holds is read from its bytes.

use std::collections::HashSet;

use kernelseek_inspect::symbol;
use serde::{Deserialize, Serialize};

/// Kernels kept at most; a source that instantiates more is shown cut.
pub const MOST: usize = 4096;

/// What one kernel, or one function that a kernel calls, takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelResources {
    /// The symbol.
    pub name: String,
    /// The symbol as it is written in the source.
    pub readable: String,
    /// `sm_90a`. Empty for a called function where several architectures were compiled: the compiler does not say.
    pub arch: String,
    /// Whether it can be launched; otherwise it is a function that was not put into its callers.
    pub entry: bool,
    /// Registers of a thread; unknown for functions.
    pub registers: Option<u32>,
    /// Bytes of shared memory that are fixed at compile time.
    pub shared_bytes: u32,
    /// Bytes of constant memory, parameters included; the compiler does not say for architectures from 9.0 on.
    pub constant_bytes: u32,
    /// Bytes of local memory that a thread's stack frame takes.
    pub stack_bytes: u32,
    /// Bytes that are stored to local memory because registers ran out.
    pub spill_stores: u32,
    /// Bytes that are loaded from it again.
    pub spill_loads: u32,
    /// Barriers.
    pub barriers: u32,
}

/// What a remark is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Concern {
    /// Asynchronous matrix instructions wait for each other.
    WgmmaSerialized,
    /// A change of the register count has no effect.
    SetmaxnregIgnored,
    /// Another performance loss.
    Loss,
}

/// One remark about lost performance.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Remark {
    /// What it is about.
    pub concern: Concern,
    /// The compiler's own number, `C7510`, if it has one.
    pub code: Option<String>,
    /// The cause, in the compiler's words.
    pub cause: String,
    /// The function as it is written in the source, if the compiler names it.
    pub function: Option<String>,
}

/// Everything that was said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said {
    /// Kernels in the order in which they were compiled.
    pub kernels: Vec<KernelResources>,
    /// Remarks without repeats.
    pub remarks: Vec<Remark>,
    /// Every other line: warnings and errors.
    pub rest: String,
}

/// Takes the compiler's output apart. `arch`: the architecture, if there is but one.
#[must_use]
pub fn parse(text: &str, arch: Option<&str>) -> Said {
    let mut reader = Reader { arch: arch.unwrap_or_default().to_owned(), ..Reader::default() };
    for line in text.lines() {
        if !reader.line(line) {
            reader.said.rest.push_str(line);
            reader.said.rest.push('\n');
        }
    }
    reader.said
}

#[derive(Default)]
struct Reader {
    arch: String,
    said: Said,
    seen: HashSet<Remark>,
    /// Index of the kernel that was announced last.
    kernel: Option<usize>,
    /// Index of whatever the next line of properties is about.
    properties: Option<usize>,
}

impl Reader {
    /// Whether the line was understood.
    fn line(&mut self, line: &str) -> bool {
        let Some(info) =
            line.strip_prefix("ptxas info").map(|l| l.trim_start().trim_start_matches(':').trim())
        else {
            // The second line of a function's properties has no start of its own.
            return self.properties(line.trim());
        };
        if let Some(rest) = info.strip_prefix("Compiling entry function ") {
            let mut quoted = rest.split('\'').skip(1).step_by(2);
            let (Some(name), Some(arch)) = (quoted.next(), quoted.next()) else { return false };
            self.kernel = self.push(name, arch, true);
            return true;
        }
        if let Some(name) = info.strip_prefix("Function properties for ") {
            let name = name.trim_matches('\'');
            let announced = self.kernel.filter(|&k| self.said.kernels[k].name == name);
            self.properties = announced.or_else(|| self.push(name, &self.arch.clone(), false));
            return true;
        }
        if let Some(rest) = info.strip_prefix("Used ") {
            let kernel = self.kernel.and_then(|k| self.said.kernels.get_mut(k));
            return kernel.is_some_and(|kernel| used(kernel, rest));
        }
        if let Some(remark) = remark(info) {
            if self.said.remarks.len() < MOST && self.seen.insert(remark.clone()) {
                self.said.remarks.push(remark);
            }
            return true;
        }
        // Global memory of the whole module, and how long it took.
        info.contains(" bytes gmem") || info.starts_with("Compile time = ") || info.starts_with("(C75")
    }

    fn push(&mut self, name: &str, arch: &str, entry: bool) -> Option<usize> {
        let kernels = &mut self.said.kernels;
        if kernels.len() >= MOST {
            return None;
        }
        kernels.push(KernelResources {
            name: name.to_owned(),
            readable: symbol::demangle(name).unwrap_or_else(|| name.to_owned()),
            arch: arch.to_owned(),
            entry,
            ..KernelResources::default()
        });
        Some(kernels.len() - 1)
    }

    /// `288 bytes stack frame, 560 bytes spill stores, 604 bytes spill loads`.
    fn properties(&mut self, line: &str) -> bool {
        if !line.contains(" bytes stack frame") {
            return false;
        }
        let Some(kernel) = self.properties.take().and_then(|k| self.said.kernels.get_mut(k)) else {
            return false;
        };
        for part in line.split(',') {
            match number(part) {
                Some((n, "bytes stack frame")) => kernel.stack_bytes = n,
                Some((n, "bytes spill stores")) => kernel.spill_stores = n,
                Some((n, "bytes spill loads")) => kernel.spill_loads = n,
                _ => {}
            }
        }
        true
    }
}

/// `32 registers, used 1 barriers, 288 bytes cumulative stack size, 512+16 bytes smem, 372 bytes cmem[0]`.
fn used(kernel: &mut KernelResources, text: &str) -> bool {
    let mut any = false;
    for part in text.split(',') {
        let part = part.trim().trim_start_matches("used ");
        let Some((n, what)) = number(part) else { continue };
        match what {
            "registers" | "register" => {
                kernel.registers = Some(n);
                any = true;
            }
            "barriers" | "barrier" => kernel.barriers = n,
            "bytes smem" => kernel.shared_bytes = n,
            // A kernel's own frame and those of what it calls.
            "bytes cumulative stack size" => kernel.stack_bytes = kernel.stack_bytes.max(n),
            what if what.starts_with("bytes cmem[") => {
                kernel.constant_bytes = kernel.constant_bytes.saturating_add(n);
            }
            _ => {}
        }
    }
    any
}

/// `512+16 bytes smem` → 528, `bytes smem`.
fn number(text: &str) -> Option<(u32, &str)> {
    let (numbers, what) = text.trim().split_once(' ')?;
    let sum = numbers.split('+').try_fold(0u32, |sum, n| sum.checked_add(n.parse().ok()?))?;
    Some((sum, what))
}

/// `(C7511) Potential Performance Loss: … in the function 'NAME'`; the oldest compilers leave the number out.
fn remark(info: &str) -> Option<Remark> {
    let (code, rest) = match info.strip_prefix('(').and_then(|r| r.split_once(") ")) {
        Some((code, rest)) if code.starts_with('C') && code[1..].bytes().all(|b| b.is_ascii_digit()) => {
            (Some(code.to_owned()), rest)
        }
        _ => (None, info),
    };
    let text = rest.strip_prefix("Potential Performance Loss: ")?;
    let (text, function) =
        match text.rsplit_once(" in the function '").or_else(|| text.rsplit_once(" in function '")) {
            Some((text, name)) => {
                let name = name.split('\'').next().unwrap_or_default();
                (text, Some(symbol::demangle(name).unwrap_or_else(|| name.to_owned())))
            }
            None => (text, None),
        };
    let (concern, cause) =
        if let Some(cause) = text.strip_prefix("wgmma.mma_async instructions are serialized") {
            (Concern::WgmmaSerialized, cause.trim_start().trim_start_matches("due to "))
        } else if let Some((_, cause)) = text.split_once("setmaxnreg' ignored") {
            (Concern::SetmaxnregIgnored, cause.trim_start_matches([';', ' ']))
        } else {
            (Concern::Loss, text)
        };
    let cause = cause.trim().trim_end_matches('.').to_owned();
    Some(Remark { concern, code, cause, function })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// nvcc 13.0.88, sm_90a.
    const HOPPER: &str = include_str!("../../tests/ptxas/13.0-sm_90a.txt");
    /// ptxas 12.6.85, sm_80: with constant memory, without compile times.
    const AMPERE: &str = include_str!("../../tests/ptxas/12.6-sm_80.txt");
    /// nvcc 13.0.88 on kernels that lose performance.
    const LOSSES: &str = include_str!("../../tests/ptxas/13.0-losses.txt");

    fn row(k: &KernelResources) -> (&str, &str, Option<u32>, u32, u32, u32, u32, u32, u32) {
        (
            &k.readable,
            &k.arch,
            k.registers,
            k.shared_bytes,
            k.constant_bytes,
            k.stack_bytes,
            k.spill_stores,
            k.spill_loads,
            k.barriers,
        )
    }

    #[test]
    fn resources_of_13_0() {
        let said = parse(HOPPER, Some("sm_90a"));
        let rows: Vec<_> = said.kernels.iter().map(row).collect();
        assert_eq!(rows[0].0, "void (anonymous namespace)::scale<128>(float const*, float*, int)");
        assert_eq!(rows[0].1, "sm_90a");
        assert_eq!((rows[0].2, rows[0].3, rows[0].8), (Some(10), 512, 1));
        assert_eq!(rows[1], ("dyn(float*, int)", "sm_90a", Some(40), 0, 0, 0, 0, 0, 0));
        assert_eq!(
            rows[2],
            ("spilly(float const*, float*, int)", "sm_90a", Some(32), 0, 0, 288, 560, 604, 0)
        );
        assert_eq!((rows.len(), said.rest.as_str()), (3, ""));
        assert!(said.kernels.iter().all(|k| k.entry) && said.remarks.is_empty());
    }

    #[test]
    fn resources_of_12_6() {
        let said = parse(AMPERE, Some("sm_80"));
        let rows: Vec<_> = said.kernels.iter().map(row).collect();
        assert_eq!((rows[0].1, rows[0].2, rows[0].3, rows[0].4), ("sm_80", Some(10), 512, 372));
        assert_eq!(rows[2].4, 372);
        assert_eq!((rows[2].5, rows[2].6, rows[2].7), (288, 560, 604));
        assert_eq!(said.rest, "");
    }

    #[test]
    fn old_forms() {
        let text = "ptxas info    : 0 bytes gmem, 24 bytes cmem[3]\n\
                    ptxas info    : Compiling entry function '_Z1kPf' for 'sm_70'\n\
                    ptxas info    : Function properties for _Z1kPf\n    8 bytes stack frame, 4 bytes spill stores, 2 bytes spill loads\n\
                    ptxas info    : Used 20 registers, 64+16 bytes smem, 356 bytes cmem[0], 8 bytes cmem[2], 1 textures\n\
                    k.cu(3): warning #177-D: variable \"x\" was declared but never referenced\n";
        let said = parse(text, None);
        assert_eq!(row(&said.kernels[0]), ("k(float*)", "sm_70", Some(20), 80, 364, 8, 4, 2, 0));
        assert!(said.rest.starts_with("k.cu(3): warning") && said.rest.lines().count() == 1);
    }

    #[test]
    fn losses_and_called_functions() {
        let said = parse(LOSSES, Some("sm_90a"));
        let remarks: Vec<_> = said
            .remarks
            .iter()
            .map(|r| (r.concern, r.code.as_deref().unwrap(), r.cause.as_str(), r.function.as_deref()))
            .collect();
        assert_eq!(
            remarks,
            [
                (Concern::SetmaxnregIgnored, "C7508", "unable to determine register count at entry", None),
                (
                    Concern::WgmmaSerialized,
                    "C7511",
                    "insufficient register resources for the wgmma pipeline",
                    Some("serial(float*, unsigned long, unsigned long)")
                ),
                (
                    Concern::WgmmaSerialized,
                    "C7520",
                    "program dependence on compiler-inserted WG.AR in divergent path",
                    Some("calls(float*, unsigned long, unsigned long, void (*)(float*))")
                ),
            ]
        );
        let other: Vec<_> = said.kernels.iter().filter(|k| !k.entry).map(|k| k.readable.as_str()).collect();
        assert_eq!(other, ["other(float*)", "other(float*)"]);
        let regs = said.kernels.iter().find(|k| k.readable == "regs2(float*)").unwrap();
        assert_eq!(regs.registers, Some(168));
        assert_eq!(said.rest, "");
    }

    #[test]
    fn what_is_not_understood_stays() {
        for line in
            ["ptxas info    : something new", "ptxas warning : Registers are spilled", "Used 3 registers", ""]
        {
            assert_eq!(parse(&format!("{line}\n"), None).rest, format!("{line}\n"));
        }
    }

    proptest! {
        #[test]
        fn any_text(text in "(ptxas info    : |\n|Compiling entry function |'[a-z]*'|Function properties for |Used |[0-9]{1,12}|,| bytes smem| registers|bytes stack frame|\\(C[0-9]*\\) |Potential Performance Loss: |setmaxnreg' ignored| in function '|ß){0,40}") {
            let said = parse(&text, Some("sm_90a"));
            prop_assert!(said.rest.len() <= text.len() + 1);
        }
        #[test]
        fn any_cut(at in 0usize..6000, with in ".{0,12}") {
            let text = [HOPPER, AMPERE, LOSSES].concat();
            let at = text.floor_char_boundary(at.min(text.len()));
            let _ = parse(&[&text[..at], &with, &text[at..]].concat(), None);
        }
    }
}
