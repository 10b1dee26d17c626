"""A scenario of the attention problem: its lengths, masks, tolerance. Follows the problem file's semantics, shares no code with it."""

import math

DEFAULTS = {"dtype": "bf16", "layout": "dense", "page_size": 1, "packed_qkv": False, "causal": False, "window": None,
            "softcap": 0.0, "sink": False, "softmax_scale": None, "q_lens": None, "kv_lens": None, "leftpad": None,
            "input_dist": "randn"}


class Scenario:
    def __init__(self, line):
        self.line, self.id = line, line.get("id", "")
        for name, value in {**DEFAULTS, **line}.items():
            setattr(self, name, value)
        self.Dv = line.get("Dv") or self.D
        self.group = self.Hq // self.Hkv
        self.fp8 = self.dtype == "f8e4m3"
        self.out_dtype = "bf16" if self.fp8 else self.dtype
        self.varlen, self.paged = self.layout == "varlen", self.layout == "paged"
        self.padded = self.layout in ("kvcache", "paged")
        ragged = self.layout != "dense"
        # Query rows of each sequence; key rows with the left pad; the left pad; key rows without it.
        self.q_used = list(self.q_lens) if ragged and self.q_lens else [self.Sq] * self.B
        self.k_end = list(self.kv_lens) if ragged and self.kv_lens else [self.Skv] * self.B
        self.pad = list(self.leftpad) if self.padded and self.leftpad else [0] * self.B
        self.k_used = [max(0, end - pad) for end, pad in zip(self.k_end, self.pad)]
        self.left = -1 if self.window is None else self.window[0]
        self.right = 0 if self.causal else -1 if self.window is None else self.window[1]
        self.scale = self.softmax_scale if self.softmax_scale is not None else 1.0 / math.sqrt(self.D)
        self.pages = [-(-end // self.page_size) for end in self.k_end]
        self.pool = max(1, -(-5 * sum(self.pages) // 4))
        self.q_first = [sum(self.q_used[:b]) for b in range(self.B)]
        self.k_first = [sum(self.k_used[:b]) for b in range(self.B)]

    def sees(self, b, i):
        """Keys [low, high) that query row i of sequence b sees, counted behind the left pad."""
        keys, here = self.k_used[b], i + self.k_used[b] - self.q_used[b]
        low = 0 if self.left < 0 else min(max(here - self.left, 0), keys)
        high = keys if self.right < 0 else min(max(here + self.right + 1, 0), keys)
        return low, max(low, high)

    def attributes(self):
        varlen = self.varlen
        return {"softmax_scale": self.scale, "softcap": self.softcap, "causal": int(self.causal), "window_left": self.left,
                "window_right": -1 if self.window is None else self.window[1],
                "max_seqlen_q": max(self.q_used) if varlen else self.Sq, "max_seqlen_k": max(self.k_used) if varlen else self.Skv,
                "total_q": sum(self.q_used) if varlen else self.B * self.Sq}

    def work(self):
        """Multiply-adds of the exact attention, roughly: what a budget is shared out by."""
        pairs = 0
        for b in range(self.B):
            rows = range(0, self.q_used[b], max(1, self.q_used[b] // 16))
            seen = [high - low for low, high in (self.sees(b, i) for i in rows)]
            pairs += sum(seen) / max(1, len(seen)) * self.q_used[b]
        return pairs * self.Hq * (self.D + 2 * self.Dv)

    def tolerance(self):
        """What the grid's data file grants a kernel: max |o - exact| <= mult * max |model - exact| + floor, and so on."""
        capped = self.softcap > 0
        rms = 5e-2 if self.fp8 else 5e-3 if self.dtype == "bf16" else 3e-3 if capped else 1e-3
        lse = (1e-1 if capped else 3e-2) if self.fp8 else 6e-2 if capped else 1e-3
        return {"mult": 4.0 if self.fp8 else 3.0 if capped else 2.0, "mean_mult": 3.0 if self.fp8 else 1.5,
                "floor_abs": 1e-3 if self.fp8 else 1e-5, "rel_rms_max": rms, "lse_atol": lse}


def divided(line, by, batches=4):
    """The scenario with its lengths divided and its batch cut. Windows shrink along: else they would hide nothing any more.
    A sequence that had a key keeps one."""
    if by <= 1:
        return line
    line, less = dict(line), lambda n: -(-n // by)
    line["B"] = min(line["B"], batches)
    line["Sq"], line["Skv"] = less(line["Sq"]), less(line["Skv"])
    for name in ("q_lens", "kv_lens"):
        if line.get(name):
            line[name] = [less(n) for n in line[name][:batches]]
    if line.get("leftpad"):
        ends = line.get("kv_lens") or [line["Skv"]] * line["B"]
        line["leftpad"] = [min(less(pad), max(0, end - 1)) for pad, end in zip(line["leftpad"], ends)]
    if line.get("window"):
        line["window"] = [n if n < 0 else less(n) for n in line["window"]]
    return line
