"""Layer normalisation in double precision with torch. The variance is the mean squared distance from the mean."""

import torch

ROWS_AT_ONCE = 1 << 24  # elements that are held in double precision at a time


def op(call):
    rows, cols = call.x.shape
    gamma, beta = call.gamma.double(), call.beta.double()
    step = max(1, ROWS_AT_ONCE // cols)
    for first in range(0, rows, step):
        part = slice(first, min(first + step, rows))
        x = call.x[part].double()
        mean = x.mean(dim=1, keepdim=True)
        centred = x - mean
        rstd = (centred.square().mean(dim=1, keepdim=True) + call.eps).rsqrt()
        call.y[part] = to_bfloat16(centred * rstd * gamma + beta)
        call.mean[part] = mean[:, 0].float()
        call.rstd[part] = rstd[:, 0].float()


def to_bfloat16(values):
    """Rounds once: by way of float, a value just off a tie of bfloat16 would be rounded onto the tie and then away.
    So the float is made odd where it is not exact (its last bit says that something was cut off)."""
    near = values.float()
    back = near.double()
    bits = near.view(torch.int32)
    # Towards zero first: a float that lies beyond the value is one step too far.
    bits = bits - (back.abs() > values.abs()).int()
    odd = torch.where(back != values, bits | 1, bits)
    return odd.view(torch.float32).bfloat16()
