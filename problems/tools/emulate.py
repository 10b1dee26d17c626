#!/usr/bin/env python3
"""Checks the CUDA problems' kernels against their references on the CPU, where there is no GPU.

    python3 problems/tools/emulate.py --header 'kernelseek header' [PROBLEM …]

Makes C++ of each .cu file (`emulate/nvcc.cpp`; beside it is what that runs on), builds it, calls it on small
shapes that reach every branch of the kernels, and compares. Says nothing about time and little about races.
"""

import argparse
import ctypes
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import numpy

HERE = pathlib.Path(__file__).resolve().parent
PROBLEMS = HERE.parent / "cuda"
F32, BF16, I32 = 2, 4, 8


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("shape", ctypes.c_int64 * 8), ("stride", ctypes.c_int64 * 8)]


def cxx():
    return os.environ.get("CXX", "c++")


def rewriter(folder):
    """The program that makes C++ of CUDA sources."""
    program = folder / "nvcc"
    subprocess.run([cxx(), "-std=c++17", "-O1", str(HERE / "emulate/nvcc.cpp"), "-o", str(program)], check=True)
    return program


def build(source, header, folder, rewriter):
    """The library made of one .cu file."""
    cpp = folder / (source.stem + ".cpp")
    library = folder / (source.stem + ".so")
    cpp.write_text(subprocess.run([rewriter, "--rewrite", source], check=True, capture_output=True, text=True).stdout)
    command = [cxx(), "-std=c++17", "-O1", "-w", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-shared", "-fPIC", f"-I{HERE / 'emulate'}",
               f"-I{header.parent}", f"-I{source.parent}", str(cpp), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def widen(bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)


def round_bf16(values):
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


class Buffer:
    """Storage of one tensor at a chosen distance from a 256-byte boundary, with a guard on both sides."""

    GUARD = 64

    def __init__(self, dtype, shape, stride=None, misalign=0, values=None):
        self.dtype, self.shape = dtype, tuple(shape)
        if stride is None:
            stride = [int(numpy.prod(shape[d + 1:])) for d in range(len(shape))]
        self.stride = tuple(stride)
        size = 2 if dtype == BF16 else 4
        extent = 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else 0
        raw = numpy.full(extent * size + 2 * self.GUARD + 512, 0x5A, numpy.uint8)
        self.raw, base = raw, raw.ctypes.data
        start = (-base - self.GUARD) % 256 + self.GUARD + misalign
        self.before = raw[:start]
        self.after = raw[start + extent * size:]
        np_type = {F32: numpy.float32, BF16: numpy.uint16, I32: numpy.int32}[dtype]
        self.view = numpy.ndarray(shape, np_type, raw, start, [s * size for s in stride])
        if values is not None:
            self.view[...] = round_bf16(values) if dtype == BF16 else values
        elif all(shape):
            self.view[...] = {F32: numpy.nan, BF16: 0x7FC1, I32: -0x5A5A5A5A}[dtype]

    def intact(self):
        return bool((self.before == 0x5A).all() and (self.after == 0x5A).all())

    def values(self):
        return widen(numpy.ascontiguousarray(self.view)) if self.dtype == BF16 else self.view.copy()

    def tensor(self):
        t = Tensor(self.view.ctypes.data, self.dtype, len(self.shape))
        t.shape[:len(self.shape)] = self.shape
        t.stride[:len(self.stride)] = self.stride
        return t


def call_type(tensors, attributes):
    fields = [("struct_size", ctypes.c_uint32), ("abi", ctypes.c_uint32)]
    fields += [(name, Tensor) for name in tensors]
    fields += [(name, kind) for name, kind, _ in attributes]
    fields += [("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_size_t), ("stream", ctypes.c_void_p),
               ("device", ctypes.c_int32)]
    return type("Call", (ctypes.Structure,), {"_fields_": fields})


def run(library, name, tensors, attributes):
    """Calls the entry point twice with the same workspace; the second call must not depend on the first."""
    kind = call_type(tensors, attributes)
    call = kind(ctypes.sizeof(kind), 1)
    for key, buffer in tensors.items():
        setattr(call, key, buffer.tensor() if buffer is not None else Tensor())
    for key, _, value in attributes:
        setattr(call, key, value)
    workspace = None
    if hasattr(library, f"{name}_workspace"):
        size = getattr(library, f"{name}_workspace")
        size.restype = ctypes.c_size_t
        amount = size(ctypes.byref(call))
        if amount:
            workspace = numpy.zeros(amount + 256 + 64, numpy.uint8)
            start = -workspace.ctypes.data % 256
            workspace[start + amount:] = 0xA5
            call.workspace, call.workspace_bytes = workspace.ctypes.data + start, amount
    if hasattr(library, f"{name}_prepare"):
        assert getattr(library, f"{name}_prepare")(ctypes.byref(call)) == 0, "prepare"
    for _ in range(2):
        status = getattr(library, name)(ctypes.byref(call))
        assert status == 0, f"status {status}"
    if workspace is not None:
        assert (workspace[start + amount:] == 0xA5).all(), "writes past its workspace"


def softmax_cases(random):
    shapes = [(3, 1), (5, 7), (9, 8), (33, 16), (7, 33), (5, 64), (6, 65), (3, 256), (3, 257), (2, 512), (2, 1000),
              (2, 1024), (2, 1025), (2, 2048), (2, 2049), (1, 4096), (1, 4097), (70, 8200), (67, 12289), (1, 16384),
              (2, 16400), (1, 50257), (2, 131072)]
    for rows, cols in shapes:
        for dtype in (F32, BF16):
            for gap, misalign in ((0, 0), (8, 0), (3, 4)):
                if (gap and cols > 4097) or (dtype == BF16 and rows > 60):
                    continue
                x = Buffer(dtype, (rows, cols), (cols + gap, 1), misalign, random.normal(0, 2, (rows, cols)))
                note = f"{rows} x {cols}, {'bf16' if dtype == BF16 else 'f32'}, gap {gap}, misalign {misalign}"
                yield note, {"x": x}, {"y": lambda: Buffer(dtype, (rows, cols))}, [], (4e-3 if dtype == BF16 else 1e-6)


def reduce_cases(random):
    shapes = [(3, 1), (100, 5), (70, 33), (9, 64), (7, 65), (5, 257), (3, 1024), (2, 2048), (3, 2049), (2, 8192),
              (1, 65536), (1, 65537), (3, 100000), (1100, 4100), (1, 1048576)]
    for rows, cols in shapes:
        for gap, misalign, ties in ((0, 0, False), (4, 0, True), (1, 4, False)):
            if gap and rows * cols > 300000:
                continue
            # Ties are what tells the rule: the first largest element counts.
            values = random.integers(-2, 3, (rows, cols)) if ties else random.normal(0.25, 1, (rows, cols))
            x = Buffer(F32, (rows, cols), (cols + gap, 1), misalign, values)
            outputs = {"y": lambda: Buffer(F32, (rows,)), "index": lambda: Buffer(I32, (rows,))}
            yield f"{rows} x {cols}, gap {gap}, misalign {misalign}, ties {ties}", {"x": x}, outputs, [], 2e-6


def layernorm_cases(random):
    shapes = [(5, 2), (33, 19), (9, 64), (3, 65), (5, 96), (3, 251), (2, 256), (3, 768), (2, 1021), (2, 1024), (2, 1536),
              (2, 2048), (2, 3072), (2, 4096), (2, 4099), (1, 5120), (67, 8200), (1, 12288), (67, 12289), (1, 16384),
              (2, 20000), (1, 65537)]
    for rows, cols in shapes:
        for gap, misalign in ((0, 0), (8, 0), (3, 2)):
            if gap and cols > 4099:
                continue
            inputs = {"x": Buffer(BF16, (rows, cols), (cols + gap, 1), misalign, random.normal(0.5, 1.5, (rows, cols))),
                      "gamma": Buffer(F32, (cols,), values=random.normal(1, 0.25, cols)),
                      "beta": Buffer(F32, (cols,), values=random.normal(0, 0.5, cols))}
            outputs = {"y": lambda: Buffer(BF16, (rows, cols)), "mean": lambda: Buffer(F32, (rows,)),
                       "rstd": lambda: Buffer(F32, (rows,))}
            bounds = {"y": 4e-3, "mean": 2e-6, "rstd": 2e-6}
            yield (f"{rows} x {cols}, gap {gap}, misalign {misalign}", inputs, outputs,
                   [("eps", ctypes.c_double, 1e-5)], bounds)


def gemm_cases(random):
    """All four layouts, aligned and not, with and without a split depth. Inputs are small integers, so every sum is
    exact and the answers must be equal. The large tile is compared with numpy alone: the seed takes too long here."""
    shapes = [(1, 1, 1), (5, 7, 3), (64, 64, 32), (65, 63, 33), (128, 72, 64), (1, 200, 600), (200, 1, 600),
              (33, 40, 1100), (1280, 1288, 40), (1283, 1290, 37)]
    for M, N, K in shapes:
        for a_t in (False, True):
            for b_t in (False, True):
                for pad in ((0,) if M * N * K > 1e5 else (0, 8, 3)):
                    draw = lambda *shape: random.integers(-4, 5, shape).astype(numpy.float32)
                    a = Buffer(BF16, (M, K), (1, M + pad) if a_t else (K + pad, 1), 0, draw(M, K))
                    b = Buffer(BF16, (K, N), (1, K + pad) if b_t else (N + pad, 1), 0, draw(K, N))
                    bias = Buffer(F32, (N,), values=draw(N)) if pad == 8 or a_t else None
                    note = f"{M} x {N} x {K}, a_t {a_t}, b_t {b_t}, pad {pad}, bias {bias is not None}"
                    expected = None
                    if M > 1000:
                        product = a.values() @ b.values() # exact
                        expected = {"c": widen(round_bf16(product if bias is None else product + bias.values()))}
                    yield (note, {"a": a, "b": b, "bias": bias}, {"c": lambda: Buffer(BF16, (M, N))}, [], 0.0, expected)


CASES = {"gemm": gemm_cases, "softmax": softmax_cases, "reduce": reduce_cases, "layernorm": layernorm_cases}


def check(problem, header_command, random):
    folder = PROBLEMS / problem
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        header = scratch / f"{problem}.h"
        header.write_text(subprocess.run([*header_command, str(folder)], check=True, capture_output=True, text=True).stdout)
        sources = [folder / "reference.cu", folder / "seed.cu", folder / "improved.cu"]
        program = rewriter(scratch)
        reference, *others = [(s, build(s, header, scratch, program)) for s in sources]
        worst, count = {}, 0
        for note, inputs, outputs, attributes, bound, *known in CASES[problem](random):
            count += 1
            expected = known[0] if known else None
            for source, library in others[1:] if expected else (reference, *others):
                got = {name: make() for name, make in outputs.items()}
                before = {name: b.raw.copy() for name, b in inputs.items() if b is not None}
                try:
                    run(library, problem, {**inputs, **got}, attributes)
                except AssertionError as error:
                    raise SystemExit(f"{source.name}: {note}: {error}")
                for name, b in got.items():
                    if not b.intact():
                        raise SystemExit(f"{source.name}: {note}: writes beside {name}")
                for name, raw in before.items():
                    if (inputs[name].raw != raw).any():
                        raise SystemExit(f"{source.name}: {note}: changes {name}")
                if source is reference[0]:
                    expected = {name: b.values() for name, b in got.items()}
                    continue
                for name, b in got.items():
                    values = b.values()
                    if b.dtype == I32:
                        error = float((values != expected[name]).sum())
                    else:
                        scale = max(float(numpy.abs(expected[name]).max()), 1e-30)
                        error = float(numpy.abs(values.astype(float) - expected[name]).max()) / scale
                    if not error <= (bound[name] if isinstance(bound, dict) else bound):
                        raise SystemExit(f"{source.name}: {note}: {name} is off by {error:.3g} of its scale")
                    key = f"{source.stem}.{name}"
                    worst[key] = max(worst.get(key, 0.0), error)
        errors = ", ".join(f"{k} {v:.1e}" for k, v in sorted(worst.items()))
        print(f"{problem}: {count} cases agree with the reference; worst relative errors: {errors}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--header", default="kernelseek header", help="command that prints a problem's header")
    parser.add_argument("problem", nargs="*", default=list(CASES), help="which problems [default: all]")
    arguments = parser.parse_args()
    for problem in arguments.problem or CASES:
        check(problem, shlex.split(arguments.header), numpy.random.default_rng(1))


if __name__ == "__main__":
    sys.exit(main())
