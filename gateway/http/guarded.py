"""Hold a request, and its whole answer, to the guardrails that apply."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.access.key_shares import Slot
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard, ResponseWriter
from strowger_gateway.schemas.requests import Request

if TYPE_CHECKING:
    from strowger_gateway.gateway.content.hooks.guarded_request import GuardedRequest


async def guarded(
    gateway: Gateway,
    runtime: Runtime,
    record: RequestRecord,
    response: ResponseWriter,
    held: Slot,
) -> "tuple[Request, GuardedRequest | None]":
    """Return `response.request` as backends may receive it, and the guardrails of its answer.

    What takes long happens in a thread, or is waited for while the client is there. held: the
    request's memory. Raises ContentBlocked, InvalidRequest, Throttled, Unavailable, ClientGone.
    """
    request = response.request
    assert runtime.guards is not None
    assert request is not None
    guards = runtime.guards.of(
        gateway.guard_counts, record.caller, record.team, record.user, record.route, request.model
    )
    if guards is None:
        if record.payload is not None:
            record.payload.withheld = False
        return request, None
    record.findings = guards.findings
    guards.belong_to(runtime)
    guards.asked_by(record.holder, record.level)
    if record.payload is not None:
        record.payload.withheld = True  # a reload may have removed them while the body arrived

    async def offload(call: Callable[[], object], size: int) -> object:
        return await gateway.large_bodies.run(call, record.holder, size)

    guards.offload_with(offload, held.buffer)
    if record.large or guards.waits:
        with DisconnectGuard(response.exchange):
            request = await guards.request(request, held.size if record.large else 0)
    else:
        request = await guards.request(request, 0)
    response.request = request
    if record.payload is not None:
        record.payload.withheld = guards.has_acted
    return request, guards
