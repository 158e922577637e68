"""The circuit of a variant: it opens when most of its last requests fail and control's do not.

A plain rule without a harm limit: one active unit is enough. It works on the sums of moments:

1. Each check keeps the sums of that moment. Sums from the epoch's beginning alone would hide a
   variant that fails after a week.
2. What came between two checks is a step. The variant is compared with control step by step: an
   outage of both hits both in the same steps, but not the same part of their last requests.
3. Where control has no requests, the variant is judged alone, and over a longer time:
   an outage looks like its own fault then.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Circuit

STEPS = 20
"""Sums that are kept for the last `Circuit.requests` of a variant."""

COMPARED = 3
"""Control is compared over this many times `Circuit.requests` of the variant."""

ALONE = 10
"""Over this many times `Circuit.requests` the variant is judged where control has no requests."""

FEWEST_STEPS = 4
"""Steps in which the variant has more failures than control. An outage of both begins and ends
inside a step, and there the one whose requests came earlier or later seems better."""

EXCESS_Z = 4.0
"""Standard errors: hours in which a part of all requests fail are thousands of comparisons."""

OUTAGE = 0.5
"""A variant is not blamed if control would have failed in this part of its failures."""


class Sums(Struct, frozen=True, kw_only=True, array_like=True):
    """The requests of a variant and of control at one moment of an epoch, and the failed ones."""

    requests: int = 0
    errors: int = 0
    control_requests: int = 0
    control_errors: int = 0

    def before(self, now: "Sums") -> bool:
        """False if a unit that is excluded since then makes this more than `now`."""
        gone = now.since(self)
        return (
            0 <= gone.errors <= gone.requests and 0 <= gone.control_errors <= gone.control_requests
        )

    def since(self, before: "Sums") -> "Sums":
        return Sums(
            requests=self.requests - before.requests,
            errors=self.errors - before.errors,
            control_requests=self.control_requests - before.control_requests,
            control_errors=self.control_errors - before.control_errors,
        )


def is_open(circuit: Circuit, past: Sequence[Sums], now: Sums) -> Sums | None:
    """Return the last requests of the variant and control if they open the circuit, else `None`.

    past: what `kept` returned at the last check; () at the first check of an epoch.
    """
    known = _known(past, now)
    last = _last(circuit.requests, known, now)
    if last is None or not _fails(circuit, last):
        return None
    alone = _last(ALONE * circuit.requests, known, now)
    if alone is None and Sums() in known:
        alone = now  # a variant that never worked
    if alone is not None and not alone.control_requests:
        return last if _fails(circuit, alone) else None
    return last if _fails_more(circuit, known, now) else None


def _known(past: Sequence[Sums], now: Sums) -> list[Sums]:
    return [one for one in past or (Sums(),) if one.before(now)]


def _last(requests: int, known: Sequence[Sums], now: Sums) -> Sums | None:
    for before in reversed(known):
        if now.requests - before.requests >= requests:
            return now.since(before)
    return None


def _fails(circuit: Circuit, last: Sums) -> bool:
    return last.errors >= circuit.share * last.requests


def _fails_more(circuit: Circuit, known: Sequence[Sums], now: Sums) -> bool:
    """Compare the variant with control step by step, so that both had the same time.

    A step is what came between two checks. N. Mantel and W. Haenszel, J. Natl. Cancer Inst. 22
    (1959): failures minus those expected, and their hypergeometric variance, summed over steps.
    """
    failed = excess = as_control = variance = 0.0
    steps = 0
    reach = COMPARED * circuit.requests
    for before, after in pairwise((*known, now)):
        step = after.since(before)
        n1, n0 = step.requests, step.control_requests
        if now.requests - after.requests >= reach or not (n1 and n0):
            continue
        n, errors = n1 + n0, step.errors + step.control_errors
        failed += step.errors
        as_control += n1 * step.control_errors / n0
        excess += step.errors - n1 * errors / n
        variance += n1 * n0 * errors * (n - errors) / (n * n * (n - 1))
        steps += step.errors * n0 > step.control_errors * n1
    return (
        steps >= FEWEST_STEPS
        and as_control < OUTAGE * failed
        and excess >= EXCESS_Z * sqrt(variance)
    )


def kept(circuit: Circuit, past: Sequence[Sums], now: Sums) -> tuple[Sums, ...]:
    """Return the sums to keep for the next check: `past` and `now`, older ones at wide steps."""
    found = _known(past, now)
    if not found or now.requests - found[-1].requests >= max(circuit.requests // STEPS, 1):
        found.append(now)
    while len(found) > 1 and now.requests - found[1].requests >= ALONE * circuit.requests:
        del found[0]
    at = 1
    while at < len(found) - 1 and (
        now.requests - found[at].requests >= COMPARED * circuit.requests
    ):
        if found[at + 1].requests - found[at - 1].requests <= circuit.requests / 2:
            del found[at]
        else:
            at += 1
    return tuple(found)


def sentence(variant: str, control: str, last: Sums) -> str:
    """Say why a circuit is open."""
    others = f"{last.control_errors:,} of {last.control_requests:,} failed"
    return (
        f"circuit of {variant} open: {last.errors:,} of its last {last.requests:,} requests failed"
        f" (of {control}'s, {others if last.control_requests else 'none came'})"
    )
