"""Render answers of the Messages API, whole and streamed.

https://docs.anthropic.com/en/api/messages
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import DecodeError, Raw

from strowger_gateway.gateway.surfaces.anthropic import proofs
from strowger_gateway.gateway.surfaces.anthropic.block_writer import (
    STOP,
    BlockWriter,
    message_delta,
    message_start,
    tool_use,
)
from strowger_gateway.gateway.surfaces.anthropic.errors import ERROR, error_body
from strowger_gateway.gateway.surfaces.anthropic.web_searches import citations, search_blocks
from strowger_gateway.gateway.surfaces.openai.envelope import encode, members, with_members
from strowger_gateway.gateway.surfaces.openai.usage import MAX_BYTES
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
    Usage,
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

_NO_USAGE: Final = b'{"input_tokens":0,"output_tokens":0}'
"""For `message_start` of a backend that counts at the end: its counts follow in `message_delta`."""

_TOTALS: Final = frozenset({"input_tokens", "output_tokens"})
_OTHERS: Final = frozenset({"prompt_tokens", "total_tokens"})
"""Counts of other formats, whose `input_tokens` include the cached ones."""

_fields: Final = msgspec.json.Decoder(dict[str, Raw])

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
        delta = b'{"stop_reason":"%b","stop_sequence":%b}' % (reason.encode(), encode(match))
        beside = b""
        if self._opaque:
            opaque = {name: raw for name, raw in self._opaque.items() if name not in _OURS}
            inside = {name: raw for name, raw in opaque.items() if name not in _BESIDE}
            delta = with_members(delta, inside, ())
            beside = members({name: opaque[name] for name in opaque if name in _BESIDE}, ())
        out += (message_delta(delta, beside, usage_json(self._usage)), STOP)
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
        if not offers_search(self._request):
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
        if choice.opaque and offers_search(self._request):
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


def usage_json(usage: Usage | None) -> bytes:
    """Return the counts on one line; cached tokens are not among `input_tokens`.

    Clients require both totals, so one that is unknown is 0.
    """
    if usage is None:
        return _NO_USAGE
    vendor = _vendor(usage.raw)
    if vendor:
        return one_line(encode(vendor))
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    prompt = (usage.prompt_tokens or 0) - (cached or 0) - (written or 0)
    fields: dict[str, object] = {
        "input_tokens": max(prompt, 0),
        "output_tokens": usage.completion_tokens or 0,
    }
    if written is not None:
        fields["cache_creation_input_tokens"] = written
        long = usage.cache_write_1h_tokens
        if long is not None:
            fields["cache_creation"] = {
                "ephemeral_5m_input_tokens": max(written - long, 0),
                "ephemeral_1h_input_tokens": long,
            }
    if cached is not None:
        fields["cache_read_input_tokens"] = cached
    if usage.reasoning_tokens is not None:
        fields["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return encode(fields)


def _vendor(raw: Raw | None) -> dict[str, Raw]:
    """Return the vendor's object if it is in this API's format."""
    if raw is None or len(memoryview(raw)) > MAX_BYTES or b'"input_tokens"' not in bytes(raw):
        return {}
    try:
        found = _fields.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return found if found.keys() >= _TOTALS and _OTHERS.isdisjoint(found) else {}
