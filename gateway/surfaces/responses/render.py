"""Render answers of the Responses API, whole and streamed.

https://platform.openai.com/docs/api-reference/responses/object
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.openai.bodies import openai_error
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses import items, web_searches
from strowger_gateway.gateway.surfaces.responses.carriers import Carriers, inserted
from strowger_gateway.gateway.surfaces.responses.compaction import LEADING, leading_in
from strowger_gateway.gateway.surfaces.responses.encrypted_content import sealed, sealed_call
from strowger_gateway.gateway.surfaces.responses.frames import event
from strowger_gateway.gateway.surfaces.responses.item_writer import ItemWriter
from strowger_gateway.gateway.surfaces.responses.items import COMPLETED, IN_PROGRESS, INCOMPLETE
from strowger_gateway.gateway.surfaces.responses.namespaces import OwnTool, own_tools
from strowger_gateway.gateway.surfaces.responses.native_events import NativeEvents
from strowger_gateway.gateway.surfaces.responses.plain_response import CUT, plain_outcome
from strowger_gateway.gateway.surfaces.responses.resource import (
    NATIVE,
    ResourceWriter,
    ResponseOutcome,
    is_summarised,
)
from strowger_gateway.gateway.surfaces.responses.usage import usage_json
from strowger_gateway.gateway.surfaces.sse import DONE
from strowger_gateway.gateway.surfaces.turn_renderer import TurnRenderer, finish_of
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    NativeDelta,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    Tokens,
    ToolDelta,
)
from strowger_gateway.schemas.messages import ToolCall
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.searches import (
    citations_of,
    offers_search,
    searches_of,
    whole_searches_of,
)

REASONS: Final[dict[FinishReason, bytes]] = {
    "length": CUT,
    "content_filter": b'{"reason":"content_filter"}',
}
"""Why an answer is incomplete; with any other reason it is complete."""

OUTPUT: Final = "output"
"""The field of an answer that holds its items, from backends of this API."""

_CODES: Final = {429: "rate_limit_exceeded", 400: "invalid_prompt"}
"""By status: codes of a failed response that clients know; otherwise server_error."""


class ResponsesRenderer(TurnRenderer):
    """Render one answer. Mutable state: also the items of a stream, once it begins.

    clock: returns Unix seconds.

    An answer that is to be stored says so. After `answer` and `plain`, or `end_items` for a stream,
    `resource` and `output` are what to store; `on_not_stored` takes the promise back.
    """

    def __init__(
        self, request: ChatRequest, *, request_id: str, created: int, clock: Callable[[], float]
    ) -> None:
        self._request = request
        self._model = request.model
        self._id = request_id
        self._clock = clock
        self.id = f"resp_{request_id}"
        self._resource = ResourceWriter(request, id=self.id, created=created)
        storage = None if request.original is None else request.original.storage
        self._stored = storage is not None and storage.store
        self._ended: ResponseOutcome | None = None
        self._own = own_tools(request)
        self._summarised = is_summarised(request)
        self._items: ItemWriter
        self._native: NativeEvents | None = None
        self._carriers: Carriers | None = None
        self._leading: list[bytes] = []

    def use_carriers(self, carriers: Carriers) -> None:
        """Let items of the answer carry others; before `answer`, `plain` or the first event."""
        self._carriers = carriers

    def answer(self, answer: Answer) -> bytes:
        choice = answer.choices[0]
        incomplete = _incomplete(finish_of(choice))
        self._started, self._usage = answer.started, answer.usage
        self._leading = [*map(bytes, leading_in(choice.opaque))]
        self._opaque = {name: raw for name, raw in choice.opaque.items() if name != LEADING}
        status = COMPLETED if incomplete is None else INCOMPLETE
        output = self._output(choice, status)
        if self._carriers is not None:
            output = self._carriers.woven(output)
        self._ended = outcome = self._outcome(status, output, incomplete)
        return self._resource.write(outcome)

    def plain(self, answer: PlainAnswer) -> bytes:
        """As `answer`."""
        outcome = plain_outcome(answer, self._request, self._id, self._clock, stored=self._stored)
        if self._carriers is not None:
            outcome = replace(outcome, output=self._carriers.woven(outcome.output))
        self._ended = outcome
        return self._resource.write(outcome)

    @property
    def output(self) -> bytes:
        """The items of an answer that has ended, as a JSON list."""
        return self._outcome_at_end.output

    @property
    def resource(self) -> bytes:
        """The resource of an answer that has ended, with an empty list in place of its items."""
        return self._resource.write(replace(self._outcome_at_end, output=b"[]"))

    def on_not_stored(self) -> bytes:
        """The answer could not be stored. Return the resource that says so, with its items."""
        self._stored = False
        self._ended = outcome = replace(self._outcome_at_end, stored=False)
        return self._resource.write(outcome)

    def events(self, batch: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for one in batch:
            if type(one) is TextDelta and self._native is None:
                if not self._begun:
                    self._begin(out)
                self._items.text(one.text, one.logprobs, out)
            else:
                self._event(one, out)
        return b"".join(out)

    def end_items(self) -> bytes:
        """Return the frames that end the items of a stream; only `finish` may follow."""
        out: list[bytes] = []
        self._begin(out)
        incomplete = None if self._end is None else _incomplete(self._end)
        status = COMPLETED if incomplete is None else INCOMPLETE
        if self._native is None:
            output = self._items.finish(out, status)
        else:
            output = self._native.finish(self._items, out)
            if OUTPUT in self._opaque:  # the end has more of the items than their events had
                output = self._native.whole(bytes(self._opaque[OUTPUT]))
        self._ended = self._outcome(status, output, incomplete)
        return b"".join(out)

    def finish(self) -> bytes:
        """Return how the answer ended; its counts may come after the reason."""
        out = [self.end_items()] if self._ended is None else []
        outcome = self._outcome_at_end
        self._lifecycle(outcome, outcome.status, out)
        out.append(DONE)
        return b"".join(out)

    def error(self, exc: GatewayError) -> bytes:
        """Return the failed response, and the error event that clients raise on."""
        out: list[bytes] = []
        self._begin(out)
        told = {"code": _CODES.get(exc.status, "server_error"), "message": exc.message}
        outcome = ResponseOutcome(
            status=b"failed",
            model=self._answering_model,
            output=(self._native or self._items).ended(),
            error=encode(told),
            usage=usage_json(self._usage),
        )
        self._lifecycle(outcome, b"failed", out)
        error = openai_error(exc)
        detail = {"code": error.code, "message": error.message, "param": error.param}
        data = encode({**detail, "error": error})[1:-1]
        out.append(event(b"error", data, self._items.number))
        return b"".join(out)

    @property
    def _outcome_at_end(self) -> ResponseOutcome:
        if self._ended is None:
            raise GatewayError("an answer that has not ended has no outcome")
        return self._ended

    def _event(self, one: Event, out: list[bytes]) -> None:
        if isinstance(one, OpaqueDelta) and LEADING in one.fields:
            self._begin(out)
            for item in map(bytes, leading_in(one.fields)):
                self._leading.append(item)
                self._items.lead(item, out)
            return
        if self._keeps(one):
            return
        self._begin(out)
        if isinstance(one, NativeDelta) and one.delta is not None:
            self._native = self._native or NativeEvents(self._carriers, self._leading)
            self._native.write(one.delta, self._items, out)
        if self._native is not None:
            return  # its events have everything that ours have
        match one:
            case Tokens():
                self._items.text(one.text, one.logprobs, out)
            case RefusalDelta():
                self._items.refusal(one.text, out)
            case ReasoningDelta():
                self._items.thought(one, out)
            case ToolDelta():
                self._items.tool(one, out)
            case OpaqueDelta() if offers_search(self._request):
                self._items.cite(citations_of(one.fields), out)  # a search ends the text
                self._items.searched(searches_of(one.fields), out)
            case _:
                pass

    def _begin(self, out: list[bytes]) -> None:
        if self._begun:
            return
        self._begun = True
        self._items = ItemWriter(
            self._id, own=self._own, summarised=self._summarised, carriers=self._carriers
        )
        outcome = ResponseOutcome(
            status=IN_PROGRESS,
            stored=self._stored,
            model=self._answering_model,
            extra=self._started.extra,
        )
        self._lifecycle(outcome, b"created", out)
        self._lifecycle(outcome, b"in_progress", out)

    def _lifecycle(self, outcome: ResponseOutcome, name: bytes, out: list[bytes]) -> None:
        whole = self._resource.write(outcome)
        self._items.emit(b"response.%b" % name, b'"response":%b' % whole, out)

    def _outcome(self, status: bytes, output: bytes, incomplete: bytes | None) -> ResponseOutcome:
        return ResponseOutcome(
            status=status,
            stored=self._stored,
            model=self._answering_model,
            output=output,
            completed_at=int(self._clock()) if incomplete is None else None,
            incomplete=b"null" if incomplete is None else incomplete,
            usage=usage_json(self._usage),
            extra={**self._started.extra, **self._opaque},
        )

    def _output(self, choice: Choice, status: bytes) -> bytes:
        """Return the items of a whole answer: reasoning, the message, calls.

        A backend of this API has sent them as they are.
        """
        if OUTPUT in choice.opaque and NATIVE in self._started.extra:
            own = bytes(choice.opaque[OUTPUT])
            return inserted(own, dict(enumerate(self._leading))) if self._leading else own
        made: list[Callable[[bytes, bytes], bytes]] = []
        for thought in choice.thoughts:
            encrypted = sealed(thought.text, thought.signature, thought.data, thought.format)
            made.append(self._reasoning(thought.text, encrypted))
        cited: list[bytes] = []
        if choice.opaque and offers_search(self._request):
            made += [web_searches.whole_call(one) for one in whole_searches_of(choice.opaque)]
            cited = web_searches.citations(citations_of(choice.opaque))
        parts: list[bytes] = []
        if choice.text:
            logprobs = items.logprobs_json(choice.logprobs)
            parts.append(items.text_part(encode(choice.text), logprobs, cited))
        if choice.refusal:
            parts.append(items.refusal_part(encode(choice.refusal)))
        if not parts and not made and not choice.tool_calls and not self._leading:
            parts.append(items.text_part(b'""'))
        if parts:
            made.append(lambda id, status: items.message(b"msg_" + id, parts, status))
        for call in choice.tool_calls:
            if call.signature:
                made.append(self._reasoning("", sealed_call(call.signature, call.id)))
            made.append(self._call(call))
        last = len(made) - 1
        id, before = self._id.encode(), len(self._leading)
        written = [
            write(b"%b_%d" % (id, before + place), status if place == last else COMPLETED)
            for place, write in enumerate(made)
        ]
        return b"[%b]" % b",".join([*self._leading, *written])

    def _reasoning(self, text: str, encrypted: str) -> Callable[[bytes, bytes], bytes]:
        return lambda id, status: items.reasoning(
            b"rs_" + id, text, encrypted, summarised=self._summarised, status=status
        )

    def _call(self, call: ToolCall) -> Callable[[bytes, bytes], bytes]:
        own = self._own.get(call.name) or OwnTool(name=call.name)
        if own.custom:
            given = encode(items.custom_input(call.arguments))
            return lambda id, status: items.custom_call(b"ctc_" + id, call.id, own, given, status)
        arguments = encode(call.arguments or "{}")
        return lambda id, status: items.function_call(b"fc_" + id, call.id, own, arguments, status)


def _incomplete(finish: Finished) -> bytes | None:
    """Return why an answer is incomplete, in the backend's words if they are this API's."""
    known = REASONS.get(finish.reason)
    return known if known is None or finish.native not in _REASONS else _REASONS[finish.native]


_REASONS: Final[dict[str, bytes]] = {"max_tool_calls": b'{"reason":"max_tool_calls"}'}
