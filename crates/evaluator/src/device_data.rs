//! Bytes of an output that stay on the GPU that computed them.
//!
//! The supervisor's own work on a GPU hardly ever fails; where it does, [`Gpu::guard`] keeps the error, the answers here are
//! the ones that condemn nobody and clear nobody, and the measurement ends before anything is made of them.

use kernelseek_core::dtype::DType;
use kernelseek_device::cuda::error::Result;
use kernelseek_device::cuda::gpu::{Block, Gpu};
use kernelseek_device::cuda::helpers::Comparison;
use kernelseek_device::cuda::memory::{self, Address};
use kernelseek_numerics::metrics::{Asked, ErrorSummary, MetricsError};
use std::rc::Rc;

/// Key of digests: they only have to be unlikely to collide, and what they name is the candidate's own.
const DIGEST_KEY: u64 = 0x0d16_e57a_b1e5_0001;

/// Digests of bytes on a GPU.
pub(crate) fn prints(gpu: &Rc<Gpu>, spans: &[(Address, usize)]) -> Vec<[u8; 32]> {
    let nothing = || vec![0; spans.len()];
    let prints = gpu.guard(gpu.helpers().fingerprints(spans, DIGEST_KEY, gpu.stream()), nothing());
    spans
        .iter()
        .zip(prints)
        .map(|(span, print)| {
            let mut digest = [0; 32];
            digest[..16].copy_from_slice(&print.to_le_bytes());
            digest[16..24].copy_from_slice(&(span.1 as u64).to_le_bytes());
            digest
        })
        .collect()
}

/// Bytes in memory of a GPU that no worker sees. Cloning shares them; they are never written again.
#[derive(Debug, Clone)]
pub struct DeviceData {
    block: Option<Rc<Block>>,
    gpu: Rc<Gpu>,
    bytes: usize,
}

impl DeviceData {
    /// `bytes` bytes that `fill` writes, given their address.
    ///
    /// # Errors
    /// When the device has no such memory, or `fill` fails.
    pub fn made(gpu: &Rc<Gpu>, bytes: usize, fill: impl FnOnce(Address) -> Result<()>) -> Result<Self> {
        if bytes == 0 {
            return Ok(Self::nothing(gpu, 0));
        }
        let block = gpu.block(bytes)?;
        fill(block.address())?;
        Ok(Self { block: Some(Rc::new(block)), gpu: gpu.clone(), bytes })
    }

    /// In place of data that could not be made.
    fn nothing(gpu: &Rc<Gpu>, bytes: usize) -> Self {
        Self { block: None, gpu: gpu.clone(), bytes }
    }

    fn guarded(&self, bytes: usize, fill: impl FnOnce(Address) -> Result<()>) -> Self {
        let made = Self::made(&self.gpu, bytes, fill);
        self.gpu.guard(made, Self::nothing(&self.gpu, bytes))
    }

    fn address(&self) -> Option<Address> {
        self.block.as_ref().map(|b| b.address())
    }

    /// Number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }
    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether both hold the same bytes.
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        if self.bytes != other.bytes {
            return false;
        }
        let (Some(a), Some(b)) = (self.address(), other.address()) else { return self.bytes == 0 };
        if a == b {
            return true;
        }
        let differs = self.gpu.helpers().differs(a, b, self.bytes, 1, self.gpu.stream());
        self.gpu.guard(differs.map(|d| d.count == 0), false)
    }

    /// Host bytes copied beside this data.
    #[must_use]
    pub fn beside(&self, bytes: &[u8]) -> Self {
        self.guarded(bytes.len(), |at| memory::upload(at, bytes, self.gpu.stream()))
    }

    /// `count` bytes from `from` on, or as many as there are, in this machine's memory.
    #[must_use]
    pub fn download(&self, from: usize, count: usize) -> Vec<u8> {
        let from = from.min(self.bytes);
        let mut bytes = vec![0; count.min(self.bytes - from)];
        if let Some(address) = self.address() {
            let outcome = memory::download(&mut bytes, address + from as u64, self.gpu.stream());
            self.gpu.guard(outcome, ());
        }
        bytes
    }

    /// Errors of `candidate` against `reference`, which may have been asked for a part.
    ///
    /// # Errors
    /// The lengths differ.
    pub fn compare(
        dtype: DType,
        reference: &Self,
        candidate: &Self,
        asked: Asked,
    ) -> std::result::Result<ErrorSummary, MetricsError> {
        let lengths = || {
            let count = |data: &Self| data.bytes / dtype.size();
            MetricsError::Length { reference: count(reference), candidate: count(candidate) }
        };
        if reference.bytes != candidate.bytes {
            return Err(lengths());
        }
        if reference.bytes == 0 {
            return Ok(ErrorSummary::default());
        }
        Self::compare_asked(&[(dtype, reference, candidate)], asked).pop().flatten().ok_or_else(lengths)
    }

    /// [`Self::compare`] of several pairs of equal lengths, which lie on one GPU, in one go; `None` for what could not be
    /// compared.
    #[must_use]
    pub fn compare_all(pairs: &[(DType, &Self, &Self)]) -> Vec<Option<ErrorSummary>> {
        Self::compare_asked(pairs, Asked::Whole)
    }

    fn compare_asked(pairs: &[(DType, &Self, &Self)], asked: Asked) -> Vec<Option<ErrorSummary>> {
        let Some((_, first, _)) = pairs.first() else { return Vec::new() };
        let comparisons: Option<Vec<Comparison>> = pairs
            .iter()
            .map(|(dtype, reference, candidate)| {
                Some(Comparison {
                    reference: reference.address()?,
                    reference_dtype: *dtype,
                    candidate: candidate.address().filter(|_| reference.bytes == candidate.bytes)?,
                    dtype: *dtype,
                    count: reference.bytes / dtype.size(),
                    asked,
                })
            })
            .collect();
        let Some(comparisons) = comparisons else { return vec![None; pairs.len()] };
        let gpu = &first.gpu;
        let compared = gpu.helpers().compare(&comparisons, gpu.stream());
        gpu.guard(compared.map(|all| all.into_iter().map(Some).collect()), vec![None; pairs.len()])
    }

    /// A digest under which equal bytes are found again.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        Self::digests(&[self]).pop().unwrap_or_default()
    }

    /// [`Self::digest`] of several, which lie on one GPU, in one go.
    #[must_use]
    pub fn digests(all: &[&Self]) -> Vec<[u8; 32]> {
        let spans: Vec<(Address, usize)> =
            all.iter().map(|data| data.address().map_or((0, 0), |at| (at, data.bytes))).collect();
        let Some(first) = all.first() else { return Vec::new() };
        prints(&first.gpu, &spans)
    }

    /// The same with zeros from byte `from` on.
    #[must_use]
    pub fn zeroed(&self, from: usize) -> Self {
        let from = from.min(self.bytes);
        self.guarded(self.bytes, |at| {
            self.copy_head(at, from)?;
            memory::set(at + from as u64, 0, self.bytes - from, self.gpu.stream())
        })
    }

    /// As many bytes: `pattern` over and over.
    #[must_use]
    pub fn tiled(&self, pattern: &[u8]) -> Self {
        self.guarded(self.bytes, |at| {
            let mut done = pattern.len().min(self.bytes);
            memory::upload(at, &pattern[..done], self.gpu.stream())?;
            while done > 0 && done < self.bytes {
                let more = done.min(self.bytes - done);
                memory::copy(at + done as u64, at, more, self.gpu.stream())?;
                done += more;
            }
            Ok(())
        })
    }

    /// The same with its beginning replaced.
    #[must_use]
    pub fn with_head(&self, head: &[u8]) -> Self {
        let head = &head[..head.len().min(self.bytes)];
        self.guarded(self.bytes, |at| {
            self.copy_head(at, self.bytes)?;
            memory::upload(at, head, self.gpu.stream())
        })
    }

    fn copy_head(&self, to: Address, bytes: usize) -> Result<()> {
        self.address().map_or(Ok(()), |from| memory::copy(to, from, bytes, self.gpu.stream()))
    }
}
