//! What another process sees through the handle of an arena: the arena, and nothing past either end of it.
//!
//! These tests need a GPU and run there from a prebuilt executable; see `docs/guides/gpu-tests.md`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use kernelseek_device::cuda::arena::Exported;
use kernelseek_device::cuda::gpu::Gpu;
use kernelseek_device::cuda::memory::{self, DeviceMemory, GRANULE, IpcHandle};
use std::process::Command;

/// Names of what the child process is told by.
const HANDLE: &str = "KERNELSEEK_TEST_HANDLE";
const OFFSET: &str = "KERNELSEEK_TEST_OFFSET";
/// What a kernel of the child found, as its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Nothing but zeros.
    Zeros = 40,
    /// The supervisor's secret.
    Secret = 41,
    /// Something else: the child's own memory may lie there.
    Other = 42,
    /// The device refused the access.
    Refused = 43,
}

/// One of the tests that are a child's, in a process of its own, and what it said.
fn child(test: &str, handle: &IpcHandle, offset: i64) -> (std::process::ExitStatus, String) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"])
        .env(HANDLE, serde_json::to_string(handle).unwrap())
        .env(OFFSET, offset.to_string())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status, said)
}

/// Has a child write the secret at `offset` from the start of what the handle stands for.
fn child_writes(handle: &IpcHandle, offset: i64) {
    let (status, said) = child("the_child_writes", handle, offset);
    assert!(status.success(), "{said}");
}

#[test]
#[ignore = "needs a GPU"]
fn the_child_writes() {
    let (Ok(handle), Ok(offset)) = (std::env::var(HANDLE), std::env::var(OFFSET)) else { return };
    let gpu = Gpu::open(None).unwrap();
    let memory = DeviceMemory::open(&serde_json::from_str(&handle).unwrap()).unwrap();
    let address = memory.address().wrapping_add_signed(offset.parse().unwrap());
    memory::upload(address, &SECRET.to_le_bytes(), gpu.stream()).unwrap();
    gpu.stream().synchronize().unwrap();
}

/// Opens the handle in a process of its own and has a kernel read eight bytes at `offset` from its start.
fn child_reads(handle: &IpcHandle, offset: i64) -> Found {
    let (status, said) = child("the_child_reads", handle, offset);
    [Found::Zeros, Found::Secret, Found::Other, Found::Refused]
        .into_iter()
        .find(|found| status.code() == Some(*found as i32))
        .unwrap_or_else(|| panic!("the child ended otherwise: {said}"))
}

#[test]
#[ignore = "needs a GPU"]
#[expect(clippy::exit, reason = "the exit code is the answer")]
fn the_child_reads() {
    let (Ok(handle), Ok(offset)) = (std::env::var(HANDLE), std::env::var(OFFSET)) else { return };
    let gpu = Gpu::open(None).unwrap();
    let memory = DeviceMemory::open(&serde_json::from_str(&handle).unwrap()).unwrap();
    let address = memory.address().wrapping_add_signed(offset.parse().unwrap());
    // A kernel reads, not the copy engine, which knows more of what is allowed: that is what a candidate has.
    let holds = |word: u64| {
        let own = gpu.block(8)?;
        memory::upload(own.address(), &word.to_le_bytes(), gpu.stream())?;
        gpu.helpers().differs(address, own.address(), 8, 8, gpu.stream()).map(|d| d.count == 0)
    };
    let found = match (holds(0), holds(SECRET)) {
        (Err(_), _) | (_, Err(_)) => Found::Refused,
        (Ok(true), _) => Found::Zeros,
        (_, Ok(true)) => Found::Secret,
        _ => Found::Other,
    };
    eprintln!("{found:?}");
    std::process::exit(found as i32);
}

const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;

fn secret_bytes(count: usize) -> Vec<u8> {
    SECRET.to_le_bytes().repeat(count / 8)
}

#[test]
#[ignore = "needs a GPU"]
fn an_arena_shows_itself_and_nothing_past_its_ends() {
    let gpu = Gpu::open(None).unwrap();
    // Secrets of the supervisor's on every side, allocated before and after.
    let fill = |memory: &DeviceMemory| {
        memory::upload(memory.address(), &secret_bytes(memory.len()), gpu.stream()).unwrap();
    };
    let around: Vec<DeviceMemory> =
        [64 << 10, GRANULE, 3 * GRANULE].map(|bytes| DeviceMemory::new(bytes).unwrap()).into();
    around.iter().for_each(fill);
    for bytes in [1, 64 << 10, GRANULE - 1, GRANULE, GRANULE + 1, 5 * GRANULE] {
        let arena = Exported::new(&gpu, bytes).unwrap();
        let after: Vec<DeviceMemory> = [64 << 10, GRANULE].map(|b| DeviceMemory::new(b).unwrap()).into();
        after.iter().for_each(fill);
        gpu.stream().synchronize().unwrap();
        let handle = arena.handle();
        let len = arena.len() as i64;
        assert_eq!(arena.len() % GRANULE, 0);
        // What is handed out is zeroed, to the last byte.
        for offset in [0, len / 2 / 8 * 8, len - 8] {
            assert_eq!(child_reads(&handle, offset), Found::Zeros, "{bytes} bytes, offset {offset}");
        }
        let mut refused = 0;
        for offset in [len, len + 8, len + (64 << 10), len + GRANULE as i64, -8, -(GRANULE as i64)] {
            let found = child_reads(&handle, offset);
            assert_ne!(found, Found::Secret, "{bytes} bytes, offset {offset}");
            refused += usize::from(found == Found::Refused);
        }
        // The child's own memory may lie beside it, not on all sides.
        assert!(refused > 0, "{bytes} bytes");
    }
}

/// What a worker has left in its memory, the next one that is lent it does not find.
#[test]
#[ignore = "needs a GPU"]
fn memory_that_is_lent_again_shows_nothing_of_before() {
    let gpu = Gpu::open(None).unwrap();
    let lent = Exported::new(&gpu, 3 * GRANULE).unwrap();
    let len = lent.len() as i64;
    // Through the handle, as a worker writes: the supervisor has an address of its own.
    let places = [0, len / 2, len - 8];
    for offset in places {
        child_writes(&lent.handle(), offset);
        assert_eq!(child_reads(&lent.handle(), offset), Found::Secret, "offset {offset}");
    }
    lent.wipe(&gpu).unwrap();
    for offset in places {
        assert_eq!(child_reads(&lent.handle(), offset), Found::Zeros, "offset {offset}");
    }
}

/// The reason for whole granules, and the proof that the scan above finds what there is to find.
#[test]
#[ignore = "needs a GPU"]
fn a_small_allocation_shows_its_neighbour() {
    let gpu = Gpu::open(None).unwrap();
    let pieces: Vec<DeviceMemory> = (0..16).map(|_| DeviceMemory::new(64 << 10).unwrap()).collect();
    for piece in &pieces {
        memory::upload(piece.address(), &secret_bytes(piece.len()), gpu.stream()).unwrap();
    }
    gpu.stream().synchronize().unwrap();
    let mut sorted: Vec<&DeviceMemory> = pieces.iter().collect();
    sorted.sort_by_key(|p| p.address());
    let pair = sorted.windows(2).find(|w| w[1].address() == w[0].address() + (64 << 10));
    let Some([exported, _]) = pair else {
        eprintln!("the driver put no two of them side by side");
        return;
    };
    let handle = exported.export().unwrap();
    assert_eq!(child_reads(&handle, 64 << 10), Found::Secret);
}
