"""Headers with a request's session, sender and urgency, for an endpoint picker.

Clients never write them. Names that the operator gives (of keys, users and teams) are sent as they
are, if a header and a picker's metric can carry them. Whatever clients choose is replaced by a hash
of it and the caller: it has a fixed length, reveals nothing, and no caller can use the session or
the share of another one.
"""

import re
from hashlib import blake2b
from typing import Final

from msgspec import UNSET

from strowger_gateway.gateway.config.pool_headers import fairness_header, objective_header
from strowger_gateway.gateway.config.schema.pool import InferencePool, PoolObjective
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts, unit_of
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.task import Unsampled

PLAIN: Final = re.compile(r"[A-Za-z0-9._:@/+-]{1,64}")
"""A name that is sent as it is. All others are hashed."""

_KEY: Final = b"strowger pool headers, unit 1"
"""The same in all gateways, so that a session has one id whichever of them it comes through."""


class PoolHeaders:
    """Renders the headers of one provider's pool."""

    __slots__ = ("_fairness", "_objective", "_pool", "_session")

    def __init__(self, pool: InferencePool) -> None:
        self._pool = pool
        self._session = f"{pool.session_header}: %s\r\n"
        self._fairness = f"{fairness_header(pool)}: %s\r\n"
        self._objective = f"{objective_header(pool)}: %s\r\n"

    def lines(self, request: Request, sent: Request | None, record: RequestRecord) -> bytes:
        """Return the header lines, each with CRLF; b"" if nothing is known of the request.

        sent: as the backend gets it, if that differs from the client's.
        """
        pool, text = self._pool, ""
        if pool.session is not None and (unit := unit_in(request, record, pool.session)):
            text = self._session % unit
        if pool.fairness is not None and (unit := unit_in(request, record, pool.fairness)):
            text += self._fairness % unit
        if pool.objective is not None:
            name = _objective(pool.objective, request, sent, record)
            if name is not None:
                text += self._objective % name
        return text.encode("ascii")


def unit_in(request: Request, record: RequestRecord, by: str) -> str:
    """Return the request's unit as it is sent; "" if it has none."""
    name = _name(record, by)
    if name is not None:
        return name if not name or PLAIN.fullmatch(name) else _hashed("", name)
    found = unit_of(request, _facts(record), by)
    return _hashed(record.caller, found) if found else ""


def _name(record: RequestRecord, by: str) -> str | None:
    """Return what the operator named; "" if it has no name, `None` if clients choose the value."""
    match by:
        case "caller":
            return record.user or record.caller
        case "api_key":
            return record.caller
        case "team":
            return record.team
        case _:
            return None


def _objective(
    objective: PoolObjective, request: Request, sent: Request | None, record: RequestRecord
) -> str | None:
    if objective.by == "priority":
        value = _priority(sent) or _priority(request)
    else:
        name = _name(record, objective.by)
        value = unit_of(request, _facts(record), objective.by) if name is None else name
    return objective.names.get(value, objective.otherwise)


def _priority(request: Request | None) -> str:
    if request is None or isinstance(request, Unsampled) or request.priority is UNSET:
        return ""
    return str(request.priority)


def _facts(record: RequestRecord) -> RequestFacts:
    return RequestFacts(caller=record.caller, headers=record.client_headers)


def _hashed(caller: str, value: str) -> str:
    """128 bits in hexadecimal."""
    digest = blake2b(caller.encode("utf-8", "surrogatepass"), digest_size=16, key=_KEY)
    digest.update(b"\0")
    digest.update(value.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
