"""The circuit of a variant: it opens when most of its last requests fail and control's do not.

A plain rule without inference: one active unit is enough, and no harm limit is needed. It compares
the sums of two moments. Sums from the epoch's beginning would hide a variant that fails after a
week, so those of earlier checks are kept, as far back as is needed.
"""

from collections.abc import Sequence

from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Circuit

STEPS = 20
"""Sums that are kept for the last `Circuit.requests` of a variant."""

OUTAGE = 0.5
"""With this part of the variant's limit control counts as failing, too: no variant's fault."""


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


def last_requests(
    circuit: Circuit, past: Sequence[Sums], now: Sums, *, whole: bool = True
) -> Sums | None:
    """Return the sums of at least the last `circuit.requests` of the variant; `None`: too few.

    past: sums of earlier checks in this epoch, oldest first. whole: the epoch's beginning comes
    before them.
    """
    first = (Sums(),) if whole else ()
    for before in (*reversed([one for one in past if one.before(now)]), *first):
        if now.requests - before.requests >= circuit.requests:
            return now.since(before)
    return None


def opens(circuit: Circuit, last: Sums) -> bool:
    """Return whether the last requests open the circuit.

    Control may have had no requests in that time: where a single key is active, it has none.
    """
    if last.errors < circuit.share * last.requests:
        return False
    return last.control_errors < OUTAGE * circuit.share * last.control_requests or (
        not last.control_requests
    )


def kept(circuit: Circuit, past: Sequence[Sums], now: Sums) -> tuple[Sums, ...]:
    """Return the sums to keep for the next check: `past`, `now` if it is new, without old ones."""
    found = [one for one in past if one.before(now)]
    latest = found[-1] if found else Sums()
    if now.requests - latest.requests >= max(circuit.requests // STEPS, 1):
        found.append(now)
    while len(found) > 1 and now.requests - found[1].requests >= circuit.requests:
        del found[0]
    return tuple(found)


def sentence(variant: str, control: str, last: Sums) -> str:
    """Say why a circuit is open."""
    others = f"{last.control_errors:,} of {last.control_requests:,} failed"
    return (
        f"circuit of {variant} open: {last.errors:,} of its last {last.requests:,} requests failed"
        f" (of {control}'s, {others if last.control_requests else 'none came'})"
    )
