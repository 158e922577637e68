"""Weighted rendezvous hashing: every process maps a key to the same backend, without shared state.

Thaler and Ravishankar 1998, with the weights of Schindelhauer and Schomaker 2005: a key goes to the
backend with the least -ln(h) / weight, where h is a hash of key and name, uniform in (0, 1). If a
weight grows, keys move only to that backend; if a backend is removed, only its own keys move.
"""

from collections.abc import Sequence
from hashlib import blake2b
from math import inf, log

_SCALE = 2.0**-53


def score(key: bytes, name: str, weight: float) -> float:
    """The score of a name for a key: the lowest one wins. Infinite if the weight is 0."""
    if weight <= 0:
        return inf
    digest = blake2b(name.encode(), digest_size=8, key=blake2b(key, digest_size=32).digest())
    bits = int.from_bytes(digest.digest(), "big") >> 11
    return -log((bits + 0.5) * _SCALE) / weight


def ranked(key: bytes, names: Sequence[str], weights: Sequence[float]) -> list[int]:
    """Indexes in the order of the key; names with weight 0 come last, in the listed order."""
    scores = [score(key, name, weight) for name, weight in zip(names, weights, strict=True)]
    return sorted(range(len(names)), key=scores.__getitem__)
