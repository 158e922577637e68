"""Decodes answers of the Responses API to events, streamed or complete.

A complete answer passes through the same states as a stream. Only `response.completed` and
`response.incomplete` end a stream; unknown events are ignored. A client of this API gets every
event of an item as it is, before our own of the same content; other clients get items that our
events do not have whole, in `output_items`.
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.decoder_limits import BLOCKS, NOTES, TOOLS, overfull
from strowger_gateway.adapters.errors import unreadable
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.adapters.openai_responses.errors import error_inside
from strowger_gateway.adapters.openai_responses.open_item import READ, OpenItem, annotations_of
from strowger_gateway.adapters.openai_responses.wire import (
    OutputItem,
    StreamEvent,
    WireResponse,
    read_event,
    read_fields,
    read_item,
    read_kind,
    read_response,
    usage_of,
)
from strowger_gateway.adapters.web_search.answers import search_of_item
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    NativeDelta,
    OpaqueDelta,
    ReasoningDelta,
    Started,
    TextDelta,
)
from strowger_gateway.schemas.searches import Search, citations_of, searches_field, with_results

ITEMS = "output_items"
"""The field for items of the server's own tools, to clients of other APIs."""

OUTPUT = "output"
"""The field for all items of a complete answer, to clients of this API."""

INCOMPLETE: Mapping[str, FinishReason] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
"""`incomplete_details.reason` -> ours; any other is a `length` with its native reason."""

LIFECYCLE = frozenset({"response.created", "response.in_progress", "response.queued"})
ENDS = frozenset({"response.completed", "response.incomplete"})
FAILURES = frozenset({"error", "response.failed"})
DELTAS: Mapping[str, str] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.function_call_arguments.delta": "arguments",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "content",
}
BEGUN, DONE = "response.output_item.added", "response.output_item.done"
READ_EVENTS = frozenset({*LIFECYCLE, *ENDS, *FAILURES, *DELTAS, BEGUN, DONE})

SETTINGS = frozenset(
    """
    background completed_at conversation created_at error frequency_penalty id include
    incomplete_details instructions max_output_tokens max_tool_calls metadata model next_response_id
    object output output_text parallel_tool_calls presence_penalty previous_response_id prompt
    prompt_cache_key prompt_cache_retention reasoning safety_identifier status store temperature
    text tool_choice tools top_logprobs top_p truncation usage user
    """.split()  # noqa: SIM905  forty quoted strings are harder to read
)
"""Fields of a response that are read, or repeat the request; all others reach the client."""

OWN = frozenset(
    """
    conversation include moderation next_response_id prompt prompt_cache_diagnostics
    prompt_cache_options prompt_cache_retention tool_usage
    """.split()  # noqa: SIM905  as above
)
"""Fields that only this API has: its clients get them even if they repeat the request."""

NATIVE = "(responses)"
"""Marks the fields of an answer as this API's own; a name that no server sends."""

_END_MARK = b"[DONE]"
_TRUE = Raw(b"true")
_encode = msgspec.json.Encoder().encode


class ResponsesDecoder:
    """Decodes one answer. stream: whether a stream was requested.

    native: the client speaks this API. proofs: see adapters/openai_responses/row.py.
    """

    def __init__(
        self, endpoint: Endpoint, *, stream: bool, native: bool, proofs: Collection[str]
    ) -> None:
        self._endpoint = endpoint
        self._stream = stream
        self._native = native
        self._proves = bool(proofs)
        self.ended = False
        self._started: Started | None = None
        self._items: dict[int, OpenItem] = {}
        self._others: list[Raw] = []
        self._ended: list[Raw] = []
        self._annotations: list[tuple[int, Raw]] = []
        self._told = 0
        self._searches: list[Search] = []
        self._tools = 0
        self._thoughts = 0
        self._shown = False
        self._passed = False

    def feed(self, event: str, data: bytes) -> Sequence[Event]:
        if self.ended:
            return ()
        try:
            return self._event(event, data) if self._stream else self._whole(data)
        except UNREADABLE as exc:  # of log probabilities
            raise unreadable(self._endpoint, data) from exc

    def close(self) -> Sequence[Event]:
        if not self.ended:
            raise self._broken("stream ended early")
        return ()

    def _whole(self, data: bytes) -> Sequence[Event]:
        response = self._response(Raw(data))
        if response.error != NULL or response.status == "failed":
            raise self._failed(response, data)
        if response.output is None:
            raise unreadable(self._endpoint, data)
        found = self._start(response, data)
        if self._native:
            found.append(OpaqueDelta(fields={OUTPUT: Raw(_encode(response.output))}))
        return [*found, *self._end(response)]

    def _event(self, name: str, data: bytes) -> Sequence[Event]:
        if data.strip() == _END_MARK:
            return ()
        event = self._read(data)
        kind = event.type or name
        if kind in FAILURES or event.error != NULL:
            raise self._failure(event, data)
        if kind in LIFECYCLE:
            return self._start(self._response(event.response), event.response)
        if kind in ENDS:
            response = self._response(event.response)
            found = self._start(response, event.response)
            return [*found, *self._end(response)]
        if kind in DELTAS and event.output_index not in self._items and not self._passed:
            self._native = False  # clients need the event that begins an item
        found = self._piece(kind, event)
        if self._started is None and found:
            self._started = Started()
            found = [self._started, *found]
        if self._native and kind.startswith("response."):
            self._passed = True
            return [NativeDelta(delta=Raw(data)), *found]
        return found

    def _piece(self, kind: str, event: StreamEvent) -> list[Event]:
        if kind == BEGUN:
            return self._open(event.output_index, event.item)
        if kind == DONE:
            return self._done(event.output_index, event.item)
        word = DELTAS.get(kind)
        if word is None:
            return []
        item = self._opened(event.output_index, word)
        match word:
            case "text":
                return self._showing(item.text(event))
            case "refusal":
                return self._showing(item.refusal(event.delta))
            case "arguments":
                return self._showing(item.arguments(event.delta))
            case "summary":
                return item.thinking(word, event.summary_index, event.delta)
            case _:
                return item.thinking(word, event.content_index, event.delta)

    def _read(self, data: bytes) -> StreamEvent:
        """Read an event; of an unknown one only the type."""
        try:
            return read_event(data)
        except UNREADABLE as exc:
            try:
                kind = read_kind(data)
            except UNREADABLE:
                raise unreadable(self._endpoint, data) from exc
            if kind.type in READ_EVENTS or not kind.type:
                raise unreadable(self._endpoint, data) from exc
            return StreamEvent(type=kind.type, error=kind.error)

    def _start(self, response: WireResponse, data: bytes | Raw) -> list[Event]:
        """Start an answer; later responses repeat it, with more fields or other values."""
        unread = SETTINGS - OWN if self._native else SETTINGS
        extra = {
            name: raw.copy()
            for name, raw in read_fields(data).items()
            if name not in unread and raw != NULL
        }
        if self._native:
            extra[NATIVE] = _TRUE
        started = Started(
            id=response.id or "",
            model=response.model or "",
            created=int(response.created_at or 0),
            extra=extra,
        )
        if started == self._started:
            return []
        self._started = started
        return [started]

    def _open(self, index: int, raw: Raw) -> list[Event]:
        """Begin an item. Some servers count from 0 again; then the item before it has ended."""
        before = self._items.pop(index, None)
        found = [] if before is None else self._showing(before.close(OutputItem()))
        return found + self._begin(index, self._item(raw))

    def _begin(self, index: int, item: OutputItem) -> list[Event]:
        if len(self._items) >= BLOCKS:
            raise overfull(BLOCKS, "items", self._endpoint.name)
        opened = OpenItem(item, tool=self._tools, thought=self._thoughts, proves=self._proves)
        self._items[index] = opened
        self._tools += opened.calls
        self._thoughts += opened.thinks
        if self._tools > TOOLS:
            raise self._broken(f"the answer has over {TOOLS} tool calls")
        return self._showing(opened.begin())

    def _done(self, index: int, raw: Raw) -> list[Event]:
        """End an item; servers may send only its end."""
        item = self._item(raw)
        opened = self._items.get(index)
        found: list[Event] = []
        if opened is None:
            found = self._begin(index, item)
            opened = self._items[index]
        if opened.closed:
            return []
        if self._native and self._stream:
            self._ended.append(raw.copy())
        if item.type not in READ:
            if len(self._others) >= NOTES:
                raise overfull(NOTES, "items", self._endpoint.name)
            self._others.append(raw.copy())
        if item.type == "web_search_call" and not self._native:
            found += self._searched(raw)
        if item.type == "message":
            cited, self._told = annotations_of(item, self._told)
            for one in cited:
                if len(self._annotations) >= NOTES:
                    raise overfull(NOTES, "annotations", self._endpoint.name)
                self._annotations.append(one)
        return found + self._showing(opened.close(item))

    def _searched(self, raw: Raw) -> list[Event]:
        """Note a search. One whose results are unknown is shown with those that are cited."""
        search = search_of_item(raw)
        if search is None:
            return []
        self._searches.append(search)
        if not all(one.results for one in self._searches):
            return []
        return [OpaqueDelta(fields=searches_field(self._searches))]

    def _opened(self, index: int, word: str) -> OpenItem:
        """Return the item; a server may begin one with its first piece, if that says what it is."""
        opened = self._items.get(index)
        if opened is not None:
            return opened
        kind = {"text": "message", "refusal": "message"}.get(word, "reasoning")
        if word == "arguments":
            raise self._broken(f"arguments of item {index}, which has not started")
        self._begin(index, OutputItem(type=kind))
        return self._items[index]

    def _item(self, raw: Raw) -> OutputItem:
        try:
            kind = read_kind(raw).type
            return read_item(raw) if kind in READ else OutputItem(type=kind)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, raw) from exc

    def _response(self, raw: Raw) -> WireResponse:
        try:
            return read_response(raw)
        except UNREADABLE as exc:
            raise unreadable(self._endpoint, raw) from exc

    def _showing(self, found: list[Event]) -> list[Event]:
        """Note whether the events contain more than reasoning, which alone is not an answer."""
        self._shown = self._shown or any(not isinstance(one, ReasoningDelta) for one in found)
        return found

    def _end(self, response: WireResponse) -> list[Event]:
        status = response.status or "completed"
        if status not in ("completed", "incomplete"):
            raise UpstreamFailed(f"the answer is {status}", upstream=self._endpoint.name)
        self.ended = True
        found = self._rest(response.output or ())
        if not self._shown:
            found.append(TextDelta(text=""))
        fields = self._fields(response.output or ())
        if fields:
            found.append(OpaqueDelta(fields=fields))
        found.append(self._finished(response, status))
        found.append(usage_of(response.usage))
        return found

    def _rest(self, output: Sequence[Raw]) -> list[Event]:
        """Return what only the end has: all items, or the ends of those that have none."""
        found: list[Event] = []
        if not self._items:
            for index, raw in enumerate(output):
                found += self._done(index, raw)
        for index, opened in self._items.items():
            item = OutputItem()
            if not opened.closed and index < len(output):
                item = self._item(output[index])
            same = item.type == opened.kind
            found += self._showing(opened.close(item if same else OutputItem()))
        return found

    def _fields(self, output: Sequence[Raw]) -> dict[str, Raw]:
        """Return what clients of other APIs get besides our events.

        Clients of this one get the items of a stream as its end has them, if its events had less.
        """
        if self._native:
            less = self._stream and output and _value(output) != _value(self._ended)
            return {OUTPUT: Raw(_encode(output))} if less else {}
        fields: dict[str, Raw] = {}
        if self._others:
            fields[ITEMS] = Raw(_encode(self._others))
        if self._annotations:
            fields["annotations"] = Raw(_encode([_citation(*one) for one in self._annotations]))
        if self._searches:
            fields |= searches_field(with_results(self._searches, citations_of(fields)))
        return fields

    def _finished(self, response: WireResponse, status: str) -> Finished:
        if status == "completed":
            return Finished(reason="tool_calls" if self._tools else "stop")
        details = response.incomplete_details
        word = (details.reason if details is not None else None) or "max_output_tokens"
        return Finished(reason=INCOMPLETE.get(word, "length"), native=word)

    def _failure(self, event: StreamEvent, data: bytes) -> Exception:
        if event.response == NULL:
            return error_inside(self._endpoint, data)
        return self._failed(self._response(event.response), data)

    def _failed(self, response: WireResponse, data: bytes) -> Exception:
        error = error_inside(self._endpoint, data)
        if isinstance(error, UpstreamFailed) and response.usage != NULL:
            error.usage = usage_of(response.usage)
        return error

    def _broken(self, problem: str) -> UpstreamBroken:
        return UpstreamBroken(problem, upstream=self._endpoint.name)


def _value(items: Sequence[Raw]) -> object:
    return msgspec.json.decode(_encode(items))


def _citation(begin: int, raw: Raw) -> Raw | dict[str, object]:
    """Return a citation as chat completions have it: its members under its type.

    begin: of its text, in the answer, in which chat completions count.
    """
    try:
        fields = read_fields(raw)
    except UNREADABLE:
        return raw
    kind = bytes(fields.pop("type", NULL))
    if kind != b'"url_citation"':
        return raw
    for name in ("start_index", "end_index") if begin else ():
        with suppress(KeyError, ValueError):
            fields[name] = Raw(b"%d" % (begin + int(bytes(fields[name]))))
    return {"type": Raw(kind), "url_citation": fields}
