"""What an arm has answered, read from the response of each API: its text and its tokens."""

from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.gateway.experiments.replay.prompts import Api
from strowger_gateway.schemas.usage import Usage

_Object = Mapping[str, object]


class Answered(Struct, frozen=True, kw_only=True):
    """text: with calls of tools as they would be made. usage: what the response counts.

    cut: it ends at its limit of tokens.
    """

    text: str
    cut: bool
    usage: Usage


class _TokenDetails(Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _TokenCounts(Struct):
    """The names of all APIs."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    prompt_tokens_details: _TokenDetails | None = None
    input_tokens_details: _TokenDetails | None = None
    completion_tokens_details: _TokenDetails | None = None
    output_tokens_details: _TokenDetails | None = None


class _Choices(Struct):
    """Of chat completions and completions. A vendor's own fields may have any names."""

    usage: Raw = Raw()
    choices: list[dict[str, object]] = []


class _Message(Struct):
    usage: Raw = Raw()
    content: list[dict[str, object]] = []
    stop_reason: str | None = None


class _Output(Struct):
    usage: Raw = Raw()
    output: list[dict[str, object]] = []
    status: str | None = None


_CUT: Final = ("length", "max_tokens", "incomplete")
"""How the APIs say that an answer ends at its limit."""

_choices = msgspec.json.Decoder(_Choices).decode
_a_message = msgspec.json.Decoder(_Message).decode
_output = msgspec.json.Decoder(_Output).decode
_counts = msgspec.json.Decoder(_TokenCounts | None).decode


def read_answer(api: Api, data: bytes) -> Answered:
    """Read a response with status 200. Raises msgspec.DecodeError."""
    try:
        return _read(api, data)
    except RecursionError as exc:
        raise msgspec.DecodeError("nested too deeply") from exc


def _read(api: Api, data: bytes) -> Answered:
    match api:
        case "chat":
            found = _choices(data)
            text = _message(found.choices)
            ends = [one.get("finish_reason") for one in found.choices]
        case "completions":
            found = _choices(data)
            text = _text(found.choices[0].get("text")) if found.choices else ""
            ends = [one.get("finish_reason") for one in found.choices]
        case "messages":
            found = _a_message(data)
            text = _blocks(found.content)
            ends = [found.stop_reason]
        case "responses":
            found = _output(data)
            text = "\n".join(filter(None, map(_item, found.output)))
            ends = [found.status]
    cut = any(end in _CUT for end in ends)
    return Answered(text=text, cut=cut, usage=_usage(api, found.usage))


def _usage(api: Api, raw: Raw) -> Usage:
    counts = _counts(raw) if bytes(raw) else None
    if counts is None:
        return Usage()
    read, written = counts.cache_read_input_tokens, counts.cache_creation_input_tokens
    prompt = counts.input_tokens if counts.prompt_tokens is None else counts.prompt_tokens
    if api == "messages" and prompt is not None:
        prompt += (read or 0) + (written or 0)  # Anthropic counts them next to the others
    answer = counts.output_tokens if counts.completion_tokens is None else counts.completion_tokens
    of_prompt = counts.prompt_tokens_details or counts.input_tokens_details or _TokenDetails()
    of_answer = counts.completion_tokens_details or counts.output_tokens_details or _TokenDetails()
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=answer,
        cached_tokens=of_prompt.cached_tokens if read is None else read,
        cache_write_tokens=written,
        reasoning_tokens=of_answer.reasoning_tokens,
        raw=raw,
    )


def _message(choices: list[dict[str, object]]) -> str:
    message = choices[0].get("message") if choices else None
    if not isinstance(message, dict):
        return ""
    found = cast("_Object", message)
    pieces = [_text(found.get("content")), _text(found.get("refusal"))]
    for call in _objects(found.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, dict):
            pieces.append(_call(cast("_Object", function)))
    return "\n".join(filter(None, pieces))


def _blocks(content: Iterable[_Object]) -> str:
    pieces = [
        _call(one) if one.get("type") == "tool_use" else _text(one.get("text"))
        for one in content
        if one.get("type") in ("text", "tool_use")
    ]
    return "\n".join(filter(None, pieces))


def _item(item: _Object) -> str:
    if item.get("type") == "message":
        parts = _objects(item.get("content"))
        return "\n".join(filter(None, (_text(p.get("text") or p.get("refusal")) for p in parts)))
    return _call(item) if item.get("type") in ("function_call", "custom_tool_call") else ""


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(filter(None, (_text(part.get("text")) for part in _objects(value))))


_ARGUMENTS: Final = ("arguments", "input")


def _call(call: _Object) -> str:
    """Render the call of a tool as one line."""
    value = next((call[name] for name in _ARGUMENTS if name in call), "")
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"[calls {call.get('name', '')} with {text}]"


def _objects(value: object) -> list[_Object]:
    if not isinstance(value, list):
        return []
    return [cast("_Object", one) for one in cast("list[object]", value) if isinstance(one, dict)]
