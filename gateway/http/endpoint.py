"""A hot POST route as an endpoint object: a request enters its stages, one after the other.

The dispatcher calls it before Litestar's router; it is registered there for the documentation
only. Everything that Litestar's layers would do is done here.

1. The record and the context of the request begin, and it is counted.
2. Its stages take it on, in the order of `Place`: those of the path itself
   (`request_stages.py`, `answering.py`), and those of the parts that its configuration uses.
3. Each stage that holds something leaves, in the reverse order.
4. What a stage raised becomes the answer; whatever happened, the request is recorded.
"""

import asyncio
import logging

from litestar.types import Receive, Scope, Send

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.access.client_certificate import certificate_name
from strowger_gateway.gateway.http.cross_site_refusal import turned_away
from strowger_gateway.gateway.http.error_fields import explain
from strowger_gateway.gateway.http.internal_error import internal_error
from strowger_gateway.gateway.http.other_methods import answer_other_method
from strowger_gateway.gateway.http.request_stages import (
    Admit,
    Authenticate,
    FindRespeltRoute,
    FindRoute,
    ParseBody,
    PlanRequest,
    ReadBody,
)
from strowger_gateway.gateway.http.task_answering import answering_stage
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution.release_traceback import release_traceback
from strowger_gateway.gateway.routing.request_record import (
    RequestRecord,
    loggable_id,
    new_request_id,
)
from strowger_gateway.gateway.server.asgi.exchange import AsgiExchange, HotExchange
from strowger_gateway.gateway.server.asgi.response import ResponseWriter
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import RouteStages
from strowger_gateway.gateway.surfaces.hot_route import HotRoute
from strowger_gateway.schemas.errors import Forbidden, GatewayError, ModelNotFound

_log = logging.getLogger("strowger.endpoint")


class Endpoint:
    """One route of one surface."""

    def __init__(self, gateway: Gateway, route: HotRoute) -> None:
        self._gateway = gateway
        self._route = route
        self._path = route.path
        self._surface = route.surface
        self._names = route.surface.field_names
        self._id_header = route.surface.request_id_header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI, for another server that mounts the application."""
        assert scope["type"] == "http"
        await self.answer(AsgiExchange(scope, receive, send))

    async def answer(self, exchange: HotExchange) -> None:
        """Answer one request. Raises nothing but CancelledError."""
        gateway, scope = self._gateway, exchange.scope
        runtime, admission = gateway.runtime, gateway.admission
        door = runtime.access.door
        if door is not None and await turned_away(door, exchange):
            return
        sent_id = exchange.fields.get(b"x-request-id")
        record = RequestRecord(
            request_id=new_request_id(),
            started=now(),
            surface=self._surface.name,
            task=self._surface.task or "",
            client_address=runtime.access.clients.of(scope),
            client_request_id="" if sent_id is None else loggable_id(sent_id),
            attempts=[],
            fields=exchange.fields,
            certificate=certificate_name(scope) if scope["state"] else "",
        )
        admission.enter(runtime)
        extra = gateway.cors.headers(origin) if (origin := exchange.fields.get(b"origin")) else []
        if self._id_header:
            extra = [*extra, (self._id_header, record.request_id.encode())]
        expose = runtime.config.server.expose_headers
        response = ResponseWriter(exchange, record, extra, self._names, expose=expose)
        status = 500
        try:
            if scope["method"] != "POST":
                await answer_other_method(exchange, self._surface, gateway, response)
                status = 0
                return
            stages = runtime.stages.get(self._path) or self._stages(runtime)
            slots: list[object] = [None] * stages.slots
            request = RequestContext(runtime, exchange, record, response, slots, [])
            try:
                for enter in stages.enter:
                    if (waiting := enter(request)) is not None:
                        await waiting
            except GatewayError as exc:
                if request.plan is not None:
                    await explain(exc, request, self._names)
                raise
            finally:
                self._leave(stages, request)
            status = 200
        except GatewayError as exc:
            status = await self._refuse(exc, record, response)
        except asyncio.CancelledError:
            status = 503
            record.error = "cut_by_shutdown"
            raise
        except Exception as exc:  # noqa: BLE001  the last resort: a bug in the gateway
            failure = internal_error(exc, record, self._route.path, gateway.log.metrics)
            await self._fail(failure, response)
            release_traceback(failure)
        finally:
            admission.leave(runtime)
            if status:
                gateway.log.record_request(record, status, now(), runtime.routing.prices)

    def _stages(self, runtime: Runtime) -> RouteStages:
        """Put the stages of this route and generation together, with its first request."""
        gateway, route = self._gateway, self._route
        find = FindRespeltRoute if route.tagged or route.prefixed else FindRoute
        own = (
            Admit(gateway, runtime),
            Authenticate(gateway, runtime),
            ReadBody(gateway, runtime, route),
            ParseBody(gateway, runtime, route),
            find(runtime, route),
            PlanRequest(gateway, runtime, route),
            answering_stage(gateway, route),
        )
        found = runtime.stages[route.path] = RouteStages(gateway.stages(runtime, route), own)
        return found

    def _leave(self, stages: RouteStages, request: RequestContext) -> None:
        for leave in stages.leave:
            try:
                leave(request)
            except Exception:  # noqa: BLE001  what the other stages hold has to be given back
                self._gateway.log.metrics.internal_errors.count("leaving stages")
                _log.exception("internal error: leaving a stage of %s failed", self._path)

    async def _refuse(
        self, exc: GatewayError, record: RequestRecord, response: ResponseWriter
    ) -> int:
        """Answer with an error; return the status that is recorded."""
        exc.status = self._surface.status_of(exc)
        record.record_error(exc)
        if isinstance(exc, ModelNotFound) and exc.hidden:
            record.error = Forbidden.code
        record.refusal = "" if record.attempts else exc.message
        await self._fail(exc, response)
        release_traceback(exc)
        return exc.status

    async def _fail(self, error: GatewayError, response: ResponseWriter) -> None:
        if error.status == 499:
            return
        error.request_id = response.request_id
        body = self._surface.error_about(error, response.request)
        if response.started:
            await response.end(self._surface.last_frame(body))
            return
        await response.error(error, body)
