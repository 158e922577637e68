"""`POST /v1/feedback`: record a client's rating of an answer."""

import asyncio
import time
from collections.abc import Mapping

from litestar import Request, Response, post
from litestar.datastructures import State
from litestar.types import ControllerRouterHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.experiments.feedback import (
    MAX_BYTES,
    FeedbackBody,
    FeedbackMetrics,
    check_in_time,
    is_young,
    read_feedback,
    request_not_found,
    row_of,
)
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.http.counted import counted, counted_in
from strowger_gateway.gateway.storage.sql.base import KnownRequest
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.gateway.surfaces.openapi.hot_routes import operation
from strowger_gateway.schemas.errors import Unavailable
from strowger_gateway.schemas.holdings import Holder

_Request = Request[object, object, State]
_Answer = Response[Mapping[str, str]]
PATIENCE_S = 2.0
"""Seconds to look the request up in the store; after that the feedback is accepted unchecked."""


def feedback(gateway: Gateway) -> list[ControllerRouterHandler]:
    names = FeedbackMetrics()

    @post(
        "/v1/feedback",
        status_code=200,
        request_max_body_size=MAX_BYTES,
        operation_class=operation("Rate an answer", FeedbackBody),
        middleware=[counted(gateway, "feedback", limited=False)],
    )
    async def take(request: _Request) -> _Answer:
        caller = counted_in(request.scope).caller
        body = read_feedback(await request.body())
        trials, store = gateway.side(ExperimentsSide).service, gateway.store
        if trials is None or store is None or trials.recorder.full:
            raise Unavailable("feedback cannot be recorded at the moment", retry_after=5)
        contracts, experiments = gateway.runtime.config.metrics, trials.experiments
        row = row_of(body, caller.name, time.time(), contracts, experiments)
        known, away = await _known(store, row, caller.holder)
        if known is not None and known.key != caller.name:
            raise request_not_found(body.request_id)
        if known is None and not away and not is_young(body.request_id, row.time):
            raise request_not_found(body.request_id)
        if row.value is not None and known is not None:
            check_in_time(known, row)
        if row.value is not None:
            names.admit(row.metric, contracts, experiments)
        trials.recorder.add(row)
        if known is None:
            return Response({"status": "accepted"}, status_code=202)
        return Response({"status": "recorded"}, status_code=200)

    return [take]


async def _known(
    access: StoreAccess, row: FeedbackRow, holder: Holder
) -> tuple[KnownRequest | None, bool]:
    """Return the request, and whether the store was unavailable."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            known = await access.call(lambda store: store.known_request(row.request_id), holder)
    except (StoreUnavailable, TimeoutError):
        return None, True
    return known, False
