"""Parse a request's body, after repairing bytes that are not valid Unicode text."""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from gateway.routing.request_record import RequestRecord
from gateway.surfaces.base import Inbound, Surface
from gateway.surfaces.body_repair import BOM, RepairedBody, repair_body, repair_text
from schemas.errors import InvalidRequest
from schemas.requests import Request

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
