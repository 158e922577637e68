"""Find the items that a request refers to: sealed ones that it brings along, and stored ones.

Compaction items are among both: what they stand for is sealed in the same way.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.content.stored_responses.seals import Seals
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.surfaces.stored_items import (
    Compacted,
    EarlierItems,
    EarlierItemsNeeded,
)
from strowger_gateway.schemas.errors import InvalidRequest, Unavailable

LOST_REASONING: Final = "lost_reasoning"
"""The repair of a reference to reasoning that nothing has any more: the turn is sent without it."""

_MOST_NAMED: Final = 16
"""Places of lost reasoning that are named one by one, so that no request makes a long record."""

_REASONING: Final = "rs_"
_PREVIOUS: Final = "previous_response_id"
_NOTHING: Final = Raw(b"")


async def earlier_items(
    needed: EarlierItemsNeeded, gateway: Gateway, record: RequestRecord
) -> EarlierItems:
    """Return the stored and sealed items that a request needs.

    Raises ResponseNotFound, StoreUnavailable, and InvalidRequest if they are too long, or not there
    and nothing is stored.
    """
    most_bytes = gateway.runtime.config.server.max_body_bytes
    kept = gateway.side(StoredResponsesSide)
    found = await _found(needed, kept, record, most_bytes)
    size = len(found.items) + sum(len(bytes(item)) for item in found.found.values())
    room = most_bytes - needed.size - size
    return await _with_compacted(found, needed, kept.seals, record.caller, room)


async def _found(
    needed: EarlierItemsNeeded, kept: StoredResponsesSide, record: RequestRecord, most_bytes: int
) -> EarlierItems:
    """Return the items that are stored, and those that the request brings along."""
    sealed = await _opened(needed, kept.seals, record.caller, most_bytes - needed.size)
    unknown = [
        (id, at) for id, at in needed.references if id not in sealed and not _is_compaction(id)
    ]
    if not kept.stores:
        places = _lost(unknown)
        if len(places) > _MOST_NAMED:
            places = [*places[:_MOST_NAMED], "input[]"]
        record.repaired_body += tuple([f"{at}:{LOST_REASONING}" for at in places])
        return EarlierItems(found={**sealed, **{id: _NOTHING for id, _ in unknown}})
    if not (unknown or needed.previous):
        return EarlierItems(found=sealed)
    if kept.archive is None:
        raise Unavailable("nothing is stored at the moment")
    rest = EarlierItemsNeeded(needed.previous, unknown, needed.size, needed.resume)
    stored = await kept.archive.earlier(record.caller, record.holder, rest, most_bytes)
    return replace(stored, found={**sealed, **stored.found})


def _is_compaction(id: str) -> bool:
    from strowger_gateway.gateway.surfaces.responses.compaction import PREFIX

    return id.startswith(PREFIX)


async def _with_compacted(
    found: EarlierItems, needed: EarlierItemsNeeded, seals: Seals, caller: str, room: int
) -> EarlierItems:
    """Add what compaction items stand for: the request's own, and those among earlier items.

    room: bytes of all that they stand for.
    """
    from strowger_gateway.gateway.surfaces.responses.compaction import (
        PREFIX,
        PURPOSE,
        seals_in,
        unpacked,
    )

    places = [(seal, _PREVIOUS) for seal in seals_in(found.items)]
    for id, at in needed.references:
        if _is_compaction(id):
            places.append((id, at))
        elif id in found.found:
            places += [(seal, at) for seal in seals_in(b"[%b]" % bytes(found.found[id]))]
    if not places:
        return found
    times = Counter(seal for seal, _ in places)
    compacted: dict[str, Compacted | None] = dict.fromkeys(times)
    for seal, at in dict(reversed(places)).items():
        data = await seals.open(caller, seal.removeprefix(PREFIX), max(room, 1), PURPOSE)
        if data is None:
            continue
        room = _left(room, len(data) * times[seal], at)
        compacted[seal] = opened = unpacked(data)
        if opened.whole:
            break  # it stands for all before it, however many items a long session has
    return replace(found, compacted=compacted)


async def _opened(
    needed: EarlierItemsNeeded, seals: Seals, caller: str, most_bytes: int
) -> Mapping[str, Raw]:
    """Return the items that the request refers to and brings along, by their ids.

    most_bytes: of all of them, each as often as the request refers to it; also of all that the
                seals contain, because many seals can have the same items.
    """
    from strowger_gateway.gateway.surfaces.responses.carriers import PREFIX, carried

    known: dict[str, Raw] = {}
    left = most_bytes
    for id, at in {id: at for id, at in needed.references if id.startswith(PREFIX)}.items():
        data = await seals.open(caller, id.removeprefix(PREFIX), most_bytes)
        if data is not None:
            left = _left(left, len(data), at)
            known |= {id: _NOTHING, **carried(data)}
    found: dict[str, Raw] = {}
    left = most_bytes
    for id, at in needed.references:
        if id in known:
            found[id] = known[id]
            left = _left(left, len(bytes(known[id])), at)
    return found


def _left(left: int, size: int, at: str) -> int:
    """Return the room after an item of this size. Raises InvalidRequest if it is too long."""
    if size > left:
        raise InvalidRequest(
            f"{at}: the items that the request refers to are larger than "
            "server.max_body_bytes allows; send fewer",
            param=at,
        )
    return left - size


def _lost(unknown: Sequence[tuple[str, str]]) -> list[str]:
    """Return the places of references to reasoning. Raises InvalidRequest for any other."""
    # Late, as above.
    from strowger_gateway.gateway.surfaces.responses.conversation import NOT_STORED
    from strowger_gateway.gateway.surfaces.responses.item_references import REFERENCE

    for id, at in unknown:
        if not id.startswith(_REASONING):
            raise InvalidRequest(f"{at}: {REFERENCE}: {NOT_STORED}", param=at)
    return [at for _, at in unknown]
