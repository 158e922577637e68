"""Render answers of the Messages API, whole and streamed.

https://docs.anthropic.com/en/api/messages
"""

from collections.abc import Mapping, Sequence
from typing import Final

from strowger_gateway.gateway.surfaces.anthropic import proofs
from strowger_gateway.gateway.surfaces.anthropic.block_writer import BlockWriter, tool_use
from strowger_gateway.gateway.surfaces.anthropic.errors import error_body
from strowger_gateway.gateway.surfaces.anthropic.frames import (
    ERROR,
    STOP,
    encode,
    message_delta,
    message_start,
)
from strowger_gateway.gateway.surfaces.anthropic.usage import usage_json
from strowger_gateway.gateway.surfaces.anthropic.web_searches import citations, search_blocks
from strowger_gateway.gateway.surfaces.openai.stream_chunks import members, with_members
from strowger_gateway.gateway.surfaces.sse import frame, one_line
from strowger_gateway.gateway.surfaces.token_estimate.estimate import estimated_input
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
from strowger_gateway.schemas.measured_json import kind_of_json
from strowger_gateway.schemas.messages import Thought, ToolCall
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.searches import (
    SEARCHES,
    Cited,
    Search,
    citations_field,
    citations_of,
    offers_search,
    searches_of,
    whole_searches_of,
)

BLOCKS: Final = "content_blocks"
"""An answer's own blocks, in order, from a backend of this dialect; as whole answers have them."""

STOP_REASONS: Final[Mapping[FinishReason, str]] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
OWN_REASONS: Final = frozenset(
    {
        *STOP_REASONS.values(),
        "stop_sequence",
        "pause_turn",
        "model_context_window_exceeded",
    }
)
"""A backend's own reasons that clients of this API know."""

_WITHOUT_CALLS: Final = ("tool_use", "stop")
"""The backend said that it calls, and did not: its adapter knows better."""

_BESIDE: Final = frozenset({"context_management"})
"""Fields that `message_delta` has next to `delta`."""

_OURS: Final = frozenset(
    {
        BLOCKS,
        SEARCHES,
        "id",
        "type",
        "role",
        "model",
        "content",
        "stop_reason",
        "stop_sequence",
        "usage",
    }
)


class MessagesRenderer(TurnRenderer):
    """Render one answer. Mutable state: also the blocks of a stream."""

    def __init__(self, request: ChatRequest, *, id: str) -> None:
        self._id = id
        self._request = request
        self._model = request.model
        self._refused = False
        self._blocks = BlockWriter()
        self._searches = bool(request.tools) and offers_search(request)
        self._searched_for = 0
        self._cited: list[Cited] = []

    def answer(self, answer: Answer) -> bytes:
        choice = answer.choices[0]
        finish = finish_of(choice)
        blocks = choice.opaque.get(BLOCKS)
        content = self._content(choice) if blocks is None else bytes(blocks)
        reason, match = _stop(
            finish, called=bool(choice.tool_calls), refused=choice.refusal is not None
        )
        model = answer.started.model or self._model
        whole = b"".join(
            (
                self._head(model),
                b',"content":',
                content,
                b',"stop_reason":"%b","stop_sequence":%b' % (reason.encode(), encode(match)),
                b',"usage":',
                usage_json(answer.usage),
                b"}",
            )
        )
        extra = {**answer.started.extra, **choice.opaque}
        return with_members(whole, extra, _OURS) if extra else whole

    def events(self, batch: Sequence[Event]) -> bytes:
        out: list[bytes] = []
        for event in batch:
            if type(event) is TextDelta:
                if not self._begun:
                    self._begin(out)
                self._blocks.text(event.text, out)
            else:
                self._event(event, out)
        return b"".join(out)

    def finish(self) -> bytes:
        """Return how the answer ended; its counts may come after the reason."""
        out: list[bytes] = []
        self._begin(out)
        if self._cited and not self._searched_for:
            self._write_searches(whole_searches_of(citations_field(self._cited)), out)
        self._blocks.finish(out)
        finished = self._end or Finished(reason="stop")
        called = self._blocks.calls > 0
        reason, match = _stop(finished, called=called, refused=self._refused)
        opaque = {name: raw for name, raw in self._opaque.items() if name not in _OURS}
        inside = {name: raw for name, raw in opaque.items() if name not in _BESIDE}
        beside = {name: raw for name, raw in opaque.items() if name in _BESIDE}
        delta = b'{"stop_reason":"%b","stop_sequence":%b}' % (reason.encode(), encode(match))
        out += (
            message_delta(
                with_members(delta, inside, ()), members(beside, ()), usage_json(self._usage)
            ),
            STOP,
        )
        return b"".join(out)

    def error(self, exc: GatewayError) -> bytes:
        return ERROR + frame(error_body(exc))

    def _event(self, event: Event, out: list[bytes]) -> None:
        if self._keeps(event):
            return
        self._begin(out)
        match event:
            case Tokens():
                self._blocks.text(event.text, out)
            case RefusalDelta():
                self._refused = True
                self._blocks.text(event.text, out)
            case ReasoningDelta():
                self._blocks.thought(event, out)
            case ToolDelta():
                self._blocks.tool(event, out)
            case NativeDelta():
                self._blocks.native(event, out)
            case OpaqueDelta():
                self._searched(event, out)
            case _:
                pass

    def _searched(self, event: OpaqueDelta, out: list[bytes]) -> None:
        """Write the searches that are not yet written, and what the answer cites."""
        if not self._searches:
            return
        cited = citations_of(event.fields)
        self._cited += cited
        self._blocks.cite(cited, out)  # a search would end the text that cites it
        self._write_searches(searches_of(event.fields), out)

    def _write_searches(self, found: Sequence[Search], out: list[bytes]) -> None:
        for place in range(self._searched_for, len(found)):
            self._blocks.search(search_blocks(found[place], self._id, place), out)
        self._searched_for = max(self._searched_for, len(found))

    def _content(self, choice: Choice) -> bytes:
        """Return the blocks in the order of this API: reasoning, searches, text, calls."""
        blocks = [_thought(thought) for thought in choice.thoughts]
        cited = b""
        if self._searches and choice.opaque:
            for place, search in enumerate(whole_searches_of(choice.opaque)):
                blocks += search_blocks(search, self._id, place).whole
            found = b",".join(citations(citations_of(choice.opaque)))
            cited = b',"citations":[%b]' % found if found else b""
        if choice.text:
            blocks.append(b'{"type":"text","text":%b%b}' % (encode(choice.text), cited))
        if choice.refusal:
            blocks.append(b'{"type":"text","text":%b}' % encode(choice.refusal))
        calls = _calls(choice, blocks)
        blocks += calls
        return b"[%b]" % b",".join(blocks)

    def _begin(self, out: list[bytes]) -> None:
        if self._begun:
            return
        self._begun = True
        extra = self._started.extra
        usage = extra.get("usage")
        head = b"".join(
            (
                self._head(self._answering_model),
                b',"content":[],"stop_reason":null,"stop_sequence":null,"usage":',
                self._first_usage() if usage is None else one_line(bytes(usage)),
                b"}",
            )
        )
        out.append(message_start(with_members(head, extra, _OURS) if extra else head))

    def _first_usage(self) -> bytes:
        """Return the counts, or an estimate: clients show how full the context is from here on."""
        if self._usage is not None:
            return usage_json(self._usage)
        tokens = estimated_input(self._request, self._answering_model, quickly=True)
        return b'{"input_tokens":%d,"output_tokens":0}' % tokens

    def _head(self, model: str) -> bytes:
        return b'{"id":"%b","type":"message","role":"assistant","model":%b' % (
            self._id.encode(),
            encode(model),
        )


def _thought(thought: Thought) -> bytes:
    if thought.data:
        data = encode(proofs.written(thought.data, thought.format))
        return b'{"type":"redacted_thinking","data":%b}' % data
    proof = proofs.written(thought.signature, thought.format)
    return _thinking(thought.text, proof)


def _thinking(text: str, proof: str) -> bytes:
    return b'{"type":"thinking","thinking":%b,"signature":%b}' % (encode(text), encode(proof))


def _calls(choice: Choice, before: list[bytes]) -> list[bytes]:
    """Return the calls' blocks, with Gemini's signatures where clients return them.

    before: the blocks in front, of which the last one is signed if it is a thought without a proof.
    """
    blocks: list[bytes] = []
    for place, call in enumerate(choice.tool_calls):
        id = proofs.unsigned_id(call.id)
        if call.signature:
            proof = proofs.written_for_call(call.signature, call.id)
            last = choice.thoughts[-1] if choice.thoughts else None
            ends = place == 0 and len(before) == len(choice.thoughts)
            if ends and last is not None and last.text and not (last.signature or last.data):
                before[-1] = _thinking(last.text, proof)
            else:
                signed = proofs.signed_id(call.id, call.signature)
                id = signed or id
                blocks += [] if signed else [_thinking("", proof)]
        blocks.append(_call(call, id))
    return blocks


def _call(call: ToolCall, id: str) -> bytes:
    arguments = call.arguments or "{}"
    if kind_of_json(arguments) != "{":
        # Cut off by a limit, or not what the tool takes: clients need an object.
        arguments = "{}"
    return tool_use(id, call.name, arguments.encode())


def _stop(finish: Finished, *, called: bool, refused: bool) -> tuple[str, str | None]:
    """Return the reason, and the stop sequence that was generated."""
    match = finish.stop_match if isinstance(finish.stop_match, str) else None
    reason = STOP_REASONS[finish.reason]
    if finish.native in OWN_REASONS and (finish.native, finish.reason) != _WITHOUT_CALLS:
        reason = finish.native
    elif reason == "end_turn" and match is not None:
        reason = "stop_sequence"
    if reason == "end_turn":
        reason = "tool_use" if called else "refusal" if refused else reason
    return reason, match if reason == "stop_sequence" else None
