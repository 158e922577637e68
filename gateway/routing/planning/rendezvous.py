"""Weighted rendezvous hashing: the same key finds the same backend, whoever asks.

Thaler and Ravishankar 1998, with the weights of Schindelhauer and Schomaker 2005: a key goes
where -ln(h) / weight is least, h being a hash of key and name, uniform in (0, 1). When a weight
grows, keys move to its backend alone; when one goes, its keys alone move.
"""

from collections.abc import Sequence
from hashlib import blake2b
from math import inf, log

_SCALE = 2.0**-53


def score(key: bytes, name: str, weight: float) -> float:
    """The less, the sooner. Infinite without a weight."""
    if weight <= 0:
        return inf
    digest = blake2b(name.encode(), digest_size=8, key=blake2b(key, digest_size=32).digest())
    bits = int.from_bytes(digest.digest(), "big") >> 11
    return -log((bits + 0.5) * _SCALE) / weight


def ranked(key: bytes, names: Sequence[str], weights: Sequence[float]) -> list[int]:
    """Indexes in the key's own order; those of weight 0 come last, as listed."""
    scores = [score(key, name, weight) for name, weight in zip(names, weights, strict=True)]
    return sorted(range(len(names)), key=scores.__getitem__)
