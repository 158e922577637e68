"""Counter-based random numbers: the same key gives the same number on every device, in any batch.

SplitMix64's finaliser over (seed, position, token id), so that a request's draw depends on
nothing but the request: not on its neighbours, its place in the batch, or a preemption.
https://prng.di.unimi.it/splitmix64.c
"""

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)
_SMALLEST = 2.0**-54


def fold_seed(seed: int) -> int:
    """`seed` (0 … 2**64-1, or a negative int64) as the int64 with the same 64 bits.

    Raises ValueError outside -2**63 … 2**64-1.
    """
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError(f"seed: {seed} must be within -2**63 and 2**64-1")
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def derive_seed(seed: int, index: int) -> int:
    """The int64 seed of a request's answer number `index`; answer 0 keeps the request's own."""
    if index == 0:
        return fold_seed(seed)
    folded = torch.tensor([fold_seed(seed)], dtype=torch.int64)
    lane = torch.tensor([-index], dtype=torch.int64)
    return int(_mix(_mix(folded) + lane * _GOLDEN)[0])


def row_keys(seeds: Tensor, positions: Tensor) -> Tensor:
    """One key for each row and step.

    seeds: int64, any shape. positions: int64, broadcastable to it; 0 is the first token drawn.
    Returns int64 of the broadcast shape.
    """
    return _mix(seeds + positions * _GOLDEN)


def uniforms(keys: Tensor) -> Tensor:
    """One number in (0, 1] per row, float64 [R], of a stream that no token id shares.

    keys: int64 [R], from `row_keys`.
    """
    return _unit(_mix(keys))


def exponentials(keys: Tensor, ids: Tensor) -> Tensor:
    """Exp(1) numbers, float32 [R, K], one for each row and token id; never 0.

    keys: int64 [R], from `row_keys`. ids: int64 [R, K] token ids, 0 or more.
    """
    lanes = ids + 1
    lanes.mul_(_GOLDEN).add_(keys.unsqueeze(1))
    return _unit(_mix(lanes)).log_().neg_().clamp_min_(_SMALLEST).to(torch.float32)


def _unit(bits: Tensor) -> Tensor:
    """The upper 53 bits as a float64 in (0, 1]."""
    high = (bits >> 11).bitwise_and_((1 << 53) - 1).to(torch.float64)
    return high.add_(0.5).mul_(2.0**-53)


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64; shifts are logical, products wrap."""
    x = x ^ (x >> 30).bitwise_and_((1 << 34) - 1)
    x.mul_(_MIX_1)
    x.bitwise_xor_((x >> 27).bitwise_and_((1 << 37) - 1))
    x.mul_(_MIX_2)
    return x.bitwise_xor_((x >> 31).bitwise_and_((1 << 33) - 1))
