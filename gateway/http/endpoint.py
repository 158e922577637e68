"""A hot POST route as an endpoint object: bytes in, plan, attempt, bytes out.

The dispatcher calls it before Litestar's router; it is registered there for the documentation
only. Everything that Litestar's layers would do is done here.
"""

import asyncio
from contextlib import aclosing, suppress
from typing import Final

from litestar.types import Receive, Scope, Send
from msgspec import UNSET

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.access.auth import Caller, WrongKey
from strowger_gateway.gateway.governance.access.client_certificate import certificate_name
from strowger_gateway.gateway.governance.access.key_shares import Slot
from strowger_gateway.gateway.governance.access.priority import prioritised
from strowger_gateway.gateway.governance.limits.estimate import tokens_used
from strowger_gateway.gateway.http.continuing.response_storage import (
    continued,
    is_kept,
    kept_body,
    seal_items,
    storing,
)
from strowger_gateway.gateway.http.cross_site_refusal import refuse
from strowger_gateway.gateway.http.embedding_usage import rendered, with_usage
from strowger_gateway.gateway.http.error_fields import name_field
from strowger_gateway.gateway.http.governed import reserve, reserve_now
from strowger_gateway.gateway.http.internal_error import internal_error
from strowger_gateway.gateway.http.other_methods import answer_other_method
from strowger_gateway.gateway.http.parsed_body import parsed, parsed_in_thread
from strowger_gateway.gateway.http.passage import Passage, examined, whole_answer
from strowger_gateway.gateway.http.request_plan import plan_of
from strowger_gateway.gateway.http.stream_output import StreamOutput
from strowger_gateway.gateway.http.stream_source import first_batch, stream_source
from strowger_gateway.gateway.http.token_count import count_tokens
from strowger_gateway.gateway.http.wrong_key_delay import delay_wrong_key
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.execution.plain_chat import collect_plain
from strowger_gateway.gateway.routing.execution.release_traceback import release_traceback
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens
from strowger_gateway.gateway.routing.request_record import (
    RequestRecord,
    loggable_id,
    new_request_id,
)
from strowger_gateway.gateway.server.asgi.decompression import ENCODINGS, inflate
from strowger_gateway.gateway.server.asgi.exchange import AsgiExchange, HotExchange
from strowger_gateway.gateway.server.asgi.request_body import (
    arrived_body,
    check_type,
    encoding_of,
    read_body,
)
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard, ResponseWriter
from strowger_gateway.gateway.surfaces.base import Inbound, Renderer, plain
from strowger_gateway.gateway.surfaces.hot_route import HotRoute, TemplatedPaths
from strowger_gateway.gateway.surfaces.path_aliases import own_path
from strowger_gateway.gateway.surfaces.sse import frame
from strowger_gateway.gateway.surfaces.stored_items import EarlierItemsNeeded
from strowger_gateway.schemas.answers import Embeddings, Fold
from strowger_gateway.schemas.errors import Forbidden, GatewayError, ModelNotFound
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)

LARGE: Final = 64 * 1024
"""Maximum bytes of a body that is parsed directly in the event loop, in at most 5 ms."""


class Endpoint:
    """One route of one surface."""

    def __init__(self, gateway: Gateway, route: HotRoute) -> None:
        self._gateway = gateway
        self._route = route
        self._surface = route.surface
        self._names = route.surface.field_names
        self._plain = route.surface.plain
        self._task = route.surface.task or ""
        self._stores = route.stores
        self._directly = -1 if route.surface.late else LARGE
        self._id_header = route.surface.request_id_header
        self._default_model = route.default_model
        self._paths = TemplatedPaths((route,)) if route.templated else None
        self._finds_model = route.default_model or route.templated

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI, for another server that mounts the application."""
        assert scope["type"] == "http"
        await self.answer(AsgiExchange(scope, receive, send))

    async def answer(self, exchange: HotExchange) -> None:
        """Answer one request. Raises nothing but CancelledError."""
        gateway, scope = self._gateway, exchange.scope
        runtime, admission = gateway.runtime, gateway.admission
        if runtime.door is not None:
            try:
                runtime.door.check(scope)
            except Forbidden as exc:
                await refuse(exc, exchange)
                return
        sent_id = exchange.fields.get(b"x-request-id")
        record = RequestRecord(
            request_id=new_request_id(),
            started=now(),
            surface=self._surface.name,
            task=self._task,
            client=runtime.clients.of(scope),
            client_request_id="" if sent_id is None else loggable_id(sent_id),
            attempts=[],
            certificate=certificate_name(scope) if scope["state"] else "",
            trace=None if gateway.tracing is None else gateway.tracing.join(exchange, self._route),
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
            await self._serve(exchange, runtime, record, response)
            status = 200
        except GatewayError as exc:
            exc.status = status = self._surface.status_of(exc)
            record.record_error(exc)
            if isinstance(exc, ModelNotFound) and exc.hidden:
                record.error = Forbidden.code
            record.refusal = "" if record.attempts else exc.message
            await self._fail(exc, response)
            release_traceback(exc)
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
                gateway.log.record_request(record, status, now(), runtime.prices)

    async def _serve(
        self,
        exchange: HotExchange,
        runtime: Runtime,
        record: RequestRecord,
        response: ResponseWriter,
    ) -> None:
        """Answer with 200, or raise the error for the caller."""
        gateway, scope, at = self._gateway, exchange.scope, self._route
        gateway.admission.admit(runtime)
        try:
            caller = runtime.keyring.known(scope) or await runtime.keyring.caller(scope)
        except WrongKey:
            await delay_wrong_key(gateway.wrong_keys, scope, runtime.clients)
            raise
        record.caller, record.team, record.user = caller.name, caller.team, caller.user
        record.tags, record.plan, record.holder = caller.tags, caller.plan, caller.holder
        check_type(exchange.fields.get(b"content-type", b""), self._surface.accepts)
        encoding = encoding_of(exchange.fields, ENCODINGS)
        held = record.room = gateway.shares.hold(
            caller.name,
            runtime.config.server,
            several=runtime.keyring.several,
            others_in_flight=gateway.admission.others_in_flight,
        )
        reserved = passage = None
        try:
            try:
                request = await self._request(exchange, encoding, runtime, caller, record, held)
            except EarlierItemsNeeded as needed:
                request = await continued(needed, exchange, gateway, record, held, LARGE)
            response.request, record.model = request, request.model
            record.task = self._task or request.task
            route = runtime.table.find(request.model, caller.may_use)
            record.route = route.name
            if type(request) is not EmbeddingsRequest:  # `isinstance` takes 7 times as long: ADR 16
                if request.priority is not UNSET:
                    request = response.request = prioritised(request, caller, record)
                record.stream = request.stream
            if gateway.limits.any or gateway.budgets.any:
                reserved = reserve_now(gateway, runtime, record, request, route, response, at)
                if reserved is None:
                    reserved, request, route = await reserve(
                        gateway, runtime, record, request, route, response, at
                    )
            if runtime.examines:
                request, passage = await examined(gateway, runtime, record, response, at, held)
            planned = plan_of(route, request, scope, gateway, runtime.planner, record, at)
            try:
                await self._answer(planned, request, record, response, runtime, exchange, passage)
            except GatewayError as exc:
                await self._explain(exc, request, planned, record.backend, passage)
                raise
            finally:
                if record.attempts and (record.usage is None or record.usage.prompt_tokens is None):
                    record.estimated_prompt_tokens = estimated_tokens(request)
        finally:
            held.close()
            if reserved is not None:
                reserved.settle_once(tokens_used(record))

    async def _request(
        self,
        exchange: HotExchange,
        encoding: bytes,
        runtime: Runtime,
        caller: Caller,
        record: RequestRecord,
        held: Slot,
    ) -> Request:
        """Parse the request; in a thread, in turn, if it is large, compressed or a surface's first.

        encoding: one of ENCODINGS, or b"".
        Raises as `read_body`, `inflate`, `measure` and the surface's `parse` do.
        """
        gateway, server, scope = self._gateway, runtime.config.server, exchange.scope
        body = arrived_body(exchange, server.max_body_bytes, held)
        if body is None:
            body = await read_body(exchange, server.max_body_bytes, held)
        inbound = Inbound(
            body=body,
            max_choices=server.max_choices,
            model=self._model(scope["path"], runtime, caller) if self._finds_model else "",
            headers=scope["headers"],
            stores=self._stores and gateway.stores_responses,
        )
        if gateway.payloads is not None and not encoding:
            gateway.payloads.begin(record, body)
        if len(body) <= self._directly and not encoding:
            return parsed(self._surface, inbound, record)
        record.large = len(body) > LARGE or bool(encoding)
        with DisconnectGuard(exchange):
            if encoding:
                async with gateway.large_bodies.inflating(caller.holder):
                    whole = await inflate(body, encoding, server.max_body_bytes, held)
                inbound = plain(inbound, whole)
                if gateway.payloads is not None:
                    gateway.payloads.begin(record, whole)
                held.release(len(body))
                del whole
            del body
            try:
                return await parsed_in_thread(
                    gateway.large_bodies, self._surface, inbound, record, held
                )
            finally:
                self._directly = LARGE

    async def _answer(
        self,
        planned: Plan,
        request: Request,
        record: RequestRecord,
        response: ResponseWriter,
        runtime: Runtime,
        exchange: HotExchange,
        passage: Passage | None,
    ) -> None:
        """Answer the request; afterwards start its mirror copy, if the plan has one."""
        gateway = self._gateway
        if self._route.counts:
            await count_tokens(planned, request, record, response, exchange)
            return
        plainly = planned.mirror is None and (passage is None or passage.plainly)
        plain = self._plain if plainly else None
        if plain is not None and type(request) is ChatRequest and not request.stream:
            with DisconnectGuard(exchange):
                if passage is None:
                    chat = await collect_plain(planned, request, record, tenant=record.caller)
                else:
                    chat = await passage.chat(planned, request, record)
            if self._stores and is_kept(request):
                body = await kept_body(chat, request, self._surface, record, gateway)
            elif type(chat) is PlainAnswer:
                body = plain(chat, request, record.request_id)
            else:
                body = self._surface.renderer(request, record.request_id).answer(chat)
            await response.whole(200, body)
            return
        if type(request) is EmbeddingsRequest:
            real = await self._embed(planned, request, record, response, exchange, passage)
        else:
            renderer = self._surface.renderer(request, record.request_id)
            if self._stores:
                await seal_items(renderer, request, record, gateway)
            if request.stream:
                copied = None if planned.mirror is None else Fold()
                with DisconnectGuard(exchange) as guard:
                    rest = (renderer, gateway, guard, copied, passage)
                    await self._stream(planned, request, record, response, *rest)
                if copied is None or record.error:
                    return
                real = copied.answer()
            else:
                with DisconnectGuard(exchange):
                    real = await whole_answer(planned, request, record, passage)
                kept = storing(request, renderer, record, gateway) if self._stores else None
                body = renderer.answer(real) if kept is None else await kept.body(real)
                await response.whole(200, body, renderer.headers(record.backend))
        if planned.mirror is not None:
            gateway.mirror(planned, request, record, real, runtime)

    async def _embed(
        self,
        planned: Plan,
        request: EmbeddingsRequest,
        record: RequestRecord,
        response: ResponseWriter,
        exchange: HotExchange,
        passage: Passage | None,
    ) -> Embeddings:
        """Answer with vectors, and return them."""
        with DisconnectGuard(exchange):
            if passage is None:
                vectors = await pipeline.embed(planned, request, record, tenant=record.caller)
            else:
                vectors = await passage.vectors(planned, request, record)
        vectors = await with_usage(vectors, request, response.own_headers, large=record.large)
        renderer = self._surface.renderer(request, record.request_id)
        body = await rendered(renderer.embeddings, vectors, record)
        await response.whole(200, body, renderer.headers(record.backend))
        return vectors

    def _model(self, path: str, runtime: Runtime, caller: Caller) -> str:
        """Return the model in the path, or the operator's default if the route has one, or "".

        A key that may not use the default does not learn its name.
        """
        if self._paths is not None:
            return self._paths.find(path)[1] or self._paths.find(own_path(path))[1]
        name = runtime.default_model if self._default_model else ""
        may = name and caller.may_use(name, runtime.table.aliases.get(name, name))
        return name if may else ""

    async def _stream(
        self,
        planned: Plan,
        request: GenerateRequest,
        record: RequestRecord,
        response: ResponseWriter,
        renderer: Renderer,
        gateway: Gateway,
        guard: DisconnectGuard,
        copied: Fold | None,
        passage: Passage | None,
    ) -> None:
        """Send frames as events arrive. Raises before the first byte; later errors are frames."""
        output = StreamOutput(renderer, response, comments=self._surface.comments)
        gateway.keepalive.add(response, self._surface.keep_alive, self._surface.commit_after_s)
        source = stream_source(planned, request, record, output, copied, passage)
        try:
            async with aclosing(source):
                held = await first_batch(source, response)
                if not response.started:
                    await response.start(renderer.headers(record.backend))
                with suppress(StopAsyncIteration):
                    while True:
                        await output.write(held)
                        held = await source.asend(output)
        except GatewayError as exc:
            if not response.started:
                raise
            await self._explain(exc, request, planned, record.backend, passage)
            exc.request_id = record.request_id
            record.record_error(exc)
            guard.disarm()
            await response.end(renderer.error(exc))
            release_traceback(exc)
        else:
            if self._stores and (kept := storing(request, renderer, record, gateway)):
                await kept.end(response)
            guard.disarm()
            await response.end(renderer.finish())
        finally:
            gateway.keepalive.remove(response)

    async def _explain(
        self, exc: GatewayError, request: Request, plan: Plan, backend: str, passage: Passage | None
    ) -> None:
        """Name the client's field in an error, and mask what it quotes of a backend."""
        name_field(exc, request, self._names, plan, backend)
        if passage is not None:
            await passage.examine_error(exc)

    async def _fail(self, error: GatewayError, response: ResponseWriter) -> None:
        if error.status == 499:
            return
        error.request_id = response.request_id
        body = self._surface.error(error)
        if response.started:
            await response.end(self._surface.error_event + frame(body))
            return
        await response.error(error, body)
