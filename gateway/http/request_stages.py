"""The stages of the request path itself: from the head of a request to its plan.

1. `Admit`: the gateway takes the request, unless it drains, is full, or cannot record.
2. `Authenticate`: its key, and what the key may do. A wrong one is answered late.
3. `ReadBody`: its share of requests and of memory, then the body, decompressed.
4. `ParseBody`: bytes become a request of our schema; large ones in a thread, in turn.
5. `FindRoute`: the model's name becomes a route; the priority is what the key allows.
6. `PlanRequest`: the backends, in order, and why.

`answering.py` has the last one, which answers. Parts have theirs in between.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.content.stored_responses.process_side import StoredResponsesSide
from strowger_gateway.gateway.governance.access.auth import (
    Caller,
    WrongKey,
    too_many_wrong_keys,
)
from strowger_gateway.gateway.governance.access.key_shares import Slot
from strowger_gateway.gateway.governance.access.priority import prioritised
from strowger_gateway.gateway.governance.access.process_side import WrongKeysSide
from strowger_gateway.gateway.governance.attribution.metadata import take_metadata
from strowger_gateway.gateway.http.continuing.response_storage import continued
from strowger_gateway.gateway.http.error_fields import name_field
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.body_complexity import measure
from strowger_gateway.gateway.server.asgi.decompression import ENCODINGS, inflate
from strowger_gateway.gateway.server.asgi.large_bodies import LargeBodyQueue
from strowger_gateway.gateway.server.asgi.request_body import (
    arrived_body,
    check_type,
    encoding_of,
    read_body,
)
from strowger_gateway.gateway.server.asgi.response import DisconnectGuard
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.stages.stage import BaseStage, Place
from strowger_gateway.gateway.surfaces.base import Inbound, Surface, plain
from strowger_gateway.gateway.surfaces.body_repair import (
    BOM,
    RepairedBody,
    repair_body,
    repair_text,
)
from strowger_gateway.gateway.surfaces.hot_route import HotRoute, TemplatedPaths
from strowger_gateway.gateway.surfaces.path_aliases import own_path
from strowger_gateway.gateway.surfaces.stored_items import EarlierItemsNeeded
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest
from strowger_gateway.schemas.holdings import BACKGROUND
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.usage import tier_in

LARGE: Final = 64 * 1024
"""Maximum bytes of a body that is parsed directly in the event loop, in at most 5 ms."""

_BACKSLASH: Final = ord("\\")


class Admit(BaseStage):
    """Raises Unavailable if the request cannot be answered now."""

    place = Place.ADMIT

    def __init__(self, gateway: Gateway, runtime: Runtime) -> None:
        self._admission = gateway.admission
        self._runtime = runtime

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage."""
        self._admission.admit(self._runtime)


class Authenticate(BaseStage):
    """Raises as `Keyring.caller` does, and Throttled for an address with many wrong keys."""

    place = Place.AUTHENTICATE

    def __init__(self, gateway: Gateway, runtime: Runtime) -> None:
        self._keyring = runtime.access.keyring
        self._clients = runtime.access.clients
        self._wrong_keys = gateway.side(WrongKeysSide).throttle

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage. The key of most requests was seen a moment ago."""
        caller = self._keyring.known(request.exchange.scope)
        if caller is None:
            return self._find(request)
        _note(request, caller)
        return None

    async def _find(self, request: RequestContext) -> None:
        scope = request.exchange.scope
        try:
            caller = await self._keyring.caller(scope)
        except WrongKey:
            retry_after = await self._wrong_keys.delay_answer(scope, self._clients.of(scope))
            if retry_after:
                raise too_many_wrong_keys(retry_after) from None
            raise
        _note(request, caller)


def _note(request: RequestContext, caller: Caller) -> None:
    record = request.record
    request.caller = caller
    record.caller, record.team, record.user = caller.name, caller.team, caller.user
    record.tags, record.plan, record.holder = caller.tags, caller.plan, caller.holder


class ReadBody(BaseStage):
    """Raises as `read_body`, `inflate`, `KeyShares.hold` and `Slot.buffer` do."""

    place = Place.READ
    leaves = True

    def __init__(self, gateway: Gateway, runtime: Runtime, at: HotRoute) -> None:
        self._bodies = gateway.shares.bodies
        self._shares = gateway.shares
        self._admission = gateway.admission
        self._keyring = runtime.access.keyring
        self._server = runtime.config.server
        self._accepts = at.surface.accepts

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage. The body of most requests has arrived, and is not compressed."""
        exchange, record, server = request.exchange, request.record, self._server
        fields = exchange.fields
        check_type(fields.get(b"content-type", b""), self._accepts)
        encoding = encoding_of(fields, ENCODINGS)
        held = self._shares.hold(
            record.caller,
            server,
            several=self._keyring.several,
            others_in_flight=self._admission.others_in_flight,
        )
        request.room = record.room = held
        body = arrived_body(exchange, server.max_body_bytes, held)
        if body is None or encoding:
            return self._read(request, held, body, encoding)
        request.body = body
        return None

    def leave(self, request: RequestContext) -> None:
        """Give back the slot and the memory."""
        held = request.room
        if type(held) is Slot:
            held.close()

    async def _read(
        self, request: RequestContext, held: Slot, body: bytes | None, encoding: bytes
    ) -> None:
        """body: `None` if it has not arrived. encoding: one of ENCODINGS, or b""."""
        exchange, most = request.exchange, self._server.max_body_bytes
        if body is None:
            body = await read_body(exchange, most, held)
        if encoding:
            request.record.large = True
            with DisconnectGuard(exchange):
                async with self._bodies.inflating(request.record.holder):
                    whole = await inflate(body, encoding, most, held)
            held.release(len(body))
            body = whole
        request.body = body


class ParseBody(BaseStage):
    """Raises as the surface's `parse`, `measure` and `Slot.buffer` do."""

    place = Place.PARSE

    def __init__(self, gateway: Gateway, runtime: Runtime, at: HotRoute) -> None:
        self._gateway = gateway
        self._runtime = runtime
        self._surface = at.surface
        self._directly = -1 if at.surface.late else LARGE
        self._paths = TemplatedPaths((at,)) if at.templated else None
        self._finds_model = at.default_model or at.templated
        self._stored = gateway.side(StoredResponsesSide) if at.stores else None
        self._max_choices = runtime.config.server.max_choices
        self._prompts = bool(runtime.config.prompts)

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage."""
        body, request.body = request.body, b""
        inbound = Inbound(
            body=body,
            max_choices=self._max_choices,
            model=self._model(request) if self._finds_model else "",
            headers=request.exchange.scope["headers"],
            stores=self._stored is not None and self._stored.stores,
            prompts=self._prompts,
        )
        record = request.record
        if len(body) > self._directly or record.large:
            return self._parse_in_thread(request, inbound)
        try:
            request.request = request.response.request = parsed(self._surface, inbound, record)
        except EarlierItemsNeeded as needed:
            return self._continue(request, needed)
        return None

    async def _parse_in_thread(self, request: RequestContext, inbound: Inbound) -> None:
        """Measure the body, claim memory for its values, and parse it, when it is the key's turn.

        Also the first body of a surface, because its modules are imported with it.
        """
        record, held, bodies = request.record, request.record.room, self._gateway.shares.bodies
        assert type(held) is Slot
        if record.large:
            inbound = plain(inbound, inbound.body)
        record.large = record.large or len(inbound.body) > LARGE
        try:
            with DisconnectGuard(request.exchange):
                request.use(await parsed_in_thread(bodies, self._surface, inbound, record, held))
        except EarlierItemsNeeded as needed:
            await self._continue(request, needed)
        finally:
            self._directly = LARGE

    async def _continue(self, request: RequestContext, needed: EarlierItemsNeeded) -> None:
        """Add the stored and sealed items that the request refers to."""
        request.use(await continued(needed, request, self._gateway, LARGE))

    def _model(self, request: RequestContext) -> str:
        """Return the model in the path, or the operator's default if the route has one, or "".

        A key that may not use the default does not learn its name.
        """
        if self._paths is not None:
            path = request.exchange.scope["path"]
            return self._paths.find(path)[1] or self._paths.find(own_path(path))[1]
        name, caller = self._runtime.default_model, request.caller
        assert caller is not None
        may = name and caller.may_use(name, self._runtime.table.aliases.get(name, name))
        return name if may else ""


def parsed(surface: Surface, inbound: Inbound, record: RequestRecord) -> Request:
    """Parse a body, after repairing bytes that are not valid Unicode text.

    Raises as the surface's `parse` does.
    """
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
    """Parse a large body in a thread, when it is the key's turn.

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


class FindRoute(BaseStage):
    """Raises ModelNotFound, also for a model that the key may not use."""

    place = Place.FIND_ROUTE

    def __init__(self, runtime: Runtime, at: HotRoute) -> None:
        self._table = runtime.table
        self._task = at.surface.task or ""

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage."""
        record, sent, caller = request.record, request.request, request.caller
        assert sent is not None
        assert type(caller) is Caller
        record.model = sent.model
        record.task = self._task or sent.task
        route = request.route = self._table.find(sent.model, caller.may_use)
        record.route = route.name
        if type(sent) is not EmbeddingsRequest:  # `isinstance` takes 7 times as long: ADR 16
            record.stream = sent.stream
            if sent.priority is not UNSET:
                request.use(prioritised(sent, caller, record))
        if type(sent) is ChatRequest:
            first = sent.original
            kept = first is not None and "metadata" in first.fields
            if kept or sent.extra or sent.metadata is not UNSET:
                take_metadata(request)
        elif type(sent) is not TokenRequest and sent.extra:
            take_metadata(request)
        if caller.background:
            record.level = BACKGROUND


class FindRespeltRoute(FindRoute):
    """The same where clients spell a model's name in more than one way."""

    def __init__(self, runtime: Runtime, at: HotRoute) -> None:
        super().__init__(runtime, at)
        self._own_name = self._table.tagged if at.tagged else self._table.prefixed

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage."""
        sent = request.request
        assert sent is not None
        name = self._own_name(sent.model)
        if name != sent.model:
            request.use(replace(sent, model=name))
        return super().enter(request)


class PlanRequest(BaseStage):
    """Raises InvalidRequest if no backend can express the request, Unavailable if none is free.

    Enrolment in an experiment comes first, because a rejection is an outcome, too.
    """

    place = Place.PLAN

    def __init__(self, gateway: Gateway, runtime: Runtime, at: HotRoute) -> None:
        self._random = gateway.random.random
        self._planner = runtime.planner
        self._counts = at.counts
        self._names = at.surface.field_names

    def enter(self, request: RequestContext) -> Awaitable[None] | None:
        """See Stage. What is recorded says why the request goes where it goes, without content."""
        record, planner = request.record, self._planner
        sent, route = request.request, request.route
        assert sent is not None
        assert route is not None
        facts = RequestFacts(
            uniform_draw=self._random(),
            now=record.started,
            caller=record.caller,
            headers=request.exchange.scope["headers"],
            request_id=record.request_id,
        )
        enrolment = request.enrolment or planner.enrol(route, sent, facts)
        if enrolment is not None:
            record.participation = enrolment.participation
        try:
            plan = planner.plan(route, sent, facts, enrolment, counting=self._counts)
        except GatewayError as exc:
            name_field(exc, sent, self._names)
            raise
        if type(sent) is not TokenRequest and sent.extra:
            record.requested_tier = record.service_tier = tier_in(sent.extra) or ""
        if planner.pooled:
            record.client_headers = facts.headers
        record.candidates, record.rule = plan.names, plan.rule
        if plan.ruled_out:
            record.ruled_out = plan.ruled_out
        request.plan = plan
