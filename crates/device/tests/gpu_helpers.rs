//! The helper kernels on a GPU against their twins on the CPU. Run with `-- --ignored --nocapture` where there is one.

#![expect(clippy::unwrap_used, reason = "a helper of a test may fail it, and a measurement is printed")]

#[path = "kernels/cases.rs"]
mod cases;

use cases::*;
use kernelseek_core::case::{Case, Garbage, Generator, Stress, TensorCase};
use kernelseek_core::dtype::DType;
use kernelseek_device::cuda::Context;
use kernelseek_device::cuda::helpers::{Comparison, Helpers, Range, Stamp};
use kernelseek_device::cuda::memory::{self, DeviceMemory};
use kernelseek_device::cuda::stream::{Event, Stream};
use kernelseek_numerics::content::counter::{self, Placement};
use kernelseek_numerics::content::{Content, Distribution};
use kernelseek_numerics::fingerprint::fingerprint_unordered;
use kernelseek_numerics::metrics::{Asked, ErrorSummary, compare_asked, compare_reference};
use kernelseek_numerics::{codec, poison, view};

struct Gpu {
    helpers: Helpers,
    stream: Stream,
    context: Context,
}

impl Gpu {
    fn open() -> Self {
        let context = Context::open(None).unwrap();
        Self { helpers: Helpers::load(&context).unwrap(), stream: Stream::new().unwrap(), context }
    }
    fn upload(&self, bytes: &[u8]) -> DeviceMemory {
        let memory = DeviceMemory::new(bytes.len()).unwrap();
        memory::upload(memory.address(), bytes, &self.stream).unwrap();
        memory
    }
    fn download(&self, memory: &DeviceMemory, bytes: usize) -> Vec<u8> {
        let mut to = vec![0; bytes];
        memory::download(&mut to, memory.address(), &self.stream).unwrap();
        to
    }
    fn filled(&self, case: &Case, content: Content) -> Vec<Vec<u8>> {
        let memory: Vec<DeviceMemory> = buffers(case).iter().map(|b| self.upload(b)).collect();
        let steps = counter::steps(case, content, |_| true, |_| None).unwrap();
        let storages: Vec<u64> = memory.iter().map(DeviceMemory::address).collect();
        self.helpers.fill(&steps, &storages, &self.stream).unwrap();
        memory.iter().zip(&case.storages).map(|(m, s)| self.download(m, s.bytes())).collect()
    }
    /// Device time of the best of five, in seconds.
    fn seconds(&self, mut work: impl FnMut()) -> f64 {
        let (before, after) = (Event::new().unwrap(), Event::new().unwrap());
        let times = (0..6).map(|_| {
            before.record(&self.stream).unwrap();
            work();
            after.record(&self.stream).unwrap();
            self.stream.synchronize().unwrap();
            after.since(&before).unwrap().as_secs_f64()
        });
        times.skip(1).fold(f64::INFINITY, f64::min)
    }
}

fn twin(case: &Case, content: Content) -> Vec<Vec<u8>> {
    let mut twin = buffers(case);
    counter::fill(case, content, &mut slot(&mut twin)).unwrap();
    twin
}

fn assert_same(a: &[Vec<u8>], b: &[Vec<u8>], about: &dyn std::fmt::Debug) {
    for (number, (a, b)) in a.iter().zip(b).enumerate() {
        if a != b {
            let at = a.iter().zip(b).position(|(a, b)| a != b);
            panic!("storage {number} differs first at byte {at:?} of {}: {about:?}", a.len());
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn fills_are_the_twins() {
    let gpu = Gpu::open();
    let shapes: [&[i64]; 12] = [
        &[1],
        &[7],
        &[8],
        &[16],
        &[1000],
        &[4097],
        &[33, 48],
        &[64, 1024],
        &[1 << 20],
        &[1 << 22],
        &[3, 5, 7, 11],
        &[2, 3, 4, 5, 6, 7],
    ];
    for dtype in FLOATS {
        for (number, shape) in shapes.into_iter().enumerate() {
            for (k, distribution) in DISTRIBUTIONS.into_iter().enumerate() {
                let seed = (number * 31 + k) as u64;
                let generator = [normal(), uniform(), with_outliers()][(seed % 3) as usize].clone();
                let mut layouts = vec![3, 1, 2, 4, 5];
                layouts.truncate(if shape.iter().product::<i64>() > 100_000 { 2 } else { 5 });
                for layout in layouts {
                    let t = strided(tensor(dtype, shape, generator.clone()), layout);
                    let c = case(vec![t.clone()]);
                    assert_same(
                        &gpu.filled(&c, content(distribution, seed)),
                        &twin(&c, content(distribution, seed)),
                        &(dtype, distribution, t),
                    );
                }
            }
        }
        for seed in 0..20 {
            let c = case(vec![tensor(dtype, &[123, 48], normal())]);
            let stressed = content(Distribution::Stress(Stress::Structured), seed);
            assert_same(&gpu.filled(&c, stressed), &twin(&c, stressed), &(dtype, seed));
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn scales_garbage_and_structure_are_the_twins() {
    let gpu = Gpu::open();
    for dtype in [DType::F8E4m3, DType::F8E5m2, DType::F16, DType::F32] {
        for (shape, axes) in [
            (vec![4, 6, 40], vec![0]),
            (vec![4, 6, 40], vec![2, 0]),
            (vec![3, 16], vec![]),
            (vec![5, 7, 3], vec![0, 1, 2]),
            (vec![2, 1024, 8, 64], vec![0, 2]),
            (vec![1 << 21], vec![]),
        ] {
            for (number, distribution) in DISTRIBUTIONS.into_iter().enumerate() {
                let scale_dtype = [DType::F32, DType::Bf16, DType::F64][number % 3];
                let mut tensors = quantised(dtype, &shape, axes.clone(), scale_dtype);
                if number == 2 {
                    tensors[0].stride[0] += 16;
                }
                let c = case(tensors);
                let content = content(distribution, 5);
                let about = (dtype, &shape, &axes, distribution);
                assert_same(&gpu.filled(&c, content), &twin(&c, content), &about);
            }
        }
    }
    for dtype in DType::ALL {
        let content = content(Distribution::Nominal, 4);
        let constant = strided(tensor(dtype, &[9, 5], Generator::Constant { value: 1.0 }), 1);
        let mut cases =
            vec![case(vec![constant, strided(tensor(DType::I64, &[99], Generator::Permutation), 1)])];
        if dtype.is_float() {
            cases.push(paged(dtype));
            let mut long = tensor(dtype, &[2, 4000, 64], normal());
            long.garbage = Some(Garbage { value: 1e4, start: vec![0, 9], end: vec![10, 9], table: None });
            cases.push(case(vec![long]));
        }
        for c in cases {
            assert_same(&gpu.filled(&c, content), &twin(&c, content), &(dtype, c.tensors.len()));
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn mutations_are_the_twins() {
    let gpu = Gpu::open();
    for dtype in FLOATS {
        for (shape, layout) in [(vec![1], 3), (vec![64, 100], 3), (vec![64, 100], 1), (vec![1 << 20], 3)] {
            let mut tensors = vec![strided(tensor(dtype, &shape, normal()), layout)];
            if let &[rows, columns] = shape.as_slice() {
                let (start, end) = (vec![0; rows as usize], vec![columns / 2; rows as usize]);
                tensors[0].garbage = Some(Garbage { value: 77.0, start, end, table: None });
            }
            tensors.extend(quantised(DType::F8E4m3, &[4, 64], vec![0], DType::F32));
            let c = case(tensors);
            let mut expected = twin(&c, content(Distribution::Nominal, 1));
            let memory: Vec<DeviceMemory> = expected.iter().map(|b| gpu.upload(b)).collect();
            let storages: Vec<u64> = memory.iter().map(DeviceMemory::address).collect();
            let steps = counter::mutations(&c, 9).unwrap();
            let changed = gpu.helpers.mutate_counted(&steps, &storages, &gpu.stream).unwrap();
            assert_eq!(changed, counter::mutate_subset(&c, &mut slot(&mut expected), 9).unwrap());
            let found: Vec<_> = memory.iter().zip(&expected).map(|(m, e)| gpu.download(m, e.len())).collect();
            assert_same(&found, &expected, &(dtype, &shape));
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn views_are_gathered_and_scattered() {
    let gpu = Gpu::open();
    for dtype in [DType::F64, DType::I32, DType::Bf16, DType::U8] {
        for shape in [vec![], vec![1], vec![17, 48], vec![3, 4, 5, 64], vec![1 << 20], vec![512, 2048]] {
            for layout in 0..24 {
                let t = strided(tensor(dtype, &shape, normal()), layout);
                let c = case(vec![t.clone()]);
                let storage: Vec<u8> = (0..c.storages[0].bytes()).map(|i| (i * 7 + i / 251) as u8).collect();
                let (mut packed, mut unpacked) = (Vec::new(), vec![0; storage.len()]);
                view::pack(&t, &storage, &mut packed).unwrap();
                view::unpack(&t, &packed, &mut unpacked).unwrap();
                let from = gpu.upload(&storage);
                let dense = gpu.upload(&vec![0; packed.len()]);
                let all = Placement::all(&t);
                gpu.helpers.gather(&all, from.address(), dtype, dense.address(), &gpu.stream).unwrap();
                assert!(gpu.download(&dense, packed.len()) == packed, "{t:?}");
                let back = gpu.upload(&vec![0; storage.len()]);
                let unique = Placement::unique(&t).unwrap();
                gpu.helpers.scatter(&unique, back.address(), dtype, dense.address(), &gpu.stream).unwrap();
                assert!(gpu.download(&back, storage.len()) == unpacked, "{t:?}");
            }
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn ranges_are_the_twins() {
    let gpu = Gpu::open();
    let sizes = [0usize, 1, 7, 8, 15, 16, 17, 31, 100, 4096, 65_536, 1_000_003, 4 << 20];
    for dtype in DType::ALL {
        let size = dtype.size();
        let each = 8 << 20;
        let memory = gpu.upload(&vec![0xEE; each * sizes.len()]);
        let place = |k: usize, shift: usize| memory.address() + (k * each + shift) as u64;
        // Poison at aligned and at barely aligned addresses.
        for shift in [0, size] {
            let ranges: Vec<Range> = sizes
                .iter()
                .enumerate()
                .map(|(k, &bytes)| Range { address: place(k, shift), bytes, seed: k as u64 * 77, dtype })
                .collect();
            gpu.helpers.poison(&ranges, &gpu.stream).unwrap();
            let found = gpu.download(&memory, each * sizes.len());
            let left = gpu.helpers.poison_remains(&ranges, &gpu.stream).unwrap();
            for (k, range) in ranges.iter().enumerate() {
                let mut expected = vec![0; range.bytes];
                poison::fill_poison(dtype, &mut expected, range.seed);
                assert!(found[k * each + shift..][..range.bytes] == expected, "{dtype} {range:?}");
                assert_eq!(found[k * each + shift + range.bytes], 0xEE, "{dtype} {range:?}");
                assert_eq!(left[k], range.bytes / size);
            }
            memory::set(ranges[12].address, 0, 3 << 20, &gpu.stream).unwrap();
            let left = gpu.helpers.poison_remains(&ranges, &gpu.stream).unwrap();
            let mut expected = vec![0; 4 << 20];
            poison::fill_poison(dtype, &mut expected, ranges[12].seed);
            expected[..3 << 20].fill(0);
            assert_eq!(left[12], poison::poison_remains(dtype, &expected, ranges[12].seed));
            memory::set(memory.address(), 0xEE, each * sizes.len(), &gpu.stream).unwrap();
        }
    }
    let each = 8 << 20;
    let content: Vec<u8> = (0..each * sizes.len()).map(|i| (i * 13 + i / 255 + i / 65_537) as u8).collect();
    let memory = gpu.upload(&content);
    for shift in [0usize, 3, 8] {
        let ranges: Vec<(u64, usize)> = sizes
            .iter()
            .enumerate()
            .map(|(k, &bytes)| (memory.address() + (k * each + shift) as u64, bytes))
            .collect();
        let found = gpu.helpers.fingerprints(&ranges, 42, &gpu.stream).unwrap();
        for (k, &bytes) in sizes.iter().enumerate() {
            let expected = fingerprint_unordered(&content[k * each + shift..][..bytes], 42);
            assert_eq!(found[k], expected, "{bytes} {shift}");
        }
    }
    for shift in [0usize, 5] {
        let ranges: Vec<Range> = sizes
            .iter()
            .enumerate()
            .map(|(k, &bytes)| Range {
                address: memory.address() + (k * each + shift) as u64,
                bytes,
                seed: k as u64,
                dtype: DType::U8,
            })
            .collect();
        gpu.helpers.fill_canaries(&ranges, &gpu.stream).unwrap();
        let found = gpu.download(&memory, content.len());
        for (k, range) in ranges.iter().enumerate() {
            assert_eq!(poison::check_canary(&found[k * each + shift..][..range.bytes], range.seed), None);
        }
        assert_eq!(gpu.helpers.check_canaries(&ranges, &gpu.stream).unwrap(), None);
        for (k, at) in [(12, 4_000_000), (11, 1_000_002), (5, 3)] {
            memory::set(ranges[k].address + at as u64, 0, 1, &gpu.stream).unwrap();
            memory::set(ranges[k].address + at as u64, !found[k * each + shift + at], 1, &gpu.stream)
                .unwrap();
            assert_eq!(gpu.helpers.check_canaries(&ranges, &gpu.stream).unwrap(), Some((k, at)));
        }
    }
}

/// Values of every kind, and candidates that are equal, near, far, not finite.
fn outputs(dtype: DType, count: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut r, mut c) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut state = 7u64;
    for i in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let value = unit * [1.0, 0.05, 1e-4, 100.0][(state >> 7) as usize % 4];
        let near = value * (1.0 + [0.0, 0.01, -0.02, 0.5][(state >> 5) as usize % 4]);
        let (a, b) = match i % 997 {
            1 => (f64::INFINITY, f64::INFINITY),
            2 => (f64::NAN, f64::NAN),
            3 if i > 5000 => (value, f64::NAN),
            4 if i > 5000 => (f64::NEG_INFINITY, value),
            5 => (0.0, near),
            _ => (value, near),
        };
        r.push(a);
        c.push(b);
    }
    let encode = |values: &[f64]| {
        let mut bytes = vec![0; values.len() * dtype.size()];
        codec::encode_ieee(dtype, values, &mut bytes).unwrap();
        bytes
    };
    (encode(&r), encode(&c))
}

fn assert_close(found: &ErrorSummary, expected: &ErrorSummary, about: &dyn std::fmt::Debug) {
    let mut found = found.clone();
    let close = |a: &mut f64, b: f64| {
        if (*a - b).abs() <= 1e-11 * b.abs() {
            *a = b;
        }
    };
    close(&mut found.rms_err, expected.rms_err);
    close(&mut found.ref_rms, expected.ref_rms);
    for (f, e) in found.classes.iter_mut().zip(&expected.classes) {
        close(&mut f.rms_err, e.rms_err);
    }
    assert_eq!(&found, expected, "{about:?}");
}

#[test]
#[ignore = "needs a GPU"]
fn errors_are_those_of_the_metrics() {
    let gpu = Gpu::open();
    for dtype in DType::ALL {
        let (mut pairs, mut expected, mut held) = (Vec::new(), Vec::new(), Vec::new());
        for count in [0usize, 1, 5, 16, 1000, 4999, 65_537, 1 << 22] {
            let (reference, candidate) = outputs(dtype, count);
            let (r, c) = (gpu.upload(&reference), gpu.upload(&candidate));
            let (ra, ca) = (r.address(), c.address());
            for asked in [Asked::Whole, Asked::Part] {
                pairs.push(Comparison {
                    reference: ra,
                    reference_dtype: dtype,
                    candidate: ca,
                    dtype,
                    count,
                    asked,
                });
                expected.push(compare_asked(dtype, &reference, &candidate, asked).unwrap());
            }
            let mut values = Vec::new();
            codec::decode(dtype, &reference, &mut values).unwrap();
            for wide in [1.0, if dtype == DType::F64 { 1e200 } else { 1.0 }] {
                values.iter_mut().for_each(|v| *v *= wide);
                let words: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                let finer = gpu.upload(&words);
                pairs.push(Comparison {
                    reference: finer.address(),
                    reference_dtype: DType::F64,
                    candidate: ca,
                    dtype,
                    count,
                    asked: Asked::Whole,
                });
                expected.push(compare_reference(dtype, &values, &candidate).unwrap());
                held.push(finer);
            }
            held.extend([r, c]);
        }
        let found = gpu.helpers.compare(&pairs, &gpu.stream).unwrap();
        for ((found, expected), pair) in found.iter().zip(&expected).zip(&pairs) {
            assert_close(found, expected, pair);
        }
        let size = dtype.size();
        let (a, b) = (gpu.upload(&vec![1; size * 10_000]), gpu.upload(&vec![1; size * 10_000]));
        let differs =
            || gpu.helpers.differs(a.address(), b.address(), size * 10_000, size, &gpu.stream).unwrap();
        assert_eq!((differs().count, differs().first), (0, None));
        for at in [9_999, 5_000, 17] {
            memory::set(b.address() + (at * size) as u64, 2, 1, &gpu.stream).unwrap();
            assert_eq!(differs().first, Some(at));
        }
        assert_eq!(differs().count, 3);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn clocks_and_peaks_are_plausible() {
    let gpu = Gpu::open();
    let out = DeviceMemory::new(Stamp::BYTES).unwrap();
    for _ in 0..5 {
        gpu.helpers.stamp(200_000, out.address(), &gpu.stream).unwrap();
        let stamp = gpu.helpers.read_stamp(out.address(), &gpu.stream).unwrap();
        println!("stamp: {stamp:?}, {:.1} MHz", stamp.khz() / 1e3);
        assert!((100e3..5e6).contains(&stamp.khz()));
    }
    let spin = gpu.seconds(|| gpu.helpers.spin(200_000, &gpu.stream).unwrap());
    println!("spin of 200 000 cycles: {:.1} us", spin * 1e6);
    let mut operations = 0;
    let fma = gpu.seconds(|| operations = 2 * gpu.helpers.fma(20_000, &gpu.stream).unwrap());
    println!("fma: {:.1} TFLOP/s", operations as f64 / fma * 1e-11);
    let l2 = gpu.context.identity().l2_bytes;
    let memory = DeviceMemory::new(1 << 30).unwrap();
    for (name, bytes, repeats) in [("memory", 1 << 30, 1u32), ("L2", l2 / 4, 40)] {
        let time = gpu.seconds(|| gpu.helpers.read(memory.address(), bytes, repeats, &gpu.stream).unwrap());
        println!("read from {name}: {:.0} GB/s", bytes as f64 * f64::from(repeats) / time * 1e-9);
    }
    let flush = gpu.seconds(|| gpu.helpers.flush(memory.address(), 2 * l2, Some(3), &gpu.stream).unwrap());
    println!("flush of {} MB: {:.1} us", (2 * l2) >> 20, flush * 1e6);
}

#[test]
#[ignore = "needs a GPU; prints"]
fn throughput_at_256_megabytes() {
    let gpu = Gpu::open();
    let bytes = 256 << 20;
    let (a, b) = (DeviceMemory::new(bytes).unwrap(), DeviceMemory::new(bytes).unwrap());
    let print = |name: String, moved: usize, seconds: f64| {
        println!("{name:40} {:8.1} us {:7.0} GB/s", seconds * 1e6, moved as f64 / seconds * 1e-9);
    };
    let fill = |t: TensorCase, distribution: Distribution| {
        let c = case(vec![t]);
        let steps = counter::steps(&c, content(distribution, 3), |_| true, |_| None).unwrap();
        gpu.seconds(|| gpu.helpers.fill(&steps, &[a.address()], &gpu.stream).unwrap())
    };
    for dtype in FLOATS {
        let shape = [(bytes / dtype.size() / 1024) as i64, 1024];
        for (name, generator) in [("normal", normal()), ("uniform", uniform())] {
            print(
                format!("fill {dtype} {name}"),
                bytes,
                fill(tensor(dtype, &shape, generator), DISTRIBUTIONS[0]),
            );
        }
        for distribution in &DISTRIBUTIONS[1..] {
            let time = fill(tensor(dtype, &shape, normal()), *distribution);
            print(format!("fill {dtype} {distribution:?}"), bytes, time);
        }
        let mut rows = tensor(dtype, &[shape[0] / 2, 1024], normal());
        rows.stride[0] = 2048;
        print(format!("fill {dtype} strided, with gaps"), bytes, fill(rows, DISTRIBUTIONS[0]));
    }
    for dtype in DType::ALL {
        let range = [Range { address: a.address(), bytes, seed: 3, dtype }];
        let time = gpu.seconds(|| gpu.helpers.poison(&range, &gpu.stream).unwrap());
        print(format!("poison {dtype}"), bytes, time);
        let time = gpu.seconds(|| drop(gpu.helpers.poison_remains(&range, &gpu.stream).unwrap()));
        print(format!("poison remains {dtype}"), bytes, time);
    }
    let time =
        gpu.seconds(|| drop(gpu.helpers.fingerprints(&[(a.address(), bytes)], 5, &gpu.stream).unwrap()));
    print("fingerprint".into(), bytes, time);
    let small: Vec<(u64, usize)> = (0..64).map(|k| (a.address() + (k << 16), 1 << 16)).collect();
    let time = gpu.seconds(|| drop(gpu.helpers.fingerprints(&small, 5, &gpu.stream).unwrap()));
    print("64 fingerprints of 64 KB".into(), 4 << 20, time);
    for dtype in FLOATS {
        let shape = [(bytes / dtype.size()) as i64];
        fill(tensor(dtype, &shape, normal()), DISTRIBUTIONS[0]);
        memory::copy(b.address(), a.address(), bytes, &gpu.stream).unwrap();
        let pair = |reference_dtype, count| {
            let (reference, candidate) = (a.address(), b.address());
            [Comparison { reference, reference_dtype, candidate, dtype, count, asked: Asked::Whole }]
        };
        let count = bytes / dtype.size();
        let time = gpu.seconds(|| drop(gpu.helpers.compare(&pair(dtype, count), &gpu.stream).unwrap()));
        print(format!("compare {dtype}"), 2 * bytes, time);
        let count = bytes / 8;
        let time = gpu.seconds(|| drop(gpu.helpers.compare(&pair(DType::F64, count), &gpu.stream).unwrap()));
        print(format!("compare {dtype} with f64"), bytes + count * dtype.size(), time);
    }
    let differs = || gpu.helpers.differs(a.address(), b.address(), bytes, 4, &gpu.stream).unwrap();
    print("differs".into(), 2 * bytes, gpu.seconds(|| assert_eq!(differs().count, 0)));
    for dtype in [DType::F32, DType::Bf16, DType::U8] {
        let rows = (bytes / dtype.size() / 1024) as i64;
        let mut t = tensor(dtype, &[rows / 2, 512], normal());
        t.stride[0] = 1024;
        let moved = 2 * t.len() * dtype.size();
        let all = Placement::all(&t);
        let gather = || gpu.helpers.gather(&all, a.address(), dtype, b.address(), &gpu.stream).unwrap();
        print(format!("gather rows {dtype}"), moved, gpu.seconds(gather));
        t.stride = dense(&[512, rows / 2]).into_iter().rev().collect();
        let all = Placement::all(&t);
        let gather = || gpu.helpers.gather(&all, a.address(), dtype, b.address(), &gpu.stream).unwrap();
        print(format!("gather transposed {dtype}"), moved, gpu.seconds(gather));
    }
    let groups = case(quantised(DType::F8E4m3, &[16, 4096, 32, 128], vec![0, 2], DType::F32));
    let scales = DeviceMemory::new(1 << 20).unwrap();
    let steps = counter::steps(&groups, content(DISTRIBUTIONS[0], 3), |_| true, |_| None).unwrap();
    let bases = [a.address(), scales.address()];
    let time = gpu.seconds(|| gpu.helpers.fill(&steps, &bases, &gpu.stream).unwrap());
    print("fill quantised e4m3".into(), bytes, time);
    let mutated = case(vec![tensor(DType::Bf16, &[(bytes / 2) as i64], normal())]);
    let steps = counter::mutations(&mutated, 3).unwrap();
    let counts = scales.address();
    let time = gpu.seconds(|| gpu.helpers.mutate(&steps, &[a.address()], counts, &gpu.stream).unwrap());
    print("mutate bf16".into(), bytes, time);
    let time = gpu.seconds(|| gpu.helpers.flush(a.address(), bytes, None, &gpu.stream).unwrap());
    print("flush, read".into(), bytes, time);
    let time = gpu.seconds(|| gpu.helpers.flush(a.address(), bytes, Some(1), &gpu.stream).unwrap());
    print("flush, write and read".into(), 2 * bytes, time);
}
