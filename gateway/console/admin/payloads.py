"""`/admin/payloads`: logged bodies of requests and answers in the store. Reading one is audited."""

from collections.abc import Callable
from typing import Annotated, Final, TypeVar

import msgspec
from litestar import Request, Response, delete, get
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import LONGEST, Action, AuditEvent
from strowger_gateway.gateway.console.admin.access import SCHEME, made_by
from strowger_gateway.gateway.observability.payloads.part import PayloadsSide
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.storage.sql.payload_rows import (
    PayloadEntry,
    PayloadQuery,
    PayloadRows,
)
from strowger_gateway.schemas.errors import RouteNotFound, Unavailable

_T = TypeVar("_T")
_Request = Request[object, object, State]
_UNCACHED: Final = {"cache-control": "no-store"}
MOST: Final = 1_000


class PayloadList(Struct, frozen=True, kw_only=True):
    """Newest first, without bodies."""

    payloads: list[PayloadEntry]


def payload_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get(
        "/payloads",
        role="admin",
        summary="Requests whose bodies are in the store (logging.payloads)",
        security=[{SCHEME: []}],
    )
    async def payloads(
        limit: Annotated[
            int, QueryParameter(ge=1, le=MOST, description="number of payloads, newest first")
        ] = 50,
        before: Annotated[
            float | None, QueryParameter(gt=0, description="Unix seconds; earlier requests only")
        ] = None,
        key: Annotated[str, QueryParameter(max_length=LONGEST, description="of this key")] = "",
        model: Annotated[str, QueryParameter(max_length=LONGEST, description="of this model")] = "",
    ) -> PayloadList:
        query = PayloadQuery(before=before, key=key, model=model, limit=limit)
        found = await _asked(current(), lambda rows: rows.page(query))
        return PayloadList(payloads=found)

    @get(
        "/payloads/{request_id:str}",
        role="admin",
        summary="One payload, by x-gateway-request-id; the audit log records the access",
        security=[{SCHEME: []}],
    )
    async def payload(request: _Request, request_id: FromPath[str]) -> Response[msgspec.Raw]:
        gateway = current()
        found = await _asked(gateway, lambda rows: rows.find(request_id))
        if found is None:
            raise _unknown(request_id)
        _audited(gateway, request, "payload.read", request_id, found.key)
        return Response(msgspec.Raw(found.record.encode()), headers=_UNCACHED)

    @delete(
        "/payloads/{request_id:str}",
        role="admin",
        status_code=200,
        summary="Delete one payload from the store",
        security=[{SCHEME: []}],
    )
    async def remove(request: _Request, request_id: FromPath[str]) -> PayloadEntry:
        gateway = current()
        removed = await _asked(gateway, lambda rows: rows.remove(request_id))
        if removed is None:
            raise _unknown(request_id)
        _audited(gateway, request, "payload.remove", request_id, removed.key)
        return removed

    return [payloads, payload, remove]


async def _asked(gateway: Gateway, work: Callable[[PayloadRows], _T]) -> _T:
    """Raises Unavailable, StoreUnavailable."""
    rows, store = gateway.side(PayloadsSide).rows, gateway.store
    if rows is None or store is None:
        raise Unavailable("stored payloads require a store, and this gateway has none")
    return await store.call(lambda _: work(rows))


def _audited(gateway: Gateway, request: _Request, action: Action, id: str, key: str) -> None:
    facts = {"key": key} if key else {}
    by = made_by(gateway, request.scope)
    gateway.side(AuditSide).log.record(AuditEvent.by(by, action, target=id, facts=facts))


def _unknown(request_id: str) -> RouteNotFound:
    return RouteNotFound(
        f"no payload of request {request_id!r} in the store: it was not logged "
        "(logging.payloads), or is older than store.keep_payload_days",
        code="unknown_request",
    )
