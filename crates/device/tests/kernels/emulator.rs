//! Runs the kernels' element logic on the CPU, through a C++ compiler.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Blocks that a comparison is emulated with: `THREADS` in `emulate.cpp`.
pub(crate) const BLOCKS: usize = 7;

/// Buffers and calls of one run.
#[derive(Default)]
pub(crate) struct Job {
    buffers: Vec<Vec<u8>>,
    calls: Vec<(u64, Vec<u64>)>,
}

impl Job {
    /// Adds a buffer; its address.
    pub(crate) fn buffer(&mut self, bytes: Vec<u8>) -> u64 {
        self.buffers.push(bytes);
        (self.buffers.len() as u64) << 48
    }
    pub(crate) fn words(&mut self, words: &[u64]) -> u64 {
        self.buffer(words.iter().flat_map(|w| w.to_le_bytes()).collect())
    }
    /// The table of normal draws.
    pub(crate) fn table(&mut self) -> u64 {
        let cells: Vec<u64> =
            kernelseek_numerics::normal::table().into_iter().flatten().map(f64::to_bits).collect();
        self.words(&cells)
    }
    pub(crate) fn call(&mut self, number: u64, args: impl IntoIterator<Item = Vec<u64>>) {
        self.calls.push((number, args.into_iter().flatten().collect()));
    }
    /// Runs the calls; the buffers afterwards. `None` where there is no compiler.
    pub(crate) fn run(&self) -> Option<Vec<Vec<u8>>> {
        let program = program()?;
        let mut input: Vec<u64> = vec![self.buffers.len() as u64];
        for buffer in &self.buffers {
            input.push(buffer.len() as u64);
            input.extend(buffer.chunks(8).map(|piece| {
                let mut word = [0; 8];
                word[..piece.len()].copy_from_slice(piece);
                u64::from_le_bytes(word)
            }));
        }
        input.push(self.calls.len() as u64);
        for (number, args) in &self.calls {
            input.extend([*number, args.len() as u64]);
            input.extend(args);
        }
        let bytes: Vec<u8> = input.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let mut stdin = child.stdin.take().expect("piped");
        let writer = std::thread::spawn(move || stdin.write_all(&bytes));
        let output = child.wait_with_output().expect("ends");
        writer.join().expect("joins").expect("takes its input");
        assert!(output.status.success(), "{}", output.status);
        let mut rest = output.stdout.as_slice();
        let buffers = self.buffers.iter().map(|b| {
            let (content, behind) = rest.split_at(b.len().next_multiple_of(8));
            rest = behind;
            content[..b.len()].to_vec()
        });
        Some(buffers.collect())
    }
}

pub(crate) fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect()
}

/// The emulation, compiled once.
fn program() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            let here = env!("CARGO_MANIFEST_DIR");
            let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
            let target = folder.join(format!("emulate-{}", std::process::id()));
            let compiled = ["c++", "g++", "clang++"].into_iter().find_map(|compiler| {
                Command::new(compiler)
                    .args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"])
                    .args(["-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv"])
                    .arg(format!("-I{here}/src/cuda/kernels"))
                    .arg(format!("{here}/tests/kernels/emulate.cpp"))
                    .arg("-o")
                    .arg(&target)
                    .status()
                    .ok()
            });
            match compiled {
                None => {
                    println!("skipped: no C++ compiler (c++, g++, clang++) on PATH");
                    None
                }
                Some(status) => {
                    assert!(status.success(), "the kernels do not compile as C++");
                    // Every process of the tests makes the same program; whoever is last leaves it there.
                    let program = folder.join("emulate");
                    std::fs::rename(&target, &program).expect("renames");
                    Some(program)
                }
            }
        })
        .as_ref()
}
