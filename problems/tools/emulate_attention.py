#!/usr/bin/env python3
"""Holds the CUDA attention's reference and seed against the CPU's reference, where there is no GPU.

    python3 problems/tools/emulate_attention.py --header 'kernelseek header'

Every layout, dtype, mask and row of the semantics on shapes of a few dozen rows: `reference.cu` and `seed.cu` run thread by
thread (`emulate/`), `problems/attention_forward/reference.c` in double precision. Storage that a call may not use is garbage:
another answer with other garbage is a fault. Says nothing about time and little about races.

With `--bugs` the seed's planted bugs (`attention_bugs.py`) are run instead: each must be off in some case, and only in cases that have
its feature. Edits that round weights are left out, since no rounding is granted here.
"""

import argparse
import ctypes
import pathlib
import shlex
import subprocess
import sys
import tempfile

import numpy

from attention_bugs import BUGS, planted
from emulate import PROBLEMS, Tensor, build, call_type, rewriter

F32, F16, BF16, E4M3, I32 = 2, 3, 4, 5, 8
NAMES = {"f16": F16, "bf16": BF16, "f8e4m3": E4M3}
TENSORS = ["q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k", "page_table", "q_descale",
           "k_descale", "v_descale", "sink", "out", "lse"]
ATTRIBUTES = [("softmax_scale", ctypes.c_double), ("softcap", ctypes.c_double), ("causal", ctypes.c_int64),
              ("window_left", ctypes.c_int64), ("window_right", ctypes.c_int64), ("max_seqlen_q", ctypes.c_int64),
              ("max_seqlen_k", ctypes.c_int64), ("total_q", ctypes.c_int64)]
# What single precision may be off by in a logit of these inputs, and half a unit of the output's last place.
LSE, LAST = 2e-5, {F16: 2.0 ** -11, BF16: 2.0 ** -8}

CASES = {
    "dense causal": dict(B=2, Hq=2, Hkv=2, Sq=70, D=64, causal=1),
    "dense full, f16": dict(B=1, Hq=2, Hkv=1, Sq=33, Skv=65, D=40, dtype="f16"),
    "group of three, fp8": dict(B=2, Hq=6, Hkv=2, Sq=37, D=32, dtype="f8e4m3", causal=1),
    "group of five": dict(B=1, Hq=5, Hkv=1, Sq=20, D=16, causal=1),
    "more queries than keys": dict(B=1, Hq=2, Hkv=2, Sq=50, Skv=17, D=16, causal=1),
    "fewer queries than keys": dict(B=1, Hq=2, Hkv=2, Sq=17, Skv=150, D=16, causal=1),
    "one key": dict(B=2, Hq=2, Hkv=2, Sq=39, Skv=1, D=8, causal=1),
    "value dim, wide": dict(B=1, Hq=1, Hkv=1, Sq=20, D=192, Dv=128),
    "widest": dict(B=1, Hq=1, Hkv=1, Sq=18, D=256, causal=1),
    "values wider than keys": dict(B=1, Hq=2, Hkv=1, Sq=9, D=24, Dv=72),
    "window left": dict(B=1, Hq=2, Hkv=2, Sq=90, D=16, causal=1, window=(20, 0)),
    "window both": dict(B=1, Hq=2, Hkv=2, Sq=90, Skv=75, D=16, window=(30, 11)),
    "window, unequal": dict(B=1, Hq=2, Hkv=1, Sq=30, Skv=130, D=16, causal=1, window=(40, 0)),
    "soft cap": dict(B=1, Hq=2, Hkv=2, Sq=40, D=16, causal=1, softcap=3.0),
    "soft cap, fp8": dict(B=1, Hq=2, Hkv=2, Sq=40, D=16, softcap=2.0, dtype="f8e4m3"),
    "scale": dict(B=1, Hq=2, Hkv=2, Sq=20, D=16, scale=0.5),
    "sink": dict(B=2, Hq=4, Hkv=2, Sq=40, D=16, causal=1, sink=(-2, 2)),
    "sink with empty rows": dict(B=2, Hq=4, Hkv=2, Sq=40, Skv=9, D=16, causal=1, sink=(4, 12)),
    "sink far above": dict(B=1, Hq=2, Hkv=2, Sq=20, D=16, causal=1, sink=(80, 100)),
    "varlen": dict(Hq=4, Hkv=2, D=16, layout="varlen", q_lens=[0, 33, 1, 0, 17], kv_lens=[5, 33, 70, 0, 0], causal=1),
    "varlen window": dict(Hq=2, Hkv=2, D=16, layout="varlen", q_lens=[40, 7], kv_lens=[66, 7], causal=1, window=(15, 0)),
    "cache": dict(B=3, Hq=4, Hkv=2, Sq=1, Skv=80, D=16, layout="kvcache", kv_lens=[80, 3, 65], causal=1),
    "cache, unused queries": dict(B=3, Hq=2, Hkv=2, Sq=12, Skv=40, D=16, layout="kvcache", q_lens=[12, 0, 5], kv_lens=[40, 7, 30], causal=1),
    "left pad": dict(B=3, Hq=2, Hkv=1, Sq=20, Skv=90, D=16, layout="kvcache", kv_lens=[90, 31, 77], leftpad=[0, 20, 9], causal=1),
    "left pad, window": dict(B=2, Hq=2, Hkv=1, Sq=20, Skv=90, D=16, layout="kvcache", kv_lens=[90, 60], leftpad=[13, 50], causal=1, window=(8, 0)),
    "left pad, full": dict(B=2, Hq=2, Hkv=2, Sq=20, Skv=30, D=16, layout="kvcache", kv_lens=[30, 25], leftpad=[4, 20], dtype="f16"),
    "paged": dict(B=3, Hq=4, Hkv=2, Sq=5, Skv=80, D=16, layout="paged", page=16, kv_lens=[80, 0, 33], causal=1),
    "page of one": dict(B=2, Hq=2, Hkv=2, Sq=3, Skv=40, D=16, layout="paged", page=1, kv_lens=[40, 11], causal=1),
    "page of seven, fp8": dict(B=2, Hq=2, Hkv=2, Sq=3, Skv=40, D=16, layout="paged", page=7, kv_lens=[40, 11], dtype="f8e4m3", causal=1),
    "paged, left pad, sink, window": dict(B=2, Hq=4, Hkv=1, Sq=9, Skv=90, D=16, layout="paged", page=16, kv_lens=[90, 70], leftpad=[3, 30], sink=(-1, 3), causal=1, window=(25, 0)),
    "views of one tensor": dict(B=2, Hq=2, Hkv=2, Sq=21, D=16, packed=True),
    "group of three, many keys": dict(B=1, Hq=6, Hkv=2, Sq=3, Skv=70, D=16, layout="kvcache", kv_lens=[61], causal=1),
    "many rows": dict(B=1, Hq=48, Hkv=1, Sq=1, Skv=100, D=16, layout="kvcache"),
}


def bits_of(kind, values):
    """Values rounded into the bits of a type, roughly: both sides read the same bits."""
    if kind == F16:
        return values.astype(numpy.float16).view(numpy.uint16)
    if kind == BF16:
        return (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)
    if kind == E4M3:
        magnitude = numpy.abs(values)
        exponent = numpy.clip(numpy.floor(numpy.log2(numpy.maximum(magnitude, 1e-9))), -6, 8)
        places = numpy.clip(numpy.rint(magnitude / 2.0 ** (exponent - 3)), 0, 15)
        normal = (exponent + 6) * 8 + places # whole places of the last digit: 8 to 15 carry the exponent's last step
        bits = numpy.minimum(normal, 126).astype(numpy.uint8)
        return bits | (numpy.signbit(values) * 128).astype(numpy.uint8)
    return values.astype({F32: numpy.float32, I32: numpy.int32}[kind])


def values_of(kind, bits):
    if kind == F16:
        return bits.view(numpy.float16).astype(numpy.float64)
    if kind == BF16:
        return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    return bits.astype(numpy.float64)


class Array:
    def __init__(self, kind, bits):
        self.kind, self.bits = kind, bits if bits.strides[-1] == bits.itemsize else numpy.ascontiguousarray(bits)

    def tensor(self):
        t = Tensor(self.bits.ctypes.data, self.kind, self.bits.ndim)
        t.shape[:self.bits.ndim] = self.bits.shape
        t.stride[:self.bits.ndim] = [s // self.bits.itemsize for s in self.bits.strides]
        return t


def inputs_of(random, garbage, B=None, Hq=1, Hkv=1, Sq=None, Skv=None, D=8, Dv=None, dtype="bf16", layout="dense", page=None,
              q_lens=None, kv_lens=None, leftpad=None, causal=0, window=(-1, -1), softcap=0.0, scale=None, sink=None, packed=False):
    """Tensors and attributes of one case. `garbage` fills what no call may look at."""
    kind, Dv = NAMES[dtype], Dv or D
    draw = lambda *shape: bits_of(kind, random.normal(0, 1, shape))
    spoil = bits_of(kind, numpy.array([garbage]))[0]
    attributes = dict(softmax_scale=scale or D ** -0.5, softcap=softcap, causal=causal, window_left=window[0],
                      window_right=window[1])
    t = {}
    if layout == "varlen":
        starts = lambda lens: Array(I32, numpy.concatenate([[0], numpy.cumsum(lens)]).astype(numpy.int32))
        rows, keys, B = sum(q_lens), sum(kv_lens), len(q_lens)
        q, k, v = draw(rows, Hq, D), draw(keys, Hkv, D), draw(keys, Hkv, Dv)
        t.update(cu_seqlens_q=starts(q_lens), cu_seqlens_k=starts(kv_lens))
        shapes = (rows, Hq, Dv), (Hq, rows)
        attributes.update(max_seqlen_q=max(q_lens), max_seqlen_k=max(kv_lens), total_q=rows)
    else:
        Skv = Skv or Sq
        q, k, v = draw(B, Sq, Hq, D), draw(B, Skv, Hkv, D), draw(B, Skv, Hkv, Dv)
        if packed:
            q, k, v = numpy.moveaxis(draw(B, Sq, 3, Hq, D), 2, 0)
        ends, pads = kv_lens or [Skv] * B, leftpad or [0] * B
        for b in range(B):
            for keys in (k, v):
                keys[b, ends[b]:] = spoil
                keys[b, :pads[b]] = spoil
            q[b, (q_lens or [Sq] * B)[b]:] = spoil
        if layout != "dense":
            t["seqused_k"] = Array(I32, numpy.array(ends, numpy.int32))
            if q_lens:
                t["seqused_q"] = Array(I32, numpy.array(q_lens, numpy.int32))
            if leftpad:
                t["leftpad_k"] = Array(I32, numpy.array(pads, numpy.int32))
        if layout == "paged":
            each = -(-Skv // page)
            pool = B * each + 3
            order = random.permutation(pool)[:B * each].reshape(B, each).astype(numpy.int32)
            paged = lambda rows: numpy.full((pool, page, *rows.shape[2:]), spoil, rows.dtype)
            pages = [paged(k), paged(v)]
            for into, rows in zip(pages, (k, v)):
                for b in range(B):
                    for p in range(each):
                        part = rows[b, p * page:(p + 1) * page]
                        into[order[b, p], :len(part)] = part
            k, v = pages
            t["page_table"] = Array(I32, order)
        shapes = (B, Sq, Hq, Dv), (B, Hq, Sq)
        attributes.update(max_seqlen_q=Sq, max_seqlen_k=Skv, total_q=B * Sq)
    t.update(q=Array(kind, q), k=Array(kind, k), v=Array(kind, v))
    if kind == E4M3:
        for name in ("q_descale", "k_descale", "v_descale"):
            t[name] = Array(F32, bits_of(F32, random.uniform(0.05, 2, (B, Hkv))))
    if sink:
        t["sink"] = Array(BF16, bits_of(BF16, random.uniform(*sink, Hq)))
    return t, attributes, shapes, F16 if kind == F16 else BF16


def answer(library, entry, tensors, attributes, shapes, out_kind):
    """What an entry point writes over NaN: bits of `out`, and `lse`."""
    kind = call_type(TENSORS, [(name, of, None) for name, of in ATTRIBUTES])
    out, lse = numpy.full(shapes[0], 0xFFFF, numpy.uint16), numpy.full(shapes[1], numpy.nan, numpy.float32)
    every = {**tensors, "out": Array(out_kind, out), "lse": Array(F32, lse)}
    call = kind(ctypes.sizeof(kind), 1)
    for name, array in every.items():
        setattr(call, name, array.tensor())
    for name, value in attributes.items():
        setattr(call, name, value)
    before = {name: array.bits.copy() for name, array in tensors.items()}
    status = getattr(library, entry)(ctypes.byref(call))
    assert status == 0, f"status {status}"
    assert all((tensors[name].bits == bits).all() for name, bits in before.items()), "an input was changed"
    return every["out"].bits, every["lse"].bits


def off(got, expected, out_kind):
    """Why an answer is not the expected one, if it is not. `expected` was rounded, too: two halves of a last place, and a little."""
    (out, lse), (right, right_lse) = got, expected
    values, known = values_of(out_kind, out), values_of(out_kind, right)
    scale = max(float(numpy.abs(known).max(initial=0)), 1e-30)
    error = numpy.abs(values - known) - 2 * LAST[out_kind] * numpy.abs(known)
    if not (error <= 1e-5 * scale).all():
        return f"out is off by {float(numpy.nanmax(error)) / scale:.2g} of its scale at {numpy.argwhere(~(error <= 1e-5 * scale))[0].tolist()}"
    infinite = numpy.isneginf(right_lse)
    if (numpy.isneginf(lse) != infinite).any():
        return "lse is infinite elsewhere"
    gap = numpy.abs(lse[~infinite] - right_lse[~infinite])
    if not (gap <= LSE * numpy.maximum(1, numpy.abs(right_lse[~infinite]))).all():
        return f"lse is off by {float(gap.max()):.2g}"
    return None


def scenario_of(case):
    """A case as a line of the grid says it."""
    lens = case.get("q_lens")
    s = {"B": len(lens or [0]), "Skv": case.get("Sq"), "dtype": "bf16", "D": 8, "softmax_scale": case.get("scale"),
         "page_size": case.get("page"), "packed_qkv": case.get("packed"), **case}
    return {k: v for k, v in s.items() if v is not None}


def hunt(folder, header, scratch, program, exact, names):
    """Plants each bug and says where it shows; the faults of the hunt."""
    faults = []
    expected = {}
    for name, case in CASES.items():
        clean, *rest = inputs_of(numpy.random.default_rng(3), 0.0, **case)
        expected[name] = answer(exact, "attention_forward", clean, *rest)
    for bug in (b for b in BUGS if b.emulated and not b.honest and "weights" not in b.name and (not names or b.name in names)):
        source = scratch / f"{bug.name}.cu"
        source.write_text(planted(bug, (folder / "seed.cu").read_text()))
        library = build(source, header, scratch, program)
        failing = []
        for name, case in CASES.items():
            garbage = 448.0 if case.get("dtype") == "f8e4m3" else 3e4
            spoilt, *rest = inputs_of(numpy.random.default_rng(3), garbage, **case)
            if off(answer(library, "attention_forward", spoilt, *rest), expected[name], rest[2]):
                failing.append(name)
        elsewhere = [name for name in failing if not bug.touches(scenario_of(CASES[name]))]
        if not failing or elsewhere:
            faults.append(bug.name)
        print(f"{'BAD' if not failing or elsewhere else 'ok '} {bug.name}: {len(failing)} cases" +
              (f", elsewhere: {elsewhere}" if elsewhere else ""), flush=True)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--header", default="kernelseek header", help="command that prints a problem's header")
    parser.add_argument("--bugs", action="store_true", help="plant bugs in the seed and see them found")
    parser.add_argument("case", nargs="*", help="cases, or bugs [default: all]")
    arguments = parser.parse_args()
    folder, cpu = PROBLEMS / "attention_forward", PROBLEMS.parent / "attention_forward"
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        header = scratch / "attention_forward.h"
        command = [*shlex.split(arguments.header), str(folder)]
        header.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        program = rewriter(scratch)
        judged = {source: build(folder / source, header, scratch, program) for source in ("reference.cu", "seed.cu")}
        library = scratch / "cpu.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{scratch}", str(cpu / "reference.c"), "-o", str(library), "-lm"], check=True)
        exact = ctypes.CDLL(str(library))
        if arguments.bugs:
            return 1 if hunt(folder, header, scratch, program, exact, arguments.case) else 0
        for name in arguments.case or CASES:
            clean, *rest = inputs_of(numpy.random.default_rng(3), 0.0, **CASES[name])
            expected = answer(exact, "attention_forward", clean, *rest)
            for source, library in judged.items():
                for garbage in (0.0, 448.0 if rest[0] and CASES[name].get("dtype") == "f8e4m3" else 3e4):
                    spoilt, *rest = inputs_of(numpy.random.default_rng(3), garbage, **CASES[name])
                    got = answer(library, "attention_forward", spoilt, *rest)
                    fault = off(got, expected, rest[2])
                    if fault:
                        raise SystemExit(f"{source}: {name}: {fault}" + (" with garbage in unused storage" if garbage else ""))
        print(f"attention_forward: {len(arguments.case or CASES)} cases agree with the CPU's reference")


if __name__ == "__main__":
    sys.exit(main())
