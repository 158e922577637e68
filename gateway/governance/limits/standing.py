"""What is used of a limit now, by whom, and when it has room again."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.config.schema.limits import Limit
from strowger_gateway.gateway.governance.limits.ledger import Account, Quantity
from strowger_gateway.gateway.governance.limits.limits import PERIODS, SECOND, RequestLimits
from strowger_gateway.gateway.governance.limits.scope import Whose, subjects_of
from strowger_gateway.gateway.governance.limits.window import ConcurrencySlots, Entry, Window

MOST_SUBJECTS: Final = 20
"""Of one limit, if none is named: those that have used most of it."""

MOST_STANDINGS: Final = 1000
"""In one answer."""

QUANTITIES: Final[tuple[Quantity, ...]] = ("requests", "tokens", "concurrent")


class LimitPlace(Struct, frozen=True, array_like=True):
    """An account that is asked for: of a subject, or of those that begin so.

    tokens: how many a request needs.
    """

    limit: str
    subject: str
    begins: bool = False
    tokens: int = 1


class LimitStanding(Struct, frozen=True, kw_only=True):
    """One quantity of a limit, of one subject, now.

    per:       its period; "" for requests at the same time.
    used:      what counts; requests in flight count what they have reserved.
    reserved:  leased to processes, and not used. left: of what is allowed, without either; negative
               if requests used more than they had reserved.
    resets_s:  until everything is free again if nothing else is used, seconds; `None` for requests
               at the same time.
    room_in_s: until there is room for a request, seconds; 0 if there is. `None`: that cannot be
               known, or it needs more than is allowed.
    """

    limit: str
    subject: str
    quantity: Quantity
    per: str
    allowed: int
    used: int
    reserved: int
    left: int
    resets_s: float | None
    room_in_s: float | None


def places_of(limits: Iterable[Limit], whose: Whose) -> tuple[LimitPlace, ...]:
    """The accounts of a caller's limits, in their order; of all end users unless one is named."""
    found: list[LimitPlace] = []
    for limit in limits:
        place = subjects_of(limit, whose)
        if place is not None:
            found.append(LimitPlace(limit.name, place[0], place[1]))
    return tuple(found)


def standings(
    limits: RequestLimits, places: Sequence[LimitPlace], at: int
) -> tuple[LimitStanding, ...]:
    """What is used at each place, at most MOST_STANDINGS. limits: with all accounts.

    at: the clock, nanoseconds. A place whose limit is not in force any more is left out.
    """
    of_limit: dict[str, list[Account]] = {}
    if any(place.begins for place in places):
        for account in limits.accounts():
            of_limit.setdefault(account.limit, []).append(account)
    named = {limit.name: limit for limit in limits.configured}
    found: list[LimitStanding] = []
    for place in places:
        limit = named.get(place.limit)
        if limit is None:
            continue
        for subject, account in _accounts(limits, place, of_limit.get(place.limit, ()), at):
            found += _standings(limit, subject, account, place.tokens, at)
        if len(found) >= MOST_STANDINGS:
            break
    return tuple(found[:MOST_STANDINGS])


def left_elsewhere(one: LimitStanding, left: int, tokens: int) -> LimitStanding:
    """The standing if so much is left over all gateways, of which this one knows its own part."""
    used = one.allowed - left - one.reserved
    need = tokens if one.quantity == "tokens" else 1
    lasting = PERIODS[one.per] / SECOND if one.per in PERIODS else None
    room_in_s: float | None = 0.0
    if need > one.allowed:
        room_in_s = None
    elif need > one.allowed - used:
        room_in_s = lasting
    resets_s = one.resets_s if used <= one.used else lasting
    return LimitStanding(
        limit=one.limit,
        subject=one.subject,
        quantity=one.quantity,
        per=one.per,
        allowed=one.allowed,
        used=used,
        reserved=one.reserved,
        left=left,
        resets_s=resets_s,
        room_in_s=room_in_s,
    )


def _accounts(
    limits: RequestLimits, place: LimitPlace, of_limit: Sequence[Account], at: int
) -> Iterator[tuple[str, Account | None]]:
    """`None` for an account that no request has needed: nothing is used."""
    if not place.begins:
        yield place.subject, limits.known(place.limit, place.subject)
        return
    apart: list[Account] = []
    for one in of_limit:
        if one.subject.startswith(place.subject):
            one.expire(at)
            if not one.unused:
                apart.append(one)
    yield from ((one.subject, one) for one in nlargest(MOST_SUBJECTS, apart, key=_share))


def _share(account: Account) -> tuple[float, str]:
    """The largest part that is used of any quantity."""
    parts = (account.requests, account.tokens, account.slots)
    return max(1 - one.room / one.limit for one in parts if one is not None), account.subject


def _standings(
    limit: Limit, subject: str, account: Account | None, tokens: int, at: int
) -> Iterator[LimitStanding]:
    """One for each quantity that is limited."""
    parts = (None,) * 3 if account is None else (account.requests, account.tokens, account.slots)
    for quantity, part in zip(QUANTITIES, parts, strict=True):
        allowed: int | None = getattr(limit, quantity)
        if allowed is None:
            continue
        need = tokens if quantity == "tokens" else 1
        used = reserved = 0
        resets_s: float | None = None if quantity == "concurrent" else 0.0
        room_in_s: float | None = 0.0 if need <= allowed else None
        if isinstance(part, Window):
            part.expire(at)
            used = part.used
            reserved = allowed - part.room - used
            resets_s = part.reset(at) / SECOND if used or reserved else 0.0
            if need <= allowed:
                room_in_s = _free_in(part.entries, need - allowed + used, at) / SECOND
        elif isinstance(part, ConcurrencySlots):
            used = allowed - part.room
            room_in_s = 0.0 if used < allowed else None
        yield LimitStanding(
            limit=limit.name,
            subject=subject,
            quantity=quantity,
            per="" if quantity == "concurrent" else limit.per,
            allowed=allowed,
            used=used,
            reserved=reserved,
            left=allowed - used - reserved,
            resets_s=resets_s,
            room_in_s=room_in_s,
        )


def _free_in(entries: Iterable[Entry], lacking: int, at: int) -> int:
    """Nanoseconds until so much less counts."""
    if lacking <= 0:
        return 0
    for expires, amount in entries:
        lacking -= amount
        if lacking <= 0:
            return max(1, expires - at)
    return 0
