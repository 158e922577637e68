"""Counter-based random numbers: the same key gives the same number on every device, in any batch.

SplitMix64's finaliser over (seed, position, token id), so that a request's draw depends only on
the request, not on its neighbours, its place in the batch, or a preemption.
https://prng.di.unimi.it/splitmix64.c
"""

import torch
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)


def _whole(value: int) -> Tensor:
    """Return a constant as a 0-dim tensor, which torch handles faster than a Python number."""
    return torch.tensor(value, dtype=torch.int64)


_ROUNDS = (
    (_whole(30), _whole((1 << 34) - 1), _whole(0xBF58476D1CE4E5B9 - (1 << 64))),
    (_whole(27), _whole((1 << 37) - 1), _whole(0x94D049BB133111EB - (1 << 64))),
)
_LAST, _LAST_MASK = _whole(31), _whole((1 << 33) - 1)
_SPARE, _SPARE_MASK = _whole(11), _whole((1 << 53) - 1)
_STEP = torch.tensor(2.0**-53, dtype=torch.float64)
_HALF_STEP = torch.tensor(2.0**-54, dtype=torch.float64)
_TINY = 1e-30


def fold_seed(seed: int) -> int:
    """Return `seed` (0 … 2**64-1, or a negative int64) as the int64 with the same 64 bits.

    Raises ValueError outside -2**63 … 2**64-1.
    """
    if not -(1 << 63) <= seed < 1 << 64:
        raise ValueError(f"seed: {seed} must be within -2**63 and 2**64-1")
    return seed - (1 << 64) if seed >= 1 << 63 else seed


def derive_seed(seed: int, index: int) -> int:
    """Return the int64 seed of a request's answer number `index`; answer 0 keeps the seed."""
    if index == 0:
        return fold_seed(seed)
    folded = torch.tensor([fold_seed(seed)], dtype=torch.int64)
    lane = torch.tensor([-index], dtype=torch.int64)
    return int(_mix(_mix(folded) + lane * _GOLDEN)[0])


def row_keys(seeds: Tensor, positions: Tensor) -> Tensor:
    """Return one key for each row and step: the state from which its token 0 is mixed.

    seeds: int64, any shape. positions: int64, broadcastable to it; 0 is the first token drawn.
    Returns int64 of the broadcast shape.
    """
    return _mix(torch.add(seeds, positions, alpha=_GOLDEN)).add_(_GOLDEN)


def uniforms(keys: Tensor) -> Tensor:
    """Return one number in (0, 1] per key, float64, from a stream that no token id shares.

    keys: int64, any shape, from `row_keys`.
    """
    return _unit(_mix(keys - _GOLDEN))


def exponentials(keys: Tensor, ids: Tensor) -> Tensor:
    """Return Exp(1) numbers, float32 [R, K], one for each row and token id; never 0.

    keys: int64 [R, 1], from `row_keys`. ids: int64 [R, K] token ids, 0 or more.
    """
    logs = _unit(_mix(torch.add(keys, ids, alpha=_GOLDEN))).log_()
    return torch.rsub(logs, _TINY).to(torch.float32)


def _unit(bits: Tensor) -> Tensor:
    """((bits >>> 11) + 0.5) * 2**-53, a float64 in (0, 1]."""
    bits = bits.bitwise_right_shift_(_SPARE).bitwise_and_(_SPARE_MASK)
    return bits.mul(_STEP).add_(_HALF_STEP)


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64, in place; shifts are logical, products wrap."""
    for shift, mask, factor in _ROUNDS:
        x.bitwise_xor_(x.bitwise_right_shift(shift).bitwise_and_(mask)).mul_(factor)
    return x.bitwise_xor_(x.bitwise_right_shift(_LAST).bitwise_and_(_LAST_MASK))
