"""Parse a request's body, after repairing bytes that are not valid Unicode text."""

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.governance.access.key_shares import Slot
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.body_complexity import measure
from strowger_gateway.gateway.server.asgi.large_bodies import LargeBodyQueue
from strowger_gateway.gateway.surfaces.base import Inbound, Surface
from strowger_gateway.gateway.surfaces.body_repair import (
    BOM,
    RepairedBody,
    repair_body,
    repair_text,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Request

_BACKSLASH: Final = ord("\\")


def parsed(surface: Surface, inbound: Inbound, record: RequestRecord) -> Request:
    """Parse the body. Raises as the surface's `parse` does."""
    body = inbound.body
    # `in` is fast for one byte only; for several, `find` is.
    if _BACKSLASH in body and (body.find(b"\\ud") >= 0 or body.find(b"\\uD") >= 0):
        inbound = _repaired(surface, inbound, record, repair_body)
    try:
        return surface.parse(inbound)
    except InvalidRequest as exc:
        fault = exc
    if inbound.body.startswith(BOM):
        inbound = _repaired(surface, inbound, record, repair_body)
        try:
            return surface.parse(inbound)
        except InvalidRequest as exc:
            fault = exc
    if not isinstance(fault.__cause__, UnicodeDecodeError):
        raise fault
    return surface.parse(_repaired(surface, inbound, record, repair_text))


async def parsed_in_thread(
    bodies: LargeBodyQueue, surface: Surface, inbound: Inbound, record: RequestRecord, held: Slot
) -> Request:
    """Measure the body, claim memory for its values, and parse it, when it is the key's turn.

    held: the request's memory. Raises as `parsed`, and as `measure` and `Slot.buffer` do.
    """
    weigh = partial(measure, inbound.body, surface.json_length(inbound))
    held.buffer((await bodies.run(weigh, record.holder, held.size)).size)
    return await bodies.run(partial(parsed, surface, inbound, record), record.holder, held.size)


def _repaired(
    surface: Surface,
    inbound: Inbound,
    record: RequestRecord,
    repair: Callable[[bytes], RepairedBody],
) -> Inbound:
    """Return the request with the JSON of its body repaired, which is recorded."""
    length = surface.json_length(inbound)
    done = repair(inbound.body[:length])
    if not done.made:
        return inbound
    record.repaired_body += done.made
    return replace(inbound, body=done.body + inbound.body[length:])
