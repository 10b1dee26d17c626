"""Holds answers against the exact attention, block by block: the reference by its bound, a kernel by the scenario's tolerance."""

import torch

from .exact import half_ulp
from .inputs import Outputs, bits
from .library import Sample


def most(a, b):
    """Larger of two; NaN stays."""
    return torch.maximum(a, b.amax()) if b.numel() else a


class Shape:
    """What needs no numbers, for every row: nothing missing, nothing leaked, rows without keys as they must be."""

    def __init__(self, scenario, device):
        s = self.scenario = scenario
        stored = [s.q_used[b] if s.varlen else s.Sq for b in range(s.B)]
        empty = torch.ones(sum(stored), dtype=torch.bool)
        padding, first = empty.clone(), 0
        for b in range(s.B):
            rows = torch.arange(s.q_used[b])
            here = rows + (s.k_used[b] - s.q_used[b])
            low = (here - s.left).clamp(0, s.k_used[b]) if s.left >= 0 else torch.zeros_like(rows)
            high = (here + s.right + 1).clamp(0, s.k_used[b]) if s.right >= 0 else torch.full_like(rows, s.k_used[b])
            empty[first:first + s.q_used[b]] = low >= high
            padding[first:first + s.q_used[b]] = False
            first += stored[b]
        self.empty = empty.to(device).view(-1) if s.varlen else empty.to(device).view(s.B, s.Sq)
        void = (padding if s.sink else empty).to(device)
        self.void = void[None, :] if s.varlen else void.view(s.B, 1, s.Sq)

    def complaints(self, outputs):
        wrong = []
        if not bool(torch.isfinite(outputs.out).all()):
            wrong.append("out is not finite everywhere")
        if bool(((outputs.out != 0) & self.empty[..., None, None]).any()):
            wrong.append("out of a row without keys is not 0")
        finite = torch.isfinite(outputs.lse)
        if not bool((finite | (outputs.lse == -torch.inf)).all()):
            wrong.append("lse is NaN or +inf somewhere")
        if not bool((finite != self.void).all()):
            wrong.append("-inf of lse is not where it must be")
        if not outputs.intact():
            wrong.append("writes beside its outputs")
        return wrong


class Bounded:
    """The reference's rule: an error of half a unit in the last place and of the bound, at most."""

    def __init__(self, outputs, device):
        self.outputs = outputs
        self.sums = torch.zeros(2, dtype=torch.float64, device=device)
        self.worst = torch.zeros(4, dtype=torch.float64, device=device)
        self.otherwise = torch.zeros(2, dtype=torch.int64, device=device)

    def add(self, block, bound_scale=1.0):
        given, lse = self.outputs.rows(block.b, block.first, block.last)
        bound = block.out_bound * bound_scale
        error = (given.to(torch.float64) - block.out).abs_()
        half = half_ulp(block.out.abs().add_(bound), given.dtype)
        self.worst[0] = most(self.worst[0], error / (half + bound))
        self.worst[2] = most(self.worst[2], (error - half).clamp_(min=0) / bound.clamp(min=1e-300))
        self.sums += torch.stack([error.square().sum(), block.out.square().sum()])
        self.otherwise[0] += (error > half_ulp(block.out.abs(), given.dtype)).sum()
        self.otherwise[1] += given.numel()
        limit = block.lse_bound * bound_scale
        limit = limit + half_ulp(torch.where(block.lse == -torch.inf, 0.0, block.lse).abs() + limit, torch.float32)
        off = torch.where(lse.to(torch.float64) == block.lse, 0.0, (lse.to(torch.float64) - block.lse).abs())
        self.worst[1] = most(self.worst[1], off / limit)
        self.worst[3] = most(self.worst[3], off)

    def result(self):
        (ratio, lse_ratio, used, lse), (off, size) = self.worst.tolist(), self.sums.tolist()
        other, count = self.otherwise.tolist()
        return {"ratio": ratio, "lse_ratio": lse_ratio, "lse_error": lse, "bound_used": used, "rel_rms": (off / size)**0.5 if size else 0.0,
                "rounded_otherwise": other / max(1, count)}

    @staticmethod
    def complaints(result):
        return [f"{name} is {result[name]:.3g}, over 1" for name in ("ratio", "lse_ratio") if not result[name] <= 1]


class Errors:
    """Errors of an answer per sequence: largest, mean, RMS."""

    def __init__(self, outputs, scenario, device):
        self.outputs = outputs
        self.sums = torch.zeros(scenario.B, 4, dtype=torch.float64, device=device)
        self.largest = torch.zeros(2, dtype=torch.float64, device=device)

    def add(self, block):
        given, lse = self.outputs.rows(block.b, block.first, block.last)
        error = (given.to(torch.float64) - block.out).abs_()
        self.largest[0] = most(self.largest[0], error)
        count = torch.full((), error.numel(), dtype=torch.float64, device=error.device)
        self.sums[block.b] += torch.stack([error.sum(), error.square().sum(), block.out.square().sum(), count])
        off = torch.where(lse.to(torch.float64) == block.lse, 0.0, (lse.to(torch.float64) - block.lse).abs())
        self.largest[1] = most(self.largest[1], off)

    def result(self):
        sums, (largest, lse) = self.sums.cpu(), self.largest.tolist()
        size, square, exact, count = sums.sum(0).tolist()
        relative = torch.where(sums[:, 1] > 0, (sums[:, 1] / sums[:, 2]).sqrt(), 0.0)
        return {"max": largest, "mean": size / max(1.0, count), "rel_rms": (square / exact)**0.5 if square else 0.0,
                "rel_rms_sequence": relative.amax().item(), "lse": lse}

    @staticmethod
    def complaints(own, model, tolerance, floor=0.0):
        floor = max(floor, tolerance["floor_abs"])
        limits = {"max": tolerance["mult"] * model["max"] + floor, "mean": tolerance["mean_mult"] * model["mean"] + floor,
                  "rel_rms": tolerance["rel_rms_max"], "rel_rms_sequence": tolerance["rel_rms_max"], "lse": tolerance["lse_atol"]}
        return [f"{name} is {own[name]:.3g}, over {limit:.3g}" for name, limit in limits.items() if not own[name] <= limit]


def sampled(library, inputs, full, suffix, keys, one_in=8):
    """Calls a sampled entry point with each key: (shares written, milliseconds of the last call, complaints)."""
    wrong, masks, took = [], [], 0.0
    for key in keys:
        outputs = Outputs(inputs.scenario, inputs.device)
        took = library.bind(inputs, outputs).timed(suffix, Sample(key, one_in, 0), again=False)
        written = [bits(t) != -1 for t in (outputs.out, outputs.lse)]
        for name, mask in zip(("out", "lse"), written):
            own, whole = bits(getattr(outputs, name)), bits(getattr(full, name))
            if bool((mask & (own != whole)).any()):
                wrong.append(f"{suffix}: {name} differs from the full call's")
        row = written[0].any(-1)
        if not torch.equal(row, written[0].all(-1)) or not torch.equal(row.transpose(-1, -2), written[1]):
            wrong.append(f"{suffix}: a row is written in part")
        if not outputs.intact():
            wrong.append(f"{suffix}: writes beside its outputs")
        masks.append(row)
    shares = [mask.double().mean().item() for mask in masks]
    # Few rows may be a handful of units of work, of which a key may pick none, or all.
    if masks[0].numel() >= 4096:
        if not all(shares):
            wrong.append(f"{suffix}: a key picks no row")
        if max(shares) > 0.5:
            wrong.append(f"{suffix}: one in {one_in} is asked for, a share of {max(shares):.2f} is written")
        if len(masks) > 1 and max(shares) < 1 and torch.equal(masks[0], masks[1]):
            wrong.append(f"{suffix}: two keys pick the same rows")
    return shares, took, wrong
