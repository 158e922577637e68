"""The texts of an answer, wherever they are, and what a guardrail leaves of them.

- Whole texts and JSON that has texts (`mask_text`, `mask_json`). A hook that does not wait works
  through a large answer in one call in a thread (`Examination`), so that neither decoding nor
  examining delays others; what it found is reported in the event loop afterwards.
- Words of the protocol (`guarded_started`, `guarded_usage`, `guard_error`): names, versions, codes
  and counts that a backend sends. A model does not write them, so they never block an
  answer. But a client sees them: a guardrail that masks or blocks leaves out those that do not look
  like words, and those in which it finds something. Hooks that wait for a service do not examine
  them.
- Pieces of streamed text: where each belongs (`place_of`), and its text replaced (`with_text`).
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    Block,
    Channel,
    Mask,
    TextWindow,
    Verdict,
)
from strowger_gateway.gateway.content.hooks.guards import (
    ANSWER,
    HookFailed,
    Rail,
    RequestGuards,
    checked,
    result_at_once,
)
from strowger_gateway.gateway.content.hooks.log_probabilities import without_logprobs
from strowger_gateway.gateway.content.hooks.plain_escapes import with_plain_escapes
from strowger_gateway.gateway.content.hooks.request_text import (
    arguments_of,
    json_texts,
    json_with_texts,
)
from strowger_gateway.gateway.content.hooks.text_hook import masked
from strowger_gateway.schemas.errors import GatewayError, UpstreamRejected
from strowger_gateway.schemas.events import (
    Finished,
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.measured_json import Meter
from strowger_gateway.schemas.messages import ToolCall

PLAIN: Final = frozenset(["system_fingerprint", "service_tier", "object"])
"""Fields of an answer that are words of the protocol: each would be a call of a service."""

_WORD: Final = re.compile(r"[A-Za-z0-9_./~-][A-Za-z0-9_.:/@+#=,~-]{0,255}")
"""Names of models are paths, URLs, or resource names of clouds at most."""

Piece = TextDelta | ReasoningDelta | RefusalDelta | ToolDelta | NativeDelta
Key = tuple[object, ...]
"""Its first item is the choice."""

_TEXTS: Final = ("delta", "partial_json", "text", "thinking")
_PLACE: Final = ("type", "output_index", "content_index", "summary_index")
_decode: Final = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Examination:
    """One call of `guards.examine`: a hook that does not wait, in any thread.

    rules: what it found. block: the rule that ends the answer. failures: of the hook.
    """

    __slots__ = ("_rail", "block", "failures", "rules")

    def __init__(self, rail: Rail) -> None:
        self._rail = rail
        self.rules: dict[str, None] = {}
        self.block: str | None = None
        self.failures: list[HookFailed] = []

    def report(self, guards: RequestGuards) -> None:
        """Record what was found; call it in the event loop. Raises ContentBlocked."""
        rail = self._rail
        for failure in self.failures:
            guards.on_failure(rail, ANSWER, failure)
        if self.block is not None:
            guards.report(rail, ANSWER, (self.block,), blocks=True)
        if self.rules:
            guards.report(rail, ANSWER, tuple(self.rules))

    @property
    def enforces(self) -> bool:
        """Return whether the guardrail changes or ends answers."""
        return self._rail.enforces

    @property
    def ended(self) -> bool:
        """Return whether the answer will not be sent, so that the rest need not be examined."""
        rail = self._rail
        if not rail.enforces:
            return False
        failed = bool(self.failures) and rail.settings.fail == "closed"
        found = bool(self.rules) and rail.settings.mode == "block"
        return failed or self.block is not None or found

    def text(self, text: str, channel: Channel = "other", choice: int = 0) -> str:
        """Return a whole text, masked."""
        if self.ended:
            return text
        window = TextWindow(text=text, channel=channel, choice=choice)
        try:
            verdict = checked(result_at_once(self._rail.hook.chunk, window), window)
        except HookFailed as failure:
            self.failures.append(failure)
            return text
        if isinstance(verdict, Block):
            self.block = self.block or verdict.rule
        elif isinstance(verdict, Mask):
            self.rules.update(dict.fromkeys(span.rule for span in verdict.spans))
            if self._rail.enforces:
                return masked(text, verdict.spans)
        return text

    def json(self, raw: Raw, *, free: bool = False) -> Raw:
        """Return a JSON value with the findings in its texts masked. free: see mask_json."""
        if self._rail.enforces and not free:
            raw = without_logprobs(raw)
        changes: dict[str, str] = {}
        for text in dict.fromkeys(json_texts(raw, free=free)):
            found = self.text(text)
            if found != text:
                changes[text] = found
        return json_with_texts(raw, changes, free=free) if changes else raw

    def fields(self, fields: Mapping[str, Raw]) -> dict[str, Raw]:
        """Return a vendor's fields with the findings in their texts masked."""
        return {name: raw if name in PLAIN else self.json(raw) for name, raw in fields.items()}

    def arguments(self, call: ToolCall, choice: int, meter: Meter) -> str:
        """Return arguments with the findings in their texts masked, or in them as one text."""
        if arguments_of(call.arguments, meter) is None:
            plain = with_plain_escapes(call.arguments)
            found = self.text(plain, "tool_arguments", choice)
            return call.arguments if found == plain else found
        return bytes(self.json(Raw(call.arguments.encode()), free=True)).decode()


async def verdict_of(guards: RequestGuards, rail: Rail, window: TextWindow) -> Verdict:
    """The hook's verdict on a window; PASS if it failed, and that has no effect."""
    found = await guards.call(rail, ANSWER, rail.hook.chunk, window, len(window.text))
    return PASS if found is None else found


async def mask_text(
    guards: RequestGuards, rail: Rail, text: str, channel: Channel, choice: int
) -> str:
    """Return a whole text of an answer, masked. Raises ContentBlocked."""
    window = TextWindow(text=text, channel=channel, choice=choice)
    verdict = await verdict_of(guards, rail, window)
    if isinstance(verdict, Block):
        guards.report(rail, ANSWER, (verdict.rule,), blocks=True)
    elif isinstance(verdict, Mask):
        guards.report(rail, ANSWER, [span.rule for span in verdict.spans])
        if rail.enforces:
            return masked(text, verdict.spans)
    return text


async def with_stop_masked(guards: RequestGuards, rail: Rail, end: Finished) -> Finished:
    """The end of a choice, with the stop string that its backend reports masked."""
    if not isinstance(end.stop_match, str):
        return end
    found = await mask_text(guards, rail, end.stop_match, "other", end.index)
    return end if found == end.stop_match else replace(end, stop_match=found)


async def mask_json(guards: RequestGuards, rail: Rail, raw: Raw, *, free: bool = False) -> Raw:
    """Return a JSON value with the findings in its texts masked. Raises ContentBlocked.

    free: see json_texts. Any other value is a vendor's, and loses its log probabilities.
    """
    size = len(memoryview(raw))
    if not rail.waits:
        found = Examination(rail)
        raw = await guards.run(partial(found.json, raw, free=free), size)
        found.report(guards)
        return raw
    if rail.enforces and not free:
        raw = await guards.run(partial(without_logprobs, raw), size)
    changes: dict[str, str] = {}
    for text in await guards.run(partial(_different_texts, raw, free=free), size):
        masked_text = await mask_text(guards, rail, text, "other", 0)
        if masked_text != text:
            changes[text] = masked_text
    if not changes:
        return raw
    return await guards.run(partial(json_with_texts, raw, changes, free=free), size)


async def mask_fields(
    guards: RequestGuards, rail: Rail, fields: Mapping[str, Raw]
) -> dict[str, Raw]:
    """Return a vendor's fields with the findings in their texts masked. Raises ContentBlocked."""
    return {
        name: raw if name in PLAIN else await mask_json(guards, rail, raw)
        for name, raw in fields.items()
    }


def guarded_started(guards: RequestGuards, rail: Rail, started: Started) -> Started:
    """The beginning of an answer without words that may not leave."""
    id, model = _left(guards, rail, started.id), _left(guards, rail, started.model)
    extra = started.extra
    bad = [name for name in PLAIN & extra.keys() if not _passes(guards, rail, extra[name])]
    if bad:
        extra = {name: value for name, value in extra.items() if name not in bad}
    if bad or id != started.id or model != started.model:
        return replace(started, id=id, model=model, extra=extra)
    return started


def guarded_usage(guards: RequestGuards, rail: Rail, usage: Usage) -> Usage:
    """The counts, without the vendor's own object if that has more than words and numbers."""
    if usage.raw is None or _passes(guards, rail, usage.raw):
        return usage
    return replace(usage, raw=None)


def guard_error(guards: RequestGuards, rail: Rail, error: GatewayError) -> None:
    """Replace the code and the type that a backend gave an error, if they may not leave."""
    if error.code != type(error).code and not _left(guards, rail, error.code):
        error.code = type(error).code
    if isinstance(error, UpstreamRejected) and error.type and not _left(guards, rail, error.type):
        error.type = None
    if error.param and not _left(guards, rail, error.param):
        error.param = None


class TextPlace(Struct, frozen=True, kw_only=True, gc=False):
    """Where a piece of text belongs."""

    key: Key
    channel: Channel
    text: str


def place_of(event: Piece) -> TextPlace | None:
    """Return where an event's text belongs; `None` for a native event without a piece of text."""
    at = event.index
    match event:
        case TextDelta():
            return TextPlace(key=text_key(at), channel="text", text=event.text)
        case RefusalDelta():
            return TextPlace(key=(at, "refusal"), channel="refusal", text=event.text)
        case ReasoningDelta():
            key = (at, "reasoning", event.block)
            return TextPlace(key=key, channel="reasoning", text=event.text)
        case ToolDelta():
            key = (at, "tool", event.tool)
            return TextPlace(key=key, channel="tool_arguments", text=event.arguments)
        case NativeDelta():
            return _native_place(event)


def text_key(choice: int) -> Key:
    """Return the key of a choice's text."""
    return choice, "text"


def with_text(event: Piece, text: str) -> Piece:
    """The event with another text, and without log probabilities, which repeat it."""
    match event:
        case ToolDelta():
            return replace(event, arguments=text)
        case ReasoningDelta():
            return replace(event, text=text)
        case NativeDelta():
            return _native_with(event, text)
        case _:
            return replace(event, text=text, logprobs=())


def only_text(event: Piece, text: str) -> Piece:
    """The text at the event's place, without what came with the event."""
    match event:
        case TextDelta():
            return TextDelta(text=text, index=event.index)
        case RefusalDelta():
            return RefusalDelta(text=text, index=event.index)
        case ReasoningDelta():
            return ReasoningDelta(text=text, index=event.index, block=event.block)
        case ToolDelta():
            return ToolDelta(tool=event.tool, index=event.index, arguments=text)
        case NativeDelta():
            return _native_with(event, text)


def carries_more(event: Piece) -> bool:
    """Whether it has more than text."""
    if isinstance(event, ToolDelta):
        return bool(event.id or event.name or event.signature)
    return isinstance(event, ReasoningDelta) and bool(event.signature or event.data)


def _different_texts(raw: Raw, *, free: bool) -> list[str]:
    return list(dict.fromkeys(json_texts(raw, free=free)))


def _left(guards: RequestGuards, rail: Rail, word: str) -> str:
    """Return the word, or "" if it may not leave."""
    if not word:
        return word
    fits = _WORD.fullmatch(word) is not None and not _found(guards, rail, word)
    return word if fits or not rail.enforces else ""


def _passes(guards: RequestGuards, rail: Rail, raw: Raw) -> bool:
    """Whether a JSON value has only words and numbers, and nothing that the guardrail finds."""
    if not _found(guards, rail, bytes(raw).decode("utf-8", "replace")):
        try:
            return not rail.enforces or _has_only_words(_decode(raw))
        except (msgspec.DecodeError, RecursionError):
            return False
    return not rail.enforces


def _has_only_words(value: object) -> bool:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            if one and _WORD.fullmatch(one) is None:
                return False
        elif isinstance(one, dict):
            fields = cast("dict[str, object]", one)
            waiting += [*fields, *fields.values()]
        elif isinstance(one, list):
            waiting += cast("list[object]", one)
    return True


def _found(guards: RequestGuards, rail: Rail, text: str) -> bool:
    """Whether the guardrail finds something; it is recorded."""
    if rail.waits:
        return False
    found = Examination(rail)
    found.text(text)
    for failure in found.failures:
        guards.on_failure(rail, ANSWER, failure)
    rules = [*found.rules, *([] if found.block is None else [found.block])]
    guards.replaced(rail, ANSWER, rules)
    return bool(rules)


def _native_place(event: NativeDelta) -> TextPlace | None:
    """Find the text of `response.….delta` and of Anthropic's `…_delta`; each has one of _TEXTS."""
    if event.delta is None or b"delta" not in bytes(event.delta):
        return None
    fields: object = _decode(event.delta)
    if not isinstance(fields, dict):
        return None
    found = cast("Mapping[str, object]", fields)
    if not str(found.get("type", "")).endswith("delta"):
        return None
    for name in _TEXTS:
        text = found.get(name)
        if isinstance(text, str):
            where = tuple(found.get(one) for one in _PLACE)
            key = (event.index, "native", name, *where)
            channel = "tool_arguments" if _is_json(name, str(found["type"])) else "other"
            return TextPlace(key=key, channel=channel, text=text)
    return None


def _is_json(name: str, kind: str) -> bool:
    return name == "partial_json" or kind == "response.function_call_arguments.delta"


def _native_with(event: NativeDelta, text: str) -> NativeDelta:
    assert event.delta is not None
    fields = cast("dict[str, object]", _decode(event.delta))
    for name in _TEXTS:
        if isinstance(fields.get(name), str):
            fields[name] = text
            fields.pop("logprobs", None)
            break
    return replace(event, delta=Raw(_encode(fields)))
