"""Converts messages that deviate from the OpenAI dialect to the dialect.

Seen in real traffic: content as a list of parts (with reasoning among them), tool arguments as an
object, numeric ids, undocumented fields. Anything that does not fit a `WireMessage` is forwarded as
it is.
"""

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_list, read_object
from strowger_gateway.adapters.openai.content_parts import CONTENT_PARTS
from strowger_gateway.adapters.openai.wire import (
    Choice,
    Function,
    LooseChoice,
    LooseChunk,
    OpenChunk,
    ThoughtPiece,
    ToolPiece,
    WireMessage,
    read_logprobs,
    read_loose_choice,
)

_TEXTS = ("refusal", "reasoning", "reasoning_content", "reasoning_signature")
_PLAIN = frozenset({"role", "content", "tool_calls", *_TEXTS})
_OF_CHOICE = frozenset(LooseChoice.__struct_fields__)
_EMPTY = frozenset({b"null", b"[]", b"{}", b'""'})
_encode = msgspec.json.Encoder().encode


class _Summary(Struct, frozen=True, kw_only=True):
    """data: reasoning that only the vendor can read (Databricks' `summary_encrypted_text`)."""

    text: str = ""
    signature: str | None = None
    data: str | None = None


class _Part(Struct, frozen=True, kw_only=True):
    """Databricks' `reasoning` has a summary, Mistral's `thinking` has parts."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    summary: tuple[_Summary, ...] | None = None
    thinking: tuple[_Summary, ...] | str | None = None
    signature: str | None = None


class _Split(Struct, kw_only=True):
    """A list of parts, joined by kind in order."""

    text: list[str] = []
    thoughts: list[ThoughtPiece] = []
    refusal: list[str] = []
    rest: list[Raw] = []


_part = msgspec.json.Decoder(_Part)
_content_text: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
_OF_A_PART = frozenset({"type", "text"})
"""A list of content with none of these in it is an answer of JSON mode, not a list of parts."""


def repaired(chunk: LooseChunk) -> OpenChunk:
    """Repair a chunk. Raises one of `UNREADABLE` if that is impossible."""
    choices = [_choice(one, place) for place, one in enumerate(chunk.choices or ())]
    usage = chunk.usage
    if usage == NULL:
        # Moonshot's place of a stream's usage: https://platform.kimi.ai/docs/api/chat
        usage = next(
            (one.more["usage"] for one in choices if one.more and "usage" in one.more), usage
        )
    return OpenChunk(choices=choices, usage=usage)


def _choice(raw: Raw, place: int) -> Choice:
    loose = read_loose_choice(raw)
    stop, seed = scalar(loose.stop_reason), scalar(loose.seed)
    matched = scalar(loose.matched_stop)
    return Choice(
        index=place if loose.index is None else loose.index,
        delta=None if loose.delta is None else _message(loose.delta),
        message=None if loose.message is None else _message(loose.message),
        text=loose.text,
        logprobs=read_logprobs(loose.logprobs),
        finish_reason=loose.finish_reason,
        native_finish_reason=loose.native_finish_reason,
        stop_reason=matched if stop is None else stop,
        seed=seed if isinstance(seed, int) else None,
        content_filter_results=loose.content_filter_results,
        content_filter_offsets=loose.content_filter_offsets,
        more={
            name: value.copy()
            for name, value in read_object(raw).items()
            if name not in _OF_CHOICE and value != NULL
        },
    )


def _message(fields: dict[str, Raw]) -> WireMessage:
    opaque = {
        name: raw.copy()
        for name, raw in fields.items()
        if (name not in _PLAIN or not _is_text(name, raw)) and _has_content(raw)
    }
    split = _content(fields.get("content", NULL))
    if split.rest:
        opaque[CONTENT_PARTS] = Raw(_encode(split.rest))
    names = ("reasoning", "reasoning_content")
    reasoning = next((text for one in names if (text := as_text(fields.get(one, NULL)))), None)
    proven = any(one.signature or one.data for one in split.thoughts)
    return WireMessage(
        role="assistant",
        content=_joined(split.text),
        refusal=as_text(fields.get("refusal", NULL)) or _joined(split.refusal),
        reasoning=reasoning or _joined([one.text for one in split.thoughts]),
        reasoning_signature=as_text(fields.get("reasoning_signature", NULL)),
        tool_calls=_tools(fields.get("tool_calls", NULL)) or None,
        opaque=opaque,
        thoughts=tuple(split.thoughts) if proven else None,
    )


def _content(raw: Raw) -> _Split:
    """Split content: text, a list of parts, or the JSON value that a JSON mode answers as such.

    Workers AI's does, and so do servers that parse the text before they wrap it. Clients of the
    dialect expect text: https://developers.cloudflare.com/workers-ai/features/json-mode/
    """
    split, start = _Split(), bytes(raw).lstrip()[:1]
    if start in (b'"', b"n"):
        text = _content_text.decode(raw)
        split.text += [] if text is None else [text]
        return split
    pieces = read_list(raw) if start == b"[" else ()
    if not any(_is_part(piece) for piece in pieces) and (pieces or start != b"["):
        split.text.append(bytes(raw).decode())
        return split
    for piece in pieces:
        try:
            part = _part.decode(piece)
        except msgspec.ValidationError:
            split.rest.append(piece)
            continue
        if part.summary or part.thinking or part.signature:
            split.thoughts += _thoughts(part)
        elif part.type in ("text", "output_text") and part.text is not None:
            split.text.append(part.text)
            split.rest += [piece] if _has_more(piece, "text") else []
        elif part.type == "refusal" and part.refusal is not None:
            split.refusal.append(part.refusal)
            split.rest += [piece] if _has_more(piece, "refusal") else []
        elif part.type not in ("reasoning", "thinking"):
            split.rest.append(piece)
    return split


def _thoughts(part: _Part) -> list[ThoughtPiece]:
    """Return each of Databricks' summaries, or Mistral's one chunk, which has one signature."""
    thought = part.summary or part.thinking or ()
    if isinstance(thought, str) or part.signature:
        texts = [thought] if isinstance(thought, str) else [one.text for one in thought]
        return [ThoughtPiece(text="".join(texts), signature=part.signature or "")]
    return [
        ThoughtPiece(text=one.text, signature=one.signature or "", data=one.data or "")
        for one in thought
    ]


def _is_part(piece: Raw) -> bool:
    return bytes(piece).lstrip()[:1] == b"{" and not _OF_A_PART.isdisjoint(read_object(piece))


def _has_more(part: Raw, text: str) -> bool:
    """Return whether the part has members besides its type and text, such as `citations`."""
    fields = read_object(part)
    return any(
        name not in ("type", text) and bytes(raw).strip() not in _EMPTY
        for name, raw in fields.items()
    )


def _tools(raw: Raw) -> tuple[ToolPiece, ...]:
    if bytes(raw) in _EMPTY:
        return ()
    return tuple(_tool(read_object(one)) for one in read_list(raw))


def _tool(fields: dict[str, Raw]) -> ToolPiece:
    """Read a call; `function` stays `None` for another type, and for a piece without one."""
    kind = as_text(fields.pop("type", NULL))
    index, call_id = scalar(fields.pop("index", NULL)), scalar(fields.pop("id", NULL))
    raw = fields.pop("function", NULL)
    function = None
    if raw != NULL:
        called = read_object(raw)
        function = Function(
            name=as_text(called.pop("name", NULL)),
            arguments=_arguments(called.pop("arguments", NULL)),
        )
        if called:
            fields["function"] = Raw(_encode(called))
    return ToolPiece(
        index=index if isinstance(index, int) else None,
        id=None if call_id is None else str(call_id),
        type=kind,
        function=function,
        more={name: value.copy() for name, value in fields.items() if value != NULL},
    )


def _arguments(raw: Raw) -> str | None:
    """Return JSON text, from a string or an object."""
    text = bytes(raw).strip()
    if text.startswith(b'"') or text == b"null":
        return as_text(raw)
    return text.decode()


def as_text(raw: Raw) -> str | None:
    value = scalar(raw)
    return value if value is None or isinstance(value, str) else str(value)


def scalar(raw: Raw) -> str | int | None:
    """Return a string or an integer, else `None`."""
    try:
        return msgspec.json.decode(raw, type=str | int | None)
    except UNREADABLE:
        return None


def _is_text(name: str, raw: Raw) -> bool:
    """Return whether a text field contains text; other values are forwarded as they are."""
    return name not in _TEXTS or bytes(raw).lstrip()[:1] in (b'"', b"n")


def seconds(raw: Raw) -> int:
    """Return a time in whole Unix seconds, 0 if it is not one."""
    try:
        return int(msgspec.json.decode(raw, type=float | None) or 0)
    except UNREADABLE:
        return 0


def _joined(pieces: list[str]) -> str | None:
    return "".join(pieces) if pieces else None


def _has_content(raw: Raw) -> bool:
    """Return false for null, and for an object with only empty values."""
    text = bytes(raw).strip()
    if text in _EMPTY:
        return text == b"[]" or text == b"{}"
    if not text.startswith(b"{"):
        return True
    return any(bytes(value).strip() not in (*_EMPTY, b"0") for value in read_object(raw).values())
