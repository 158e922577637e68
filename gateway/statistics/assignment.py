"""Assign units to variants by weighted rendezvous hashing, without state, the same everywhere.

Every variant draws a number for the unit, h in (0, 1), that depends on the experiment, the variant
and the unit only; the variant with the least −ln(h)/weight wins. −ln(h)/weight is
exponentially distributed with rate `weight`, so a variant wins with probability weight / sum of
weights. A weight enters its own variant's score alone: growing it can only make that variant win
more, and what the others draw among themselves stays as it was.

Weighted rendezvous hashing: J. Resch, New Hashing Algorithms for Data Storage, SNIA SDC 2015;
https://en.wikipedia.org/wiki/Rendezvous_hashing#Weighted_rendezvous_hash
"""

from collections.abc import Sequence
from hashlib import blake2b
from math import inf, isfinite, log

from msgspec import Struct

KEY = b"strowger experiments, assignment 1"
"""The key of the hash. It must never change: another key would reassign all units."""

_UNIT = 2.0**-53
_number = int.from_bytes


class WeightedArm(Struct, frozen=True, kw_only=True):
    """A variant's share. weight: finite, at least 0, relative to the other arms' weights."""

    name: str
    weight: float


class Assignment:
    """The arms of one experiment; immutable, shared by all requests of a process."""

    __slots__ = ("_drawing",)

    def __init__(self, experiment: str, arms: Sequence[WeightedArm]) -> None:
        """Raises ValueError for two arms of one name, a weight out of range, or no weight at all.

        The order of `arms` does not matter. The prefix of experiment and variant is hashed here,
        once.
        """
        names = [arm.name for arm in arms]
        if len(set(names)) != len(names):
            raise ValueError(f"experiment {experiment!r}: two variants have the same name")
        for arm in arms:
            if not (isfinite(arm.weight) and arm.weight >= 0):
                raise ValueError(
                    f"experiment {experiment!r}, variant {arm.name!r}: weight is {arm.weight};"
                    " it must be a finite number of at least 0"
                )
        open_arms = sorted((arm for arm in arms if arm.weight > 0), key=lambda arm: arm.name)
        if not open_arms:
            raise ValueError(f"experiment {experiment!r}: no variant has a weight above 0")
        head = _field(experiment)
        self._drawing = tuple(
            (blake2b(head + _field(arm.name), digest_size=8, key=KEY), arm.weight, arm.name)
            for arm in open_arms
        )

    def variant(self, unit: str) -> str:
        """The unit's variant. unit: any string, the empty one too."""
        field = _field(unit)
        best, winner = inf, ""
        for prefix, weight, name in self._drawing:
            state = prefix.copy()
            state.update(field)
            # The upper 53 of 64 bits, exact in a double; 0 stands for half a step, so h > 0.
            draw = (_number(state.digest()) >> 11) or 0.5
            score = -log(draw * _UNIT) / weight
            if score < best:
                best, winner = score, name
        return winner or self._drawing[0][2]


def _field(text: str) -> bytes:
    """The text with its length in front, so that no two lists of fields give the same bytes.

    A lone surrogate, which JSON can carry, has its bytes like any other character.
    """
    data = text.encode("utf-8", "surrogatepass")
    return len(data).to_bytes(8) + data
