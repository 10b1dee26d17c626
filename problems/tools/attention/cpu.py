"""Holds the reference against the CPU problem's reference.c: double precision, other code, other rounding, every dtype."""

import concurrent.futures
import time

import torch

from .exact import blocks, half_ulp
from .inputs import Inputs, Outputs
from .judge import Bounded, Shape
from .scenario import Scenario, divided

# Multiply-adds of one scenario beyond which only some key heads are taken, which are independent of each other; where one alone
# takes more, lengths are halved on. A core does some 5e7 a second.
MOST = 2e8


class Against:
    """Starts with the device's answers; threads then run the C reference, which holds no interpreter lock, while the device does
    other things; `results` waits for them."""

    def __init__(self, lines, by, reference, oracle, device, jobs):
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.oracle, self.entries = oracle, [None] * len(lines)
        small = [self.small(line, by) for line in lines]
        # Longest first: the threads end at about the same time.
        for index in sorted(range(len(lines)), key=lambda i: -self.of_head(small[i])):
            scenario = small[index]
            try:
                inputs = Inputs(scenario, device, seed="cpu")
                answer = reference.run(inputs)
                host, expected = inputs.on_host(), Outputs(scenario, "cpu")
                heads = self.heads(scenario)
                parts = [self.pool.submit(self.call, host.of_key_head(h), expected.of_key_head(h)) for h in heads]
                self.entries[index] = (scenario, inputs, answer, expected, heads, parts, None)
            except RuntimeError as error:
                self.entries[index] = (scenario, None, None, None, [], [], str(error))

    def call(self, inputs, outputs):
        start = time.perf_counter()
        self.oracle.bind(inputs, outputs).run()
        return time.perf_counter() - start

    @staticmethod
    def of_head(s):
        return s.work() / s.Hkv * (s.D + s.Dv) / (s.D + 2 * s.Dv)

    @classmethod
    def small(cls, line, by):
        scenario = Scenario(divided(line, by))
        return scenario if cls.of_head(scenario) <= MOST or scenario.Sq * scenario.Skv == 1 else cls.small(line, 2 * by)

    @classmethod
    def heads(cls, s):
        count = max(1, min(s.Hkv, int(MOST / max(1.0, cls.of_head(s)))))
        return sorted({round(i * (s.Hkv - 1) / max(1, count - 1)) for i in range(count)})

    def results(self):
        for scenario, inputs, answer, expected, heads, parts, failed in self.entries:
            row = {"id": scenario.id, "Sq": scenario.Sq, "Skv": scenario.Skv, "key_heads": scenario.Hkv, "key_heads_checked": len(heads)}
            try:
                if failed:
                    raise RuntimeError(failed)
                row["cpu_seconds"] = sum(part.result() for part in parts)
                row.update(self.compare(scenario, inputs, answer, expected, heads))
            except RuntimeError as error:
                row["wrong"] = [str(error)]
            yield row

    def compare(self, s, inputs, answer, expected, heads):
        """Both against the exact attention, and against each other: half a unit each and the bound."""
        device = inputs.device
        taken = torch.zeros(s.Hq, dtype=torch.bool, device=device)
        for h in heads:
            taken[h * s.group:(h + 1) * s.group] = True
        there = Outputs(s, device)
        there.out.copy_(expected.out)
        there.lse.copy_(expected.lse)
        # Heads that were left out count as answered alike.
        there.out[..., ~taken, :] = answer.out[..., ~taken, :]
        there.lse[..., ~taken, :] = answer.lse[..., ~taken, :]
        own, pair, shape = Bounded(answer, device), [0.0, 0.0], Shape(s, device)
        oracle = Bounded(Heads(there, taken), device)
        for block in blocks(inputs):
            own.add(block)
            oracle.add(block.of_heads(taken), bound_scale=1e-6)
            mine, other = answer.rows(block.b, block.first, block.last), there.rows(block.b, block.first, block.last)
            bounds = (block.out.abs() + block.out_bound, block.out_bound), \
                (torch.where(block.lse == -torch.inf, 0.0, block.lse).abs() + block.lse_bound, block.lse_bound)
            for which, (a, o, (size, bound)) in enumerate(zip(mine, other, bounds)):
                off = torch.where(a == o, 0.0, (a.to(torch.float64) - o.to(torch.float64)).abs())
                worst = (off / (2 * half_ulp(size, a.dtype) + bound)).amax().item()
                pair[which] = worst if not worst <= pair[which] else pair[which]
        result, of_oracle = own.result(), oracle.result()
        wrong = shape.complaints(answer) + Bounded.complaints(result)
        wrong += [f"reference.c: {c}" for c in shape.complaints(there) + Bounded.complaints(of_oracle)]
        wrong += [f"against reference.c, {name} is {value:.3g}, over 1" for name, value in zip(("ratio", "lse_ratio"), pair)
                  if not value <= 1]
        return {"ratio": pair[0], "lse_ratio": pair[1], "reference_ratio": result["ratio"], "oracle_ratio": of_oracle["ratio"],
                "bits_differ": (answer.out != there.out)[..., taken, :].double().mean().item(), "wrong": wrong}

    def close(self):
        self.pool.shutdown(wait=False, cancel_futures=True)


class Heads:
    """The outputs of some heads."""

    def __init__(self, outputs, taken):
        self.outputs, self.taken = outputs, taken

    def rows(self, b, first, last):
        out, lse = self.outputs.rows(b, first, last)
        return out[:, self.taken], lse[self.taken]
