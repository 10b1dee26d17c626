"""Inputs of a scenario, drawn by torch, and outputs to be written. What no row uses holds large finite garbage."""

import zlib

import torch

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f8e4m3": torch.float8_e4m3fn}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
GARBAGE = {"bf16": 1e4, "f16": 1e4, "f8e4m3": 448.0}


def bits(t):
    return t.view(BITS[t.element_size()])


class Inputs:
    """`t`: the tensors by their names in the problem file; absent ones are not in it."""

    def __init__(self, scenario, device, seed=0, garbage=None):
        self.scenario, self.device, s = scenario, torch.device(device), scenario
        self.random = torch.Generator(self.device).manual_seed(zlib.crc32(f"{s.id} {seed}".encode()))
        self.t = {}
        if s.packed_qkv:
            packed = self.normal(s.B, s.Sq, 3, s.Hq, s.D)
            self.t["q"], self.t["k"], self.t["v"] = packed.unbind(2)
        else:
            keys = (s.pool, s.page_size) if s.paged else (sum(s.k_used),) if s.varlen else (s.B, s.Skv)
            self.t["q"] = self.normal(*((sum(s.q_used),) if s.varlen else (s.B, s.Sq)), s.Hq, s.D)
            self.t["k"], self.t["v"] = self.normal(*keys, s.Hkv, s.D), self.normal(*keys, s.Hkv, s.Dv)
        if s.varlen:
            self.t["cu_seqlens_q"] = self.integers([*s.q_first, sum(s.q_used)])
            self.t["cu_seqlens_k"] = self.integers([*s.k_first, sum(s.k_used)])
        if s.padded:
            self.t["seqused_k"] = self.integers(s.k_end)
            if s.q_lens:
                self.t["seqused_q"] = self.integers(s.q_used)
            if s.leftpad:
                self.t["leftpad_k"] = self.integers(s.pad)
        if s.paged:
            self.t["page_table"] = self.page_table()
        if s.fp8:
            for name in ("q_descale", "k_descale", "v_descale"):
                self.t[name] = self.uniform(0.05, 2.0, s.B, s.Hkv)
        if s.sink:
            low, high = (4.0, 12.0) if s.input_dist == "sink_large" else (-2.0, 2.0)
            self.t["sink"] = self.uniform(low, high, s.Hq).to(torch.bfloat16)
        self.stretch()
        self.spoil(GARBAGE[s.dtype] if garbage is None else garbage)

    def normal(self, *shape):
        s = self.scenario
        if not s.fp8:
            return torch.randn(shape, dtype=DTYPES[s.dtype], device=self.device, generator=self.random)
        x = torch.randn(shape, dtype=torch.float16, device=self.device, generator=self.random)
        if s.input_dist == "fp8_outliers":
            rare = torch.rand(shape, device=self.device, generator=self.random) < 1e-3
            x = torch.where(rare, 16 * x, x)
        return x.to(torch.float8_e4m3fn)

    def uniform(self, low, high, *shape):
        return torch.rand(shape, device=self.device, generator=self.random) * (high - low) + low

    def integers(self, values):
        return torch.tensor(values, dtype=torch.int32, device=self.device)

    def page_table(self):
        """Used pages are a random permutation's; the entries behind them name any page at all."""
        s = self.scenario
        width = -(-s.Skv // s.page_size)
        table = torch.randint(s.pool, (s.B, width), device=self.device, generator=self.random, dtype=torch.int32)
        order = torch.randperm(s.pool, device=self.device, generator=self.random).to(torch.int32)
        used = torch.arange(width, device=self.device)[None, :] < self.integers(s.pages)[:, None]
        table[used] = order[:sum(s.pages)]
        return table

    def stretch(self):
        s = self.scenario
        if s.input_dist != "randn_x8_outliers":
            return
        self.t["q"] *= 8
        for b in range(s.B):
            k = self.get("k", b).clone()
            far = torch.randperm(len(k), device=self.device, generator=self.random)[:max(1, len(k) // 200)]
            k[far] *= 20
            self.put("k", b, k)

    def spoil(self, garbage):
        s = self.scenario
        if not s.padded:
            return
        value = bits(torch.tensor([garbage], device=self.device).to(DTYPES[s.dtype]))
        for name in ("k", "v"):
            rows = bits(self.t[name]).flatten(0, 1)
            unused = torch.ones(len(rows), dtype=torch.bool, device=self.device)
            for b in range(s.B):
                unused[self.places(b)] = False
            rows.masked_fill_(unused[:, None, None], value[0])
        for b in range(s.B):
            bits(self.t["q"])[b, s.q_used[b]:] = value[0]

    def places(self, b):
        """Storage rows of the keys of sequence b."""
        s = self.scenario
        if s.paged:
            position = torch.arange(s.pad[b], max(s.pad[b], s.k_end[b]), device=self.device)
            return self.t["page_table"][b].long()[position // s.page_size] * s.page_size + position % s.page_size
        first = s.k_first[b] if s.varlen else b * s.Skv + s.pad[b]
        return slice(first, first + s.k_used[b])

    def rows(self, name, b):
        """Where the used rows of sequence b lie: (a tensor of bits, index)."""
        s, t = self.scenario, bits(self.t[name])
        if name == "q":
            first = s.q_first[b] if s.varlen else 0
            return (t if s.varlen else t[b]), slice(first, first + s.q_used[b])
        if s.packed_qkv:
            return t[b], slice(0, s.Skv)
        return (t if s.varlen else t.flatten(0, 1)), self.places(b)

    def get(self, name, b):
        """Used rows of sequence b: (rows, heads, width)."""
        storage, index = self.rows(name, b)
        return storage[index].view(self.t[name].dtype)

    def put(self, name, b, values):
        storage, index = self.rows(name, b)
        storage[index] = bits(values.to(self.t[name].dtype).contiguous())

    def copy_rows(self, other, names=("q", "k", "v")):
        """Takes over another's used rows: the same problem in other storage."""
        for name in names:
            for b in range(self.scenario.B):
                self.put(name, b, other.get(name, b))
        return self

    def exact(self, name, b):
        # No device converts eight bits to 64 in one step everywhere.
        x = self.get(name, b)
        return (x.to(torch.float32) if self.scenario.fp8 else x).to(torch.float64)

    def descale(self, name, b):
        """Per key head; ones where the dtype has none."""
        found = self.t.get(name)
        if found is None:
            return torch.ones(self.scenario.Hkv, dtype=torch.float64, device=self.device)
        return found[b].to(torch.float64)

    def on_host(self):
        """The same inputs in host memory."""
        copy = object.__new__(Inputs)
        copy.scenario, copy.device, copy.t = self.scenario, torch.device("cpu"), {n: t.cpu() for n, t in self.t.items()}
        return copy

    def of_key_head(self, h):
        """Views of one key head and its query heads."""
        mine = slice(h * self.scenario.group, (h + 1) * self.scenario.group)
        part = object.__new__(Inputs)
        part.scenario, part.device, part.t = self.scenario, self.device, dict(self.t)
        part.t["q"] = self.t["q"][..., mine, :]
        part.t["k"], part.t["v"] = self.t["k"][..., h:h + 1, :], self.t["v"][..., h:h + 1, :]
        for name in ("q_descale", "k_descale", "v_descale"):
            if name in part.t:
                part.t[name] = self.t[name][:, h:h + 1]
        if "sink" in part.t:
            part.t["sink"] = self.t["sink"][mine]
        return part


class Outputs:
    """`out` and `lse`, all bits set (NaN), with a guard on both sides that nobody may write to."""

    GUARD = 256  # bytes, so that what lies between stays aligned

    def __init__(self, scenario, device):
        s, self.raw = scenario, {}
        rows = (sum(s.q_used),) if s.varlen else (s.B, s.Sq)
        self.out = self.filled("out", DTYPES[s.out_dtype], (*rows, s.Hq, s.Dv), device)
        self.lse = self.filled("lse", torch.float32, (s.Hq, *rows) if s.varlen else (s.B, s.Hq, s.Sq), device)
        self.scenario = s

    def filled(self, name, dtype, shape, device):
        size, guard = torch.Size(shape).numel(), self.GUARD // dtype.itemsize
        self.raw[name] = torch.empty(size + 2 * guard, dtype=dtype, device=device)
        bits(self.raw[name]).fill_(-1)
        return self.raw[name][guard:guard + size].view(shape)

    def intact(self):
        ends = [bits(t)[part] for t in self.raw.values() for part in (slice(self.GUARD // t.element_size()),
                                                                      slice(-(self.GUARD // t.element_size()), None))]
        return all(bool((end == -1).all()) for end in ends)

    def rows(self, b, first, last):
        """(rows, heads, width) of out and (heads, rows) of lse."""
        if self.scenario.varlen:
            first, last = first + self.scenario.q_first[b], last + self.scenario.q_first[b]
            return self.out[first:last], self.lse[:, first:last]
        return self.out[b, first:last], self.lse[b, :, first:last]

    def of_key_head(self, h):
        mine = slice(h * self.scenario.group, (h + 1) * self.scenario.group)
        part = object.__new__(Outputs)
        part.scenario, part.out, part.lse = self.scenario, self.out[..., mine, :], self.lse[..., mine, :]
        return part
