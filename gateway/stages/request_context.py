"""All that is known of a request while it is answered, in one object that its stages share."""

from msgspec import Struct

from strowger_gateway.gateway.routing.planning.enrolment import Enrolment
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.gateway.server.asgi.exchange import HotExchange
from strowger_gateway.gateway.server.asgi.response import ResponseWriter
from strowger_gateway.gateway.stages.answer_filter import AnswerFilter
from strowger_gateway.gateway.stages.generation import Generation, HeldRoom, KnownCaller
from strowger_gateway.schemas.requests import Request


class RequestContext(Struct, eq=False):
    """A Struct created by position, because every request creates one (docs/adr/0016).

    generation: of the configuration, the same from the beginning of the request to its end.
    exchange:   the connection's side of it.
    record:     what becomes its line in the access log.
    response:   writes the answer; its `own_headers` are added to the answer's.
    slots:      what stages keep of it, each in its own place: `slots[stage.slot]`.
    filters:    that its answer passes; the first is the nearest to the backend.
    caller, room: from Place.READ on. room: the memory that the request may use.
    body:       without its compression, at Place.PARSE only.
    request:    as backends get it, from Place.FIND_ROUTE on; `use` replaces it.
    route:      of the model that it asks for, from Place.RESERVE on.
    enrolment:  in an experiment, by a stage that has to know it before Place.PLAN; else `None`.
    plan:       from Place.ANSWER on.
    """

    generation: Generation
    exchange: HotExchange
    record: RequestRecord
    response: ResponseWriter
    slots: list[object]
    filters: list[AnswerFilter]
    caller: KnownCaller | None = None
    room: HeldRoom | None = None
    body: bytes = b""
    request: Request | None = None
    route: Route | None = None
    plan: Plan | None = None
    enrolment: Enrolment | None = None

    def use(self, request: Request) -> None:
        """Go on with this request, which backends get, instead of the one until now."""
        self.request = self.response.request = request
