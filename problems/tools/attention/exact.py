"""Attention straight from the definition in float64, in blocks of rows, with a bound on what the reference may be off by.

The bound follows the arithmetic of the problem's reference.cu. u = 2^-24; only first-order terms are written out, and 2 % are
added for the others. For one row let S = scale |q| max|k|, which no logit exceeds, in f32 or not.

 * The dot product is a chain of D fused multiply-adds: off by D u |q||k| at most (Cauchy-Schwarz). The scale is rounded, so is
   its product with the sum, and one rounding is spare (an fp8 descale taken apart): a logit is off by d = (D + 3) u S.
 * Soft cap c: the quotient is off by 2 u S more, tanh by 4 ulp (8 u), the product by u; tanh has slope 1 at most. With
   T = min(c, S): d + 2 u S + 9 u T. T bounds the logits from here on; without a cap T = S.
 * A weight exp(s - m): m is the largest logit or the sink, so |s - m| <= W = T + max(T, |sink|). The difference is rounded
   (u W), expf is within 4 ulp: relative error p = d + u W + 8 u. That m is itself off does not matter: it cancels.
 * The sum is in double, but each of its terms is scaled on whenever its thread meets a larger logit, and once when the threads
   of a row meet: each time an expf (8 u), the differences of which add up to W at most. Logits come in no order, so a thread
   meets ln(n) new largest ones among n; 40 are granted. Relative error of the sum: l = d + 3 u W + 8 u (40 + 2).
 * The weighted values are summed in f32 over 64 keys, then in double: 64 u of the sum A of |weight value|.
 * So out is off by E_out = A (p + l + 65 u), A being normalised here, and lse by E_lse = l, before they are rounded to their
   types. A weight under 2^-126 is off by 2^-150 absolutely.
"""

import torch

U = 2.0**-24
SLACK = 1.02
RECORDS = 40
# Mantissa bits and smallest normal exponent.
FORMATS = {torch.bfloat16: (7, -126), torch.float16: (10, -14), torch.float32: (23, -126)}
# Logits that exp takes in double without a shift.
UNSHIFTED = 600.0


def half_ulp(x, dtype):
    """Half the distance between two values of the type at |x|."""
    mantissa, least = FORMATS[dtype]
    power = (x.view(torch.int64) & 0x7FF0000000000000).view(torch.float64)
    return power.clamp_(min=2.0**least).mul_(2.0**-(mantissa + 1))


class Block:
    """Rows [first, last) of sequence b: out and its bound (rows, heads, width), lse and its bound (heads, rows)."""

    def __init__(self, b, first, last, out, out_bound, lse, lse_bound):
        self.b, self.first, self.last = b, first, last
        self.out, self.out_bound, self.lse, self.lse_bound = out, out_bound, lse, lse_bound

    def of_heads(self, taken):
        parts = (self.out[:, taken], self.out_bound[:, taken], self.lse[taken], self.lse_bound[taken])
        return Block(self.b, self.first, self.last, *parts)


def starts(scenario, b, room):
    """First rows of the blocks of a sequence, and their height: scores of a block take `room` bytes at most, and a mask wastes
    little of it."""
    rows, keys = scenario.q_used[b], scenario.k_used[b]
    height = max(256, rows // 8)
    if scenario.left >= 0 and scenario.right >= 0:
        keys = min(keys, scenario.left + scenario.right + 1 + height)
    height = max(1, min(height, int(room / (8 * scenario.Hq * max(1, keys)))))
    return list(range(0, rows, height)), height


def spread(count, share):
    """Which of `count` blocks to take for a share of them: evenly, with both ends."""
    wanted = min(count, max(2, round(share * count)))
    return sorted({round(i * (count - 1) / max(1, wanted - 1)) for i in range(wanted)})


def blocks(inputs, share=1.0, room=1.5e9):
    s = inputs.scenario
    for b in range(s.B):
        if s.q_used[b] == 0:
            continue
        sequence = Sequence(inputs, b)
        firsts, height = starts(s, b, room)
        for index in spread(len(firsts), share):
            yield sequence.block(firsts[index], min(firsts[index] + height, s.q_used[b]))


class Sequence:
    def __init__(self, inputs, b):
        s = inputs.scenario
        self.s, self.b, self.device = s, b, inputs.device
        factor = s.scale * inputs.descale("q_descale", b) * inputs.descale("k_descale", b)
        # Folded into q, so that scores need no pass for it: the scale and, for a soft cap, what tanh is taken of.
        q = inputs.exact("q", b).view(-1, s.Hkv, s.group, s.D) * (factor / (s.softcap or 1.0))[:, None, None]
        self.q = q.permute(1, 0, 2, 3).contiguous()               # key head, row, head of the group, D
        k = inputs.exact("k", b)
        self.k = k.permute(1, 2, 0)                               # key head, D, key
        self.v = inputs.exact("v", b).permute(1, 0, 2).contiguous()  # key head, key, Dv
        self.v *= inputs.descale("v_descale", b)[:, None, None]
        self.v_size = self.v.abs()
        self.v_most = self.v_size.amax() if len(k) else torch.zeros((), dtype=torch.float64, device=self.device)
        k_most = k.norm(dim=2).amax(0) if len(k) else torch.zeros(s.Hkv, dtype=torch.float64, device=self.device)
        self.most = self.q.norm(dim=3) * k_most[:, None, None] * (s.softcap or 1.0)  # S of the bound: key head, row, head
        self.sink = None
        if s.sink:
            self.sink = inputs.t["sink"].to(torch.float64).view(s.Hkv, 1, s.group)
        self.shifted = bool(torch.cat([self.most.flatten(), (self.sink if s.sink else self.most).abs().flatten()]).max()
                            > UNSHIFTED)

    def block(self, first, last):
        s, rows = self.s, last - first
        here = torch.arange(first, last, device=self.device) + (s.k_used[self.b] - s.q_used[self.b])
        low, high = s.sees(self.b, first)[0], s.sees(self.b, last - 1)[1]
        keys = max(0, high - low)
        high = low + keys
        shape = (s.Hkv, rows, s.group)
        scores = torch.bmm(self.q[:, first:last].reshape(s.Hkv, rows * s.group, s.D), self.k[:, :, low:high])
        if s.softcap > 0:
            scores.tanh_().mul_(s.softcap)
        self.hide(scores.view(*shape, keys), here, low, first, last)
        shift = torch.zeros((), dtype=torch.float64, device=self.device)
        if self.shifted:
            shift = scores.amax(-1).view(shape) if keys else torch.full(shape, -torch.inf, dtype=torch.float64, device=self.device)
            shift = shift if self.sink is None else torch.maximum(shift, self.sink)
            shift = torch.where(shift == -torch.inf, 0.0, shift)
            scores -= shift.view(s.Hkv, -1, 1)
        scores.exp_()
        total = scores.sum(-1).view(shape)
        if self.sink is not None:
            total = total + (self.sink - shift).exp()
        share = torch.where(total > 0, 1 / total, 0.0)
        out, size = (torch.bmm(scores, v[:, low:high]).view(*shape, s.Dv) * share[..., None] for v in (self.v, self.v_size))
        lse = total.log() + shift
        weight, of_sum = self.relative(first, last)
        size *= (SLACK * (weight + of_sum + 65 * U))[..., None]
        size += keys * 2.0**-148 * self.v_most
        flat = (rows, s.Hq, s.Dv)
        bound = (SLACK * of_sum).expand(shape)
        by_head = [t.permute(0, 2, 1).reshape(s.Hq, rows) for t in (lse, bound)]
        return Block(self.b, first, last, out.transpose(0, 1).reshape(flat), size.transpose(0, 1).reshape(flat), *by_head)

    def relative(self, first, last):
        """Relative errors of a weight and of the sum, per row: p and l of the bound."""
        s, most = self.s, self.most[:, first:last]
        logit, size = (s.D + 3) * U * most, most
        if s.softcap > 0:
            size = most.clamp(max=s.softcap)
            logit = logit + 2 * U * most + 9 * U * size
        reach = size + (size if self.sink is None else torch.maximum(size, self.sink.abs()))
        return logit + U * reach + 8 * U, logit + 3 * U * reach + 8 * U * (RECORDS + 2)

    def hide(self, scores, here, low, first, last):
        """-inf where a row does not see a key. Only the columns that some row does not see are touched."""
        s, keys = self.s, scores.shape[-1]
        column = torch.arange(low, low + keys, device=self.device)
        if s.right >= 0:
            clear = min(max(first + s.k_used[self.b] - s.q_used[self.b] + s.right + 1 - low, 0), keys)
            hidden = column[None, clear:] > (here + s.right)[:, None]
            scores[..., clear:].masked_fill_(hidden[None, :, None, :], -torch.inf)
        if s.left >= 0:
            full = min(max(last - 1 + s.k_used[self.b] - s.q_used[self.b] - s.left - low, 0), keys)
            hidden = column[None, :full] < (here - s.left)[:, None]
            scores[..., :full].masked_fill_(hidden[None, :, None, :], -torch.inf)
