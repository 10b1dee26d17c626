"""Small cases with an expectation that was worked out by hand, or a property that must hold. `TABLE` lists them.

Two probes show a mask directly. With q = 0 every visible key has the same weight, so lse is the logarithm of their number; with
one-hot values, out shows which ones they are."""

import math

import torch

from .exact import blocks
from .inputs import DTYPES, Inputs, bits
from .judge import Bounded, Errors, Shape
from .scenario import Scenario

EPSILON = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}


def case(**fields):
    return Scenario({"id": "case", "B": 2, "Hq": 4, "Hkv": 2, "Sq": 37, "Skv": 75, "D": 64, **fields})


class Bench:
    """One library under one rule; notes what is wrong."""

    def __init__(self, library, device, is_reference):
        self.library, self.device, self.is_reference, self.wrong = library, device, is_reference, []

    def inputs(self, scenario, **options):
        return Inputs(scenario, self.device, **options)

    def ask(self, inputs, note=""):
        """The answer, held against the exact attention."""
        s, outputs = inputs.scenario, self.library.run(inputs)
        wrong = Shape(s, self.device).complaints(outputs)
        judge = Bounded(outputs, self.device) if self.is_reference else Errors(outputs, s, self.device)
        for block in blocks(inputs):
            judge.add(block)
        result = judge.result()
        if self.is_reference:
            wrong += Bounded.complaints(result)
        else:
            limits = {"rel_rms_sequence": s.tolerance()["rel_rms_max"], "lse": s.tolerance()["lse_atol"]}
            wrong += [f"{name} is {result[name]:.3g}, over {most:g}" for name, most in limits.items() if not result[name] <= most]
        self.wrong += [f"{note}: {line}" if note else line for line in wrong]
        return outputs

    def same(self, a, b, note, exactly=False):
        """That two answers agree: bit for bit, or as two that were rounded differently on their way."""
        for name in ("out", "lse"):
            x, y = getattr(a, name), getattr(b, name)
            if exactly:
                ok = torch.equal(bits(x), bits(y))
            else:
                lse = 1e-5 if self.is_reference else a.scenario.tolerance()["lse_atol"]
                x, y = x.double(), y.double()
                off = torch.where(x == y, 0.0, (x - y).abs())
                size = torch.where(y == -torch.inf, 0.0, y).abs().amax().item()
                most = 4 * EPSILON[a.out.dtype] * size if name == "out" else 2 * lse + 2.0**-22 * size
                ok = bool((off <= most).all())
            if not ok:
                self.wrong.append(f"{note}: {name} differs")

    def near(self, value, expected, most, note):
        if not abs(value - expected) <= most:
            self.wrong.append(f"{note}: {value:.6g}, not {expected:.6g}")

    def probe(self, scenario, note, sinks=None):
        """Zeros for q, one-hot values: which keys are seen, by the definition and one pair at a time."""
        s, inputs = scenario, self.inputs(scenario)
        for b in range(s.B):
            inputs.put("q", b, torch.zeros(s.q_used[b], s.Hq, s.D, device=self.device))
            inputs.put("v", b, torch.eye(s.k_used[b], s.Dv, device=self.device)[:, None].expand(-1, s.Hkv, -1))
        for name in ("q_descale", "k_descale", "v_descale"):
            if name in inputs.t:
                inputs.t[name].fill_(1.0)
        if sinks:
            inputs.t["sink"].copy_(torch.tensor(sinks))
        outputs = self.ask(inputs, note)
        share = torch.tensor([math.exp(x) for x in sinks] if sinks else [0.0] * s.Hq, dtype=torch.float64)
        for b in range(s.B):
            out, lse = (t.double().cpu() for t in outputs.rows(b, 0, s.q_used[b]))
            seen = torch.zeros(s.q_used[b], s.Dv, dtype=torch.float64)
            for i in range(s.q_used[b]):
                here = i + s.k_used[b] - s.q_used[b]
                for j in range(s.k_used[b]):
                    seen[i, j] = (s.left < 0 or j >= here - s.left) and (s.right < 0 or j <= here + s.right)
            total = seen.sum(1)[:, None] + share
            expected = seen[:, None] / total.clamp(min=1e-300)[..., None]
            off = (out - expected).abs() > 0.51 * EPSILON[outputs.out.dtype] * expected
            for i, h, _ in off.nonzero()[:1].tolist():
                self.wrong.append(f"{note}: sequence {b}, row {i}, head {h} sees keys {out[i, h].nonzero().flatten().tolist()}, "
                                  f"not {seen[i].nonzero().flatten().tolist()}")
            expected = total.log().T
            most = 1e-6 * expected.abs().clamp(min=1) if self.is_reference else s.tolerance()["lse_atol"]
            off = ~((lse == expected) | ((lse - expected).abs() <= most))
            for h, i in off.nonzero()[:1].tolist():
                self.wrong.append(f"{note}: sequence {b}, row {i}, head {h}: lse is {lse[h, i]:.6g}, not {expected[h, i]:.6g}")


def visible_keys(bench):
    masks = [dict(), dict(causal=True), dict(window=[2, 1]), dict(window=[0, 0]), dict(window=[3, 0], causal=True),
             dict(window=[-1, 2]), dict(window=[4, -1]), dict(window=[1, 5], causal=True)]
    for mask in masks:
        for sq, sk in ((5, 2), (2, 5), (7, 7), (1, 9), (9, 1), (40, 64)):
            bench.probe(case(Sq=sq, Skv=sk, **mask), f"{sq} x {sk} {mask}")


def visible_keys_elsewhere(bench):
    """The same probe in each layout and dtype."""
    for dtype in DTYPES:
        for mask in (dict(causal=True), dict(window=[5, 3]), dict(window=[6, 0], causal=True)):
            common = dict(dtype=dtype, B=3, **mask)
            bench.probe(case(layout="varlen", Sq=9, Skv=30, q_lens=[9, 1, 4], kv_lens=[5, 30, 4], **common), f"varlen {dtype}")
            bench.probe(case(layout="kvcache", Sq=9, Skv=30, q_lens=[9, 2, 6], kv_lens=[5, 30, 17], leftpad=[0, 11, 16], **common),
                        f"left pad {dtype}")
            bench.probe(case(layout="paged", Sq=6, Skv=50, page_size=16, kv_lens=[1, 33, 50], **common), f"pages {dtype}")


def fully_masked_rows(bench):
    s = case(Sq=5, Skv=2, causal=True)
    outputs = bench.ask(bench.inputs(s))
    if bits(outputs.out[:, :3]).any() or not bool((outputs.lse[..., :3] == -torch.inf).all()):
        bench.wrong.append("rows 0 to 2 see nothing: out = 0, lse = -inf")
    if not bool(torch.isfinite(outputs.lse[..., 3:]).all()):
        bench.wrong.append("rows 3 and 4 see keys")


def sinks(bench):
    """Sinks under, among and far above the logits; rows without keys have lse = sink."""
    values = [-2.0, 0.0, 4.5, 80.0]
    bench.probe(case(Sq=5, Skv=2, causal=True, sink=True), "sinks", sinks=values)
    bench.probe(case(Sq=3, Skv=40, window=[8, 0], causal=True, sink=True), "sinks and a window", sinks=values)
    inputs = bench.inputs(case(Sq=5, Skv=2, causal=True, sink=True, dtype="f16"))
    inputs.t["sink"].copy_(torch.tensor(values))
    empty = bench.ask(inputs, "f16").lse[..., :3].double().cpu()
    expected = torch.tensor(values, dtype=torch.float64)[None, :, None]
    if not bool(((empty - expected).abs() <= (0.0 if bench.is_reference else 1e-3)).all()):
        bench.wrong.append("lse of a row without keys is not its sink")


def large_sink(bench):
    """A sink 80 above the largest logit: nothing overflows, lse is the sink, out is tiny and right."""
    inputs = bench.inputs(case(sink=True))
    inputs.t["sink"].fill_(0.0)
    plain = bench.ask(inputs)
    highest = plain.lse.amax().item()
    inputs.t["sink"].fill_(80.0 + math.ceil(highest))
    sink = inputs.t["sink"].double()[None, :, None]
    outputs = bench.ask(inputs, "80 above")
    if not bool(((outputs.lse.double() - sink).abs() <= 1e-3).all()):
        bench.wrong.append("lse is not the sink")
    # Sums of exponentials are 1 + what the logits give, and exp(80 + …): plain out * exp(plain lse - sink) is left.
    ratio = (plain.lse.double() - sink).exp().transpose(1, 2)[..., None]
    expected, got = plain.out.double() * ratio, outputs.out.double()
    if not bool(((got - expected).abs() <= 4 * EPSILON[outputs.out.dtype] * expected.abs().amax()).all()) or not bool(got.any()):
        bench.wrong.append("out is not what is left for it")


def left_pad(bench):
    """A left pad is the same call on a cache that begins behind it."""
    for mask in (dict(causal=True, window=[9, 0]), dict(window=[4, 6]), dict(causal=True)):
        padded = bench.inputs(case(layout="kvcache", Skv=90, kv_lens=[61, 90], leftpad=[7, 53], **mask))
        cropped = bench.inputs(case(layout="kvcache", Skv=54, kv_lens=[54, 37], **mask))
        bench.same(bench.ask(padded, "padded"), bench.ask(cropped.copy_rows(padded), "cropped"), f"left pad {mask}")


def more_queries_than_keys(bench):
    for mask in (dict(), dict(causal=True), dict(window=[5, 5])):
        for dtype in DTYPES:
            bench.ask(bench.inputs(case(Sq=130, Skv=33, dtype=dtype, **mask)), f"{dtype} {mask}")


def empty_sequences(bench):
    for causal in (False, True):
        for sink in (False, True):
            lengths = dict(B=5, q_lens=[0, 3, 0, 5, 2], kv_lens=[0, 4, 7, 0, 2], Sq=8, Skv=8, causal=causal, sink=sink)
            for layout in ("varlen", "kvcache", "paged"):
                bench.ask(bench.inputs(case(layout=layout, page_size=4, **lengths)), layout)


def garbage(bench):
    """What unused storage holds does not matter, bit for bit."""
    for dtype, value in (("f16", 3e4), ("bf16", 3e4), ("f8e4m3", 448.0)):
        for extra in (dict(layout="paged", page_size=16), dict(layout="paged", page_size=48, leftpad=[5, 0]),
                      dict(layout="kvcache", leftpad=[0, 9], q_lens=[37, 11])):
            s = case(dtype=dtype, Skv=100, kv_lens=[41, 70], causal=True, **extra)
            clean, spoilt = bench.inputs(s, garbage=0.0), bench.inputs(s, garbage=value)
            bench.same(bench.ask(spoilt, dtype), bench.ask(clean, dtype), f"{dtype} {extra['layout']}", exactly=True)


def groups(bench):
    for group in (3, 5, 7, 6):
        for extra in (dict(causal=True), dict(layout="varlen", q_lens=[37, 3], kv_lens=[75, 40]), dict(Sq=1, Skv=200)):
            bench.ask(bench.inputs(case(Hq=2 * group, **extra)), f"groups of {group}")


def heads_repeated(bench):
    """Grouped heads are one key head per query head, repeated."""
    for group in (3, 4):
        for dtype in DTYPES:
            few = bench.inputs(case(Hq=2 * group, causal=True, dtype=dtype))
            many = bench.inputs(case(Hq=2 * group, Hkv=2 * group, causal=True, dtype=dtype))
            many.t["q"] = few.t["q"]
            for name in ("k", "v"):
                many.t[name] = bits(few.t[name]).repeat_interleave(group, 2).view(few.t[name].dtype)
            for name in ("q_descale", "k_descale", "v_descale"):
                if name in few.t:
                    many.t[name] = few.t[name].repeat_interleave(group, 1)
            bench.same(bench.ask(few), bench.ask(many), f"{dtype}, {group} heads a group")


def no_ops(bench):
    """Masks that hide nothing, and a cap that caps nothing."""
    one = dict(Sq=1, Skv=130)
    for note, plain, other in (("causal, one row", one, dict(one, causal=True)),
                               ("a wide window", dict(), dict(window=[74, 36])),
                               ("a wider window", dict(), dict(window=[100000, 100000])),
                               ("causal and a wide window", dict(causal=True), dict(causal=True, window=[74, 0])),
                               ("causal is a window", dict(causal=True), dict(window=[-1, 0])),
                               ("cap of 1e6", dict(), dict(softcap=1e6))):
        a, b = bench.inputs(case(**plain)), bench.inputs(case(**other))
        bench.same(bench.ask(b.copy_rows(a), note), bench.ask(a, note), note)


def caps(bench):
    """By hand: q = (8, 0, …), keys (1, 0, …) and 0, scale 1, cap 2: logits 2 tanh 4 and 0. A sink is neither scaled nor capped."""
    inputs = bench.inputs(case(B=1, Hq=1, Hkv=1, Sq=1, Skv=2, D=8, softcap=2.0, softmax_scale=1.0))
    inputs.put("q", 0, 8.0 * torch.eye(1, 8, device=bench.device)[:, None])
    inputs.put("k", 0, torch.eye(2, 8, device=bench.device)[:, None] * torch.tensor([[[1.0]], [[0.0]]], device=bench.device))
    lse = bench.ask(inputs, "by hand").lse.item()
    bench.near(lse, math.log1p(math.exp(2 * math.tanh(4.0))), 1e-6 if bench.is_reference else 6e-2, "lse by hand")
    for dtype in DTYPES:
        for extra in (dict(softcap=1.5), dict(softcap=20.0, softmax_scale=2.0), dict(softcap=4.0, sink=True, input_dist="sink_large")):
            bench.ask(bench.inputs(case(dtype=dtype, causal=True, **extra)), f"{dtype} {extra}")


def pages(bench):
    """Where the pages lie and how long they are makes no difference to a bit."""
    for dtype in DTYPES:
        lengths = dict(dtype=dtype, kv_lens=[75, 50], leftpad=[0, 3], causal=True)
        flat = bench.inputs(case(layout="kvcache", **lengths))
        expected = bench.ask(flat, "contiguous")
        for size, seed in ((1, 1), (3, 1), (16, 1), (16, 2), (128, 1)):
            paged = bench.inputs(case(layout="paged", page_size=size, **lengths), seed=seed).copy_rows(flat)
            for name in ("q_descale", "k_descale", "v_descale"):
                if name in flat.t:
                    paged.t[name] = flat.t[name]
            bench.same(bench.ask(paged), expected, f"{dtype}, pages of {size}", exactly=True)


def packed(bench):
    views = bench.inputs(case(Hq=3, Hkv=3, Sq=50, Skv=50, packed_qkv=True))
    plain = bench.inputs(case(Hq=3, Hkv=3, Sq=50, Skv=50)).copy_rows(views)
    bench.same(bench.ask(views), bench.ask(plain), "packed q, k, v", exactly=True)


def scales(bench):
    """Half the scale and twice the queries; descales that cancel; twice the values' descale is twice out."""
    plain, scaled = bench.inputs(case()), bench.inputs(case(softmax_scale=0.5 / 8))
    scaled.copy_rows(plain)
    scaled.t["q"] *= 2
    bench.same(bench.ask(scaled), bench.ask(plain), "half the scale, twice q")
    bench.ask(bench.inputs(case(softmax_scale=0.3)), "a scale of 0.3")
    inputs = bench.inputs(case(dtype="f8e4m3", causal=True))
    first = bench.ask(inputs)
    inputs.t["q_descale"] *= 4
    inputs.t["k_descale"] /= 4
    bench.same(bench.ask(inputs), first, "descales of q and k that cancel")
    inputs.t["v_descale"] *= 2
    twice = bench.ask(inputs)
    first.out *= 2
    bench.same(twice, first, "twice the descale of v")


def shapes(bench):
    """Widths of heads that no tile likes."""
    for width, values in ((8, 8), (40, 40), (80, 80), (96, 96), (160, 160), (192, 128), (192, 192), (256, 256), (128, 256)):
        for dtype in ("bf16", "f16"):
            bench.ask(bench.inputs(case(D=width, Dv=values, dtype=dtype, causal=True)), f"D {width}, Dv {values}, {dtype}")


def repeats(bench):
    inputs = bench.inputs(case(Sq=100, Skv=300, causal=True))
    bench.same(bench.ask(inputs), bench.ask(inputs), "a second call", exactly=True)


TABLE = [visible_keys, visible_keys_elsewhere, fully_masked_rows, sinks, large_sink, left_pad, more_queries_than_keys,
         empty_sequences, garbage, groups, heads_repeated, no_ops, caps, pages, packed, scales, shapes, repeats]


def results(libraries, device):
    """A row for each case and library: what is wrong."""
    for check in TABLE:
        for name, library in libraries.items():
            bench = Bench(library, device, name == "reference")
            try:
                check(bench)
            except RuntimeError as error:
                bench.wrong.append(str(error))
            yield {"case": check.__name__, "of": name, "wrong": bench.wrong[:6]}
