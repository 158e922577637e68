"""The events of a streamed answer, as the plan wants them: recovered, copied, or just passed on."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, cast

from strowger_gateway.gateway.http.stream_output import StreamOutput
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.execution.restarted_stream import restarted_stream
from strowger_gateway.gateway.routing.execution.stream_recovery import recovered_stream
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.response import ResponseWriter
from strowger_gateway.schemas.answers import Fold, folded
from strowger_gateway.schemas.events import Event, EventSource
from strowger_gateway.schemas.requests import GenerateRequest

if TYPE_CHECKING:
    from strowger_gateway.gateway.http.passage import Passage


def stream_source(
    planned: Plan,
    request: GenerateRequest,
    record: RequestRecord,
    output: StreamOutput,
    copied: Fold | None,
    passage: "Passage | None",
) -> EventSource:
    """The events. copied: gets them as well, as `passage` lets them pass."""
    if planned.continues:
        source = recovered_stream(
            planned, request, record, tenant=record.caller, announce=output.announce
        )
    elif planned.restarts:
        # It knows no sinks: all is in one batch.
        source = cast(
            "EventSource", restarted_stream(planned, request, record, tenant=record.caller)
        )
    else:
        source = pipeline.stream(planned, request, record, tenant=record.caller)
    if passage is not None:
        source = passage.events(source, planned)
    if copied is not None:
        # It knows no sinks, so every event passes through it.
        source = cast("EventSource", folded(source, copied))
    return source


async def first_batch(
    source: AsyncGenerator[list[Event], None], response: ResponseWriter
) -> list[Event]:
    """Return the first batch, or raise its failure, once a head that is being sent has gone."""
    try:
        return await anext(source)
    finally:
        if response.beginning is not None:
            await response.begun()
