"""What the leader has of one place: how much of it is lent, and to which worker."""

from typing import Final, Protocol

from msgspec import Struct

from strowger_gateway.gateway.governance.leases.messages import LeaseUse

PART: Final = 64
"""A lease is at most this part of what is allowed, beyond what the request needs: what a killed
worker held counts as used. Without `exact`, a worker may exceed its leases of limits by as much."""


class Loan(Struct, eq=False, gc=False):
    """What one worker holds of one pool. running: see LeaseUse."""

    amount: int = 0
    running: int = 0


class LeasePool(Protocol):
    """An amount that the leader lends in parts.

    limit: what is allowed. loans: what the workers hold, by their numbers.
    """

    limit: int
    loans: dict[int, Loan]

    def lend(self, amount: int) -> None:
        """Let it count as used until it is booked or given back."""
        ...

    def give_back(self, amount: int) -> None:
        """Free what was lent and not used."""
        ...

    def book(self, expires: int, amount: int, at: int) -> None:
        """Let a part of what was lent count as used. expires, amount: as of Use."""
        ...


def settled(pool: LeasePool, held: int, use: LeaseUse, at: int) -> int:
    """Book the report of a worker, and return the amount that it still holds.

    A worker can only use or give back what it holds: the rest is of a pool that a reload ended.
    """
    pool.lend(use.overdrawn)
    held += use.overdrawn
    for expires, amount in use.used:
        known = min(amount, held)
        pool.book(expires, known, at)
        held -= known
    known = min(use.returned, held)
    pool.give_back(known)
    return held - known
