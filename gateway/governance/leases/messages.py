"""The messages by which a worker leases amounts from its leader, and reports their use."""

from typing import Generic, TypeVar

from msgspec import Struct

Place = tuple[str, str, str]
"""Where an amount counts: a rule's name, its subject, and the quantity."""

Use = tuple[int, int]
"""When a use stops to count (nanoseconds of the machine's clock; 0 if time does not decide), and
its amount; negative if it corrects an earlier one."""

RefusalT = TypeVar("RefusalT")


class LeaseNeed(Struct, frozen=True, array_like=True, gc=False):
    """What a request lacks at one place.

    amount:  beyond the lease of its worker; 0 requests only the remaining amount.
    whole:   what the request needs, lease included.
    running: what running requests of the worker have reserved.
    """

    place: Place
    amount: int
    whole: int = 0
    running: int = 0


class LeaseShare(Struct, frozen=True, array_like=True, gc=False):
    """What is lent of one place. left: what no worker holds after that."""

    place: Place
    amount: int
    left: int = 0


class LeaseUse(Struct, frozen=True, array_like=True, gc=False):
    """What happened to one lease since the last report.

    used:      what counts now instead of being lent.
    returned:  what the worker gives back.
    overdrawn: what it used beyond the lease, because answers were longer than reserved.
    running:   what its running requests have reserved.
    """

    place: Place
    used: tuple[Use, ...] = ()
    returned: int = 0
    overdrawn: int = 0
    running: int = 0


class LeaseAsk(Struct, frozen=True, kw_only=True, tag=True):
    """A request lacks room; answered by LeaseGrant, LeaseDenial or LeaseOutage with its id.

    id: a number that no other message of the worker has. alone: it needs all that is lacking in
    addition to the leases of its worker, because other requests may take those.
    """

    id: int
    needs: tuple[LeaseNeed, ...]
    alone: bool = False


class LeaseGrant(Struct, frozen=True, kw_only=True, tag=True):
    """shares: at least what was lacking, at each place that exists."""

    id: int
    shares: tuple[LeaseShare, ...]


class LeaseDenial(Struct, Generic[RefusalT], frozen=True, kw_only=True, tag=True):
    """The leader lent nothing: no room is left."""

    id: int
    refusal: RefusalT


class LeaseOutage(Struct, frozen=True, kw_only=True, tag=True):
    """Nothing was lent, because what counts cannot be known and the rule must hold. why: as text
    for the client."""

    id: int
    why: str


class LeaseRecall(Struct, frozen=True, kw_only=True, tag=True):
    """Give back what you hold at these places; answered by a LeaseReport with this id."""

    id: int
    places: tuple[Place, ...]


class LeaseReport(Struct, frozen=True, kw_only=True, tag=True):
    """What was used, and what the worker gives back.

    id: a number that no other message of the worker has. recall: of the LeaseRecall, or 0.
    """

    id: int
    recall: int
    uses: tuple[LeaseUse, ...]


ToLeader = LeaseAsk | LeaseReport
ToWorker = LeaseGrant | LeaseDenial[RefusalT] | LeaseOutage | LeaseRecall
