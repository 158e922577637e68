"""What the workers and their leader send each other about limits."""

from typing import Final

from msgspec import Struct

from gateway.limits.ledger import Quantity

PART: Final = 64
"""A lease is at most this part of a limit, beyond what the request needs: a killed worker's lease
counts as used for a period. Without `exact`, a worker may exceed its leases by as much."""

Use = tuple[int, int]
"""When a use stops to count (nanoseconds of the machine's clock), and its amount."""


class LimitAmounts(Struct, frozen=True, array_like=True, gc=False):
    """Amounts of one account, by its limit and its subject."""

    limit: str
    subject: str
    requests: int = 0
    tokens: int = 0
    seats: int = 0


class LimitUses(Struct, frozen=True, array_like=True, gc=False):
    """The uses of one account since the last report, and what happens to the rest.

    returned:  what it gives back unused.
    overdrawn: what it used beyond its lease, because answers were longer than reserved.
    running:   the tokens that its running requests have reserved.
    """

    limit: str
    subject: str
    requests: tuple[Use, ...]
    tokens: tuple[Use, ...]
    returned: LimitAmounts
    overdrawn: LimitAmounts
    running: int = 0


class LimitAsk(Struct, frozen=True, kw_only=True, tag=True):
    """A request lacks these amounts; answered by LimitGrant or LimitDenial with the same id.

    running: the tokens that the worker's running requests have reserved; same order.
    """

    id: int
    lacking: tuple[LimitAmounts, ...]
    running: tuple[int, ...]


class LimitGrant(Struct, frozen=True, kw_only=True, tag=True):
    """granted: at least what was lacking. left: what no worker holds, for headers; same order."""

    id: int
    granted: tuple[LimitAmounts, ...]
    left: tuple[LimitAmounts, ...]


class LimitDenial(Struct, frozen=True, kw_only=True, tag=True):
    """Nothing was granted. The fields are those of LimitRefusal."""

    id: int
    limit: str
    per: str
    quantity: Quantity
    allowed: int
    wait: int | None
    reserved: bool = False


class LimitOutage(Struct, frozen=True, kw_only=True, tag=True):
    """Nothing was granted, because Redis does not answer and the limit must hold."""

    id: int


class LimitRecall(Struct, frozen=True, kw_only=True, tag=True):
    """Give back what you hold of these accounts; answered by LimitReport with this id."""

    id: int
    accounts: tuple[tuple[str, str], ...]


class LimitReport(Struct, frozen=True, kw_only=True, tag=True):
    """Uses, and leases that the worker gives back. recall: the id of the LimitRecall, or 0."""

    recall: int
    uses: tuple[LimitUses, ...]


ToLeader = LimitAsk | LimitReport
ToWorker = LimitGrant | LimitDenial | LimitOutage | LimitRecall
