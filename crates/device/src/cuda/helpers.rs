//! The supervisor's helper kernels, one method each: contents, poison, canaries, fingerprints, comparisons, flushes
//! and clocks, all on device memory and in the supervisor's own context.
//!
//! The kernels are PTX text that the driver compiles for whatever GPU is there, which takes it some three seconds at the
//! first start on a machine, and where its cache is not kept at every start; so what was measured on has machine code of the same
//! PTX beside it. Sources: `kernels/`; what decides a bit is written twice, there and in the numerics crate, and tests hold the two
//! against each other.

mod errors;

pub use errors::Comparison;

use super::device::Context;
use super::error::Result;
use super::memory::{self, Address, DeviceMemory};
use super::module::{Args, Kernel, Module};
use super::stream::Stream;
use kernelseek_core::dtype::DType;
use kernelseek_numerics::content::counter::{MutationStep, Placement, Quantised, Step, What};
use kernelseek_numerics::fingerprint::{Sums, finish_unordered};
use kernelseek_numerics::metrics::Mismatch;
use kernelseek_numerics::normal;
use std::cell::RefCell;

const PTX: &str = include_str!("kernels/kernels.ptx");
/// The same PTX compiled, by the compute capability that it runs on.
const CUBINS: &[((u32, u32), &[u8])] = &[((9, 0), include_bytes!("kernels/kernels.sm_90.cubin"))];
/// Threads of a block, as `KS_THREADS` in the sources.
const THREADS: u32 = 256;
/// Blocks a multiprocessor that are enough to keep it busy.
const BLOCKS_EACH: u32 = 8;
/// No element, no byte: `KS_NONE` in the sources.
const NONE: u64 = u64::MAX;

macro_rules! kernels {
    ($($field:ident = $name:literal),* $(,)?) => {
        #[derive(Debug)]
        struct Kernels { $($field: Kernel),* }
        impl Kernels {
            fn of(module: &Module) -> Result<Self> {
                Ok(Self { $($field: module.kernel($name)?),* })
            }
        }
        #[cfg(test)]
        const NAMES: &[&str] = &[$($name),*];
    };
}

kernels! {
    fill = "ks_fill",
    set_view = "ks_set_view",
    set_ranges = "ks_set_ranges",
    amax = "ks_amax",
    scales = "ks_scales",
    quantise = "ks_quantise",
    mutate = "ks_mutate",
    mutate_rest = "ks_mutate_rest",
    gather = "ks_gather_view",
    scatter = "ks_scatter_view",
    poison = "ks_poison_ranges",
    poison_remains = "ks_poison_remains",
    canary = "ks_canary_ranges",
    canary_check = "ks_canary_check_ranges",
    fingerprints = "ks_fingerprints",
    differs = "ks_differs",
    mismatches = "ks_mismatches",
    reference_scale = "ks_reference_scale",
    reference_scale_again = "ks_reference_scale_again",
    error_partials = "ks_error_partials",
    sweep_write = "ks_sweep_write",
    sweep_read = "ks_sweep_read",
    stamp = "ks_stamp",
    spin = "ks_spin",
    fma = "ks_fma",
}

/// Bytes that hold, or shall hold, elements of poison or a canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub address: Address,
    /// How many.
    pub bytes: usize,
    /// What their pattern is drawn from.
    pub seed: u64,
    /// Element type; canaries and fingerprints do not ask for it.
    pub dtype: DType,
}

impl Range {
    /// The structure as the kernels take it: `ks_range`.
    const fn words(&self) -> [u64; 4] {
        [self.address, self.bytes as u64, self.seed, self.dtype as u64]
    }
}

/// Both ends of a stamp kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Cycles of the multiprocessor's clock between the ends.
    pub cycles: u64,
    /// Nanoseconds between the ends.
    pub nanoseconds: u64,
}

impl Stamp {
    /// Bytes that a stamp writes.
    pub const BYTES: usize = 32;

    /// The multiprocessor's clock in kHz; 0 when the stamp was not taken.
    #[must_use]
    pub const fn khz(&self) -> f64 {
        if self.nanoseconds == 0 { 0.0 } else { self.cycles as f64 * 1e6 / self.nanoseconds as f64 }
    }
}

/// The kernels, loaded in one context. They share scratch memory, so everything that one `Helpers` is asked for goes
/// to one stream at a time.
#[derive(Debug)]
pub struct Helpers {
    kernels: Kernels,
    /// The table that normal draws are read from.
    table: DeviceMemory,
    scratch: RefCell<DeviceMemory>,
    multiprocessors: u32,
    /// Last, because it must outlive the kernels.
    _module: Module,
}

impl Helpers {
    /// Loads the kernels into the current context, which must be `context`.
    ///
    /// # Errors
    /// When the driver cannot compile them (older than CUDA 11.4) or has no memory.
    pub fn load(context: &Context) -> Result<Self> {
        let capability = context.identity().capability;
        let ready = CUBINS.iter().find(|(of, _)| *of == capability);
        // A driver older than the compiler takes the PTX still.
        let module = match ready.map(|(_, cubin)| Module::from_cubin(cubin)) {
            Some(Ok(module)) => module,
            Some(Err(_)) | None => Module::from_ptx(PTX)?,
        };
        let kernels = Kernels::of(&module)?;
        let table: Vec<u64> = normal::table().into_iter().flatten().map(f64::to_bits).collect();
        let stream = Stream::new()?;
        let memory = DeviceMemory::new(table.len() * 8)?;
        memory::upload(memory.address(), &bytes_of(&table), &stream)?;
        stream.synchronize()?;
        Ok(Self {
            kernels,
            table: memory,
            scratch: RefCell::new(DeviceMemory::new(1 << 20)?),
            multiprocessors: context.identity().multiprocessors.max(1),
            _module: module,
        })
    }

    /// Blocks for work of this many threads.
    fn blocks(&self, threads: u64) -> u32 {
        let most = self.multiprocessors * BLOCKS_EACH;
        u32::try_from(threads.div_ceil(u64::from(THREADS))).unwrap_or(most).clamp(1, most)
    }

    /// Device memory of at least `bytes`, good until the next call.
    fn scratch(&self, bytes: usize) -> Result<Address> {
        let mut scratch = self.scratch.borrow_mut();
        if scratch.len() < bytes {
            *scratch = DeviceMemory::new(bytes.next_power_of_two())?;
        }
        Ok(scratch.address())
    }

    // ---- contents

    /// Enqueues steps of `counter::steps`. `storages` are the addresses of the case's storages.
    ///
    /// # Errors
    /// What the driver says.
    pub fn fill(&self, steps: &[Step], storages: &[Address], stream: &Stream) -> Result<()> {
        steps.iter().try_for_each(|step| self.fill_step(step, storages, stream))
    }

    fn fill_step(&self, step: &Step, storages: &[Address], stream: &Stream) -> Result<()> {
        let Some(&base) = storages.get(step.storage) else { return Ok(()) };
        let Step { dtype, placement, what, .. } = step;
        let size = dtype.size();
        match what {
            What::Constant(element) => self.set(placement, base, *dtype, *element, stream),
            What::Values(values) => {
                if let Some(at) = placement.dense_at() {
                    return memory::upload(base + (at * size) as u64, values, stream);
                }
                let dense = self.scratch(values.len())?;
                memory::upload(dense, values, stream)?;
                self.scatter(placement, base, *dtype, dense, stream)
            }
            What::Drawn(plan) => {
                let args = Args::new()
                    .words(placement.words(base))
                    .words(plan.words())
                    .u64(self.table.address())
                    .u32(*dtype as u32);
                self.kernels.fill.launch(self.units(placement, size), THREADS, stream, args)
            }
            What::Quantised(quantised) => self.quantise(step, quantised, base, storages, stream),
            What::Ranges { ranges, element } => {
                let words: Vec<u64> = ranges.iter().flat_map(|&(start, length)| [start, length]).collect();
                let pairs = self.scratch(words.len() * 8)?;
                memory::upload(pairs, &bytes_of(&words), stream)?;
                let args = Args::new()
                    .words(placement.words(base))
                    .u64(pairs)
                    .u64(ranges.len() as u64)
                    .u64(*element)
                    .u32(size as u32);
                let blocks = self.blocks(ranges.len() as u64 * u64::from(THREADS));
                self.kernels.set_ranges.launch(blocks, THREADS, stream, args)
            }
        }
    }

    /// Blocks for work on a view in units of 16 bytes.
    fn units(&self, placement: &Placement, size: usize) -> u32 {
        self.blocks((placement.len() as u64).div_ceil(16 / size as u64))
    }

    fn quantise(
        &self,
        step: &Step,
        quantised: &Quantised,
        base: Address,
        storages: &[Address],
        stream: &Stream,
    ) -> Result<()> {
        let Some(&scale_base) = storages.get(quantised.scale_storage) else { return Ok(()) };
        let Quantised { plan, groups, target, scale_dtype, scale_placement, .. } = quantised;
        let table = self.table.address();
        let scales = self.scratch(groups.count() * 8)?;
        memory::set(scales, 0, groups.count() * 8, stream)?;
        let args = Args::new().words(plan.words()).words(groups.words()).u64(table).u64(scales);
        let blocks = self.blocks((plan.len() as u64).div_ceil(32));
        self.kernels.amax.launch(blocks, THREADS, stream, args)?;
        let args = Args::new()
            .words(scale_placement.words(scale_base))
            .u64(scales)
            .f64(*target)
            .u32(*scale_dtype as u32);
        let blocks = self.blocks(scale_placement.len() as u64);
        self.kernels.scales.launch(blocks, THREADS, stream, args)?;
        let args = Args::new()
            .words(step.placement.words(base))
            .words(plan.words())
            .words(groups.words())
            .u64(table)
            .u64(scales)
            .u32(step.dtype as u32);
        let blocks = self.units(&step.placement, step.dtype.size());
        self.kernels.quantise.launch(blocks, THREADS, stream, args)
    }

    /// Enqueues writing the same bits to every element of a view.
    ///
    /// # Errors
    /// What the driver says.
    pub fn set(
        &self,
        placement: &Placement,
        base: Address,
        dtype: DType,
        element: u64,
        stream: &Stream,
    ) -> Result<()> {
        let args = Args::new().words(placement.words(base)).u64(element).u32(dtype.size() as u32);
        self.kernels.set_view.launch(self.units(placement, dtype.size()), THREADS, stream, args)
    }

    /// Enqueues mutations of `counter::mutations`. Their counts go to `changed`, one word each, for whoever wants them.
    ///
    /// # Errors
    /// What the driver says.
    pub fn mutate(
        &self,
        steps: &[MutationStep],
        storages: &[Address],
        changed: Address,
        stream: &Stream,
    ) -> Result<()> {
        memory::set(changed, 0, steps.len() * 8, stream)?;
        for (number, step) in steps.iter().enumerate() {
            let Some(&base) = storages.get(step.storage) else { continue };
            let args = || {
                Args::new()
                    .words(step.placement.words(base))
                    .words(step.plan.words())
                    .words(step.mutation.words())
                    .u64(self.table.address())
                    .u32(step.dtype as u32)
                    .u64(changed + number as u64 * 8)
            };
            self.kernels.mutate.launch(self.blocks(step.placement.len() as u64), THREADS, stream, args())?;
            self.kernels.mutate_rest.launch(1, 32, stream, args())?;
        }
        Ok(())
    }

    /// [`Self::mutate`], waiting for the number of elements that changed in all.
    ///
    /// # Errors
    /// What the driver says.
    pub fn mutate_counted(
        &self,
        steps: &[MutationStep],
        storages: &[Address],
        stream: &Stream,
    ) -> Result<usize> {
        let changed = self.scratch(steps.len() * 8)?;
        self.mutate(steps, storages, changed, stream)?;
        Ok(words_at(changed, steps.len(), stream)?.into_iter().sum::<u64>() as usize)
    }

    /// Enqueues copying the elements of a view to a dense buffer in logical order. `placement` from `Placement::all`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn gather(
        &self,
        placement: &Placement,
        base: Address,
        dtype: DType,
        dense: Address,
        stream: &Stream,
    ) -> Result<()> {
        let args = Args::new().words(placement.words(base)).u64(dense).u32(dtype.size() as u32);
        self.kernels.gather.launch(self.units(placement, dtype.size()), THREADS, stream, args)
    }

    /// Enqueues copying dense elements in logical order to a view. `placement` from `Placement::unique`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn scatter(
        &self,
        placement: &Placement,
        base: Address,
        dtype: DType,
        dense: Address,
        stream: &Stream,
    ) -> Result<()> {
        let args = Args::new().words(placement.words(base)).u64(dense).u32(dtype.size() as u32);
        self.kernels.scatter.launch(self.units(placement, dtype.size()), THREADS, stream, args)
    }

    // ---- ranges

    /// A list of ranges in scratch memory, followed by room for `results` words.
    fn list(&self, ranges: &[Range], results: usize, stream: &Stream) -> Result<(Address, Address)> {
        let words: Vec<u64> = ranges.iter().flat_map(Range::words).collect();
        let list = self.scratch((words.len() + results) * 8)?;
        memory::upload(list, &bytes_of(&words), stream)?;
        Ok((list, list + words.len() as u64 * 8))
    }

    /// Blocks for a list that all blocks walk through.
    fn blocks_of(&self, ranges: &[Range]) -> u32 {
        self.blocks(ranges.iter().map(|r| (r.bytes as u64).div_ceil(16)).max().unwrap_or(1))
    }

    /// Enqueues filling ranges with poison.
    ///
    /// # Errors
    /// What the driver says.
    pub fn poison(&self, ranges: &[Range], stream: &Stream) -> Result<()> {
        let (list, _) = self.list(ranges, 0, stream)?;
        let args = Args::new().u64(list).u64(ranges.len() as u64);
        self.kernels.poison.launch(self.blocks_of(ranges), THREADS, stream, args)
    }

    /// For each range, the elements that still hold its poison.
    ///
    /// # Errors
    /// What the driver says.
    pub fn poison_remains(&self, ranges: &[Range], stream: &Stream) -> Result<Vec<usize>> {
        let (list, left) = self.list(ranges, ranges.len(), stream)?;
        memory::set(left, 0, ranges.len() * 8, stream)?;
        let args = Args::new().u64(list).u64(ranges.len() as u64).u64(left);
        self.kernels.poison_remains.launch(self.blocks_of(ranges), THREADS, stream, args)?;
        Ok(words_at(left, ranges.len(), stream)?.into_iter().map(|n| n as usize).collect())
    }

    /// Enqueues filling redzones.
    ///
    /// # Errors
    /// What the driver says.
    pub fn fill_canaries(&self, ranges: &[Range], stream: &Stream) -> Result<()> {
        let (list, _) = self.list(ranges, 0, stream)?;
        let args = Args::new().u64(list).u64(ranges.len() as u64);
        self.kernels.canary.launch(self.blocks_of(ranges), THREADS, stream, args)
    }

    /// The first redzone, and its first byte, that is not what [`Self::fill_canaries`] wrote. At most 2²⁴ redzones of
    /// 2⁴⁰ bytes.
    ///
    /// # Errors
    /// What the driver says.
    pub fn check_canaries(&self, ranges: &[Range], stream: &Stream) -> Result<Option<(usize, usize)>> {
        let (list, found) = self.list(ranges, 1, stream)?;
        memory::set(found, 0xFF, 8, stream)?;
        let args = Args::new().u64(list).u64(ranges.len() as u64).u64(found);
        let blocks = self.blocks_of(ranges);
        self.kernels.canary_check.launch(blocks, THREADS, stream, args)?;
        let at = words_at(found, 1, stream)?[0];
        Ok((at != NONE).then_some(((at >> 40) as usize, (at & ((1 << 40) - 1)) as usize)))
    }

    /// The fingerprint of each range under a secret key, as `fingerprint_unordered`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn fingerprints(&self, ranges: &[(Address, usize)], key: u64, stream: &Stream) -> Result<Vec<u128>> {
        let list: Vec<Range> = ranges
            .iter()
            .map(|&(address, bytes)| Range { address, bytes, seed: key, dtype: DType::U8 })
            .collect();
        let (at, sums) = self.list(&list, 2 * list.len(), stream)?;
        memory::set(sums, 0, 16 * list.len(), stream)?;
        let args = Args::new().u64(at).u64(list.len() as u64).u64(sums);
        self.kernels.fingerprints.launch(self.blocks_of(&list), THREADS, stream, args)?;
        let sums = words_at(sums, 2 * list.len(), stream)?;
        let sums = sums.as_chunks::<2>().0;
        Ok(list.iter().zip(sums).map(|(r, &s)| finish_unordered(Sums(s), r.bytes as u64, key)).collect())
    }

    /// Elements of `size` bytes of two dense buffers that differ: how many, and the first.
    ///
    /// # Errors
    /// What the driver says.
    pub fn differs(
        &self,
        a: Address,
        b: Address,
        bytes: usize,
        size: usize,
        stream: &Stream,
    ) -> Result<Mismatch> {
        let result = self.scratch(16)?;
        memory::set(result, 0, 8, stream)?;
        memory::set(result + 8, 0xFF, 8, stream)?;
        let args = Args::new().u64(a).u64(b).u64(bytes as u64).u32(size as u32).u64(result);
        self.kernels.differs.launch(self.blocks((bytes as u64).div_ceil(16)), THREADS, stream, args)?;
        let words = words_at(result, 2, stream)?;
        let first = (words[1] != NONE).then_some(words[1] as usize);
        Ok(Mismatch { count: words[0] as usize, first })
    }

    // ---- memory, clocks, peaks

    /// Enqueues a flush: with `write`, every byte of a buffer is written (a pattern of that seed), then every byte is
    /// read once, so that it ends with clean lines. A buffer of twice the second-level cache pushes everything else
    /// out.
    ///
    /// # Errors
    /// What the driver says.
    pub fn flush(&self, address: Address, bytes: usize, write: Option<u64>, stream: &Stream) -> Result<()> {
        let pairs = (bytes / 16) as u64;
        if let Some(seed) = write {
            let args = Args::new().u64(address).u64(pairs).u64(seed);
            self.kernels.sweep_write.launch(self.blocks(pairs), THREADS, stream, args)?;
        }
        self.read(address, bytes, 1, stream)
    }

    /// Enqueues reading a buffer `repeats` times; for flushes and for the bandwidth of the level it lies in.
    ///
    /// # Errors
    /// What the driver says.
    pub fn read(&self, address: Address, bytes: usize, repeats: u32, stream: &Stream) -> Result<()> {
        let pairs = (bytes / 16) as u64;
        let sink = self.scratch(8)?;
        let args = Args::new().u64(address).u64(pairs).u32(repeats).u64(0x9E37_79B9_7F4A_7C15).u64(sink);
        self.kernels.sweep_read.launch(self.blocks(pairs), THREADS, stream, args)
    }

    /// Enqueues a stamp: one thread spins for `cycles` and writes [`Stamp::BYTES`] to `out`.
    ///
    /// # Errors
    /// What the driver says.
    pub fn stamp(&self, cycles: u64, out: Address, stream: &Stream) -> Result<()> {
        self.kernels.stamp.launch(1, 32, stream, Args::new().u64(cycles).u64(out))
    }

    /// Reads a stamp, waiting for it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn read_stamp(&self, out: Address, stream: &Stream) -> Result<Stamp> {
        let w = words_at(out, Stamp::BYTES / 8, stream)?;
        Ok(Stamp { cycles: w[1].wrapping_sub(w[0]), nanoseconds: w[3].wrapping_sub(w[2]) })
    }

    /// Enqueues one thread that spins for `cycles`: what the wall clock measures to find left-over work.
    ///
    /// # Errors
    /// What the driver says.
    pub fn spin(&self, cycles: u64, stream: &Stream) -> Result<()> {
        self.kernels.spin.launch(1, 1, stream, Args::new().u64(cycles))
    }

    /// Enqueues fused multiply-adds on the whole device. Returns their number (two operations each).
    ///
    /// # Errors
    /// What the driver says.
    pub fn fma(&self, rounds: u32, stream: &Stream) -> Result<u64> {
        let blocks = self.multiprocessors * BLOCKS_EACH;
        let sink = self.scratch(8)?;
        let (a, b) = (u64::from(0.999_f32.to_bits()), u64::from(0.001_f32.to_bits()));
        let args = Args::new().u32(rounds).u64(a).u64(b).u64(sink);
        self.kernels.fma.launch(blocks, THREADS, stream, args)?;
        Ok(u64::from(blocks) * u64::from(THREADS) * u64::from(rounds) * 64)
    }
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Words of device memory, waiting for the stream.
fn words_at(address: Address, count: usize, stream: &Stream) -> Result<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    memory::download(&mut bytes, address, stream)?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|b| u64::from_le_bytes(*b)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: usize = 29 * 8;
    const PLAN: usize = 16 * 8;
    const GROUPS: usize = 19 * 8;

    /// Bytes of each parameter, in the order of the arguments above.
    const PARAMETERS: &[(&str, &[usize])] = &[
        ("ks_fill", &[VIEW, PLAN, 8, 4]),
        ("ks_set_view", &[VIEW, 8, 4]),
        ("ks_set_ranges", &[VIEW, 8, 8, 8, 4]),
        ("ks_amax", &[PLAN, GROUPS, 8, 8]),
        ("ks_scales", &[VIEW, 8, 8, 4]),
        ("ks_quantise", &[VIEW, PLAN, GROUPS, 8, 8, 4]),
        ("ks_mutate", &[VIEW, PLAN, 64, 8, 4, 8]),
        ("ks_mutate_rest", &[VIEW, PLAN, 64, 8, 4, 8]),
        ("ks_gather_view", &[VIEW, 8, 4]),
        ("ks_scatter_view", &[VIEW, 8, 4]),
        ("ks_poison_ranges", &[8, 8]),
        ("ks_poison_remains", &[8, 8, 8]),
        ("ks_canary_ranges", &[8, 8]),
        ("ks_canary_check_ranges", &[8, 8, 8]),
        ("ks_fingerprints", &[8, 8, 8]),
        ("ks_differs", &[8, 8, 8, 4, 8]),
        ("ks_mismatches", &[8, 4, 8, 4, 8, 8]),
        ("ks_reference_scale", &[8, 4, 8, 8]),
        ("ks_reference_scale_again", &[8, 4, 8, 8, 8]),
        ("ks_error_partials", &[8, 4, 8, 4, 8, 8, 4, 8, 4]),
        ("ks_sweep_write", &[8, 8, 8]),
        ("ks_sweep_read", &[8, 8, 4, 8, 8]),
        ("ks_stamp", &[8, 8]),
        ("ks_spin", &[8]),
        ("ks_fma", &[4, 4, 4, 8]),
    ];

    #[test]
    fn machine_code_is_for_the_architecture_that_it_is_chosen_for() {
        for ((major, minor), cubin) in CUBINS {
            assert_eq!(&cubin[..4], b"\x7fELF");
            // e_machine of CUDA; the second byte of e_flags is the architecture.
            assert_eq!(u16::from_le_bytes([cubin[18], cubin[19]]), 190);
            assert_eq!(u32::from(cubin[49]), 10 * major + minor, "{:x?}", &cubin[48..52]);
            let has = |name: &str| cubin.windows(name.len()).any(|w| w == name.as_bytes());
            for name in NAMES {
                assert!(has(&format!(".text.{name}\0")), "{name}");
            }
        }
    }

    #[test]
    fn the_ptx_has_every_kernel_and_runs_on_old_drivers() {
        for name in NAMES {
            assert!(PTX.contains(&format!(".visible .entry {name}(")), "{name}");
        }
        assert_eq!(PTX.matches(".visible .entry ").count(), NAMES.len());
        assert!(PTX.contains("\n.version 7.4\n") && PTX.contains("\n.target sm_80\n"));
        for (name, sizes) in PARAMETERS {
            let text = PTX.split(&format!(".visible .entry {name}(")).nth(1).unwrap();
            let text = text.split(')').next().unwrap();
            let found: Vec<usize> = text
                .lines()
                .filter(|line| line.contains(".param"))
                .map(|line| match line.split(['[', ']']).nth(1) {
                    Some(bytes) => bytes.parse().unwrap(),
                    None if line.contains("64 ") => 8,
                    None => 4,
                })
                .collect();
            assert_eq!(found, *sizes, "{name}");
        }
        // What rounds must not be fused: only `ks_fma` asks for it, in single precision.
        assert!(!PTX.contains("fma.rn.f64"));
    }
}
