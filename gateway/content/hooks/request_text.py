"""Find the texts of a request, and replace some of them, in every form in which it is kept."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.content.hooks.encoded_text import encoded_text
from strowger_gateway.gateway.content.hooks.held_values import NUMBERS, holding
from strowger_gateway.schemas.measured_json import (
    Meter,
    NotJson,
    TooComplex,
    decoded,
    repeated_name,
)
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.tasks.task import TaskRequest

WORDS: Final = frozenset(
    """
    model role kind type id call_id tool_call_id tool_use_id item_id mode name format detail
    media_type mime_type mimeType dialect status object max_tokens_field reasoning_effort
    error_behavior server_label pooling_task encoding_format embed_dtype endianness
    """.split()  # noqa: SIM905  two dozen quoted strings are harder to read
)
"""Fields of the protocol. Their values are not text if they look like a word of it, or an id."""

PROOFS: Final = frozenset(
    "signature reasoning_signature thought_signature thoughtSignature encrypted_content".split()  # noqa: SIM905
)
"""Fields that only a vendor can read, and that must reach it unchanged."""

FREE: Final = frozenset("input arguments args metadata variables".split())  # noqa: SIM905
"""Fields with objects of the client's own making: their keys are texts, and no field is skipped."""

_MEDIA: Final = frozenset("url image_url file_url file_data data uri".split())  # noqa: SIM905
_ENCODED: Final = frozenset(["base64", "redacted_thinking"])
_BLANK: Final = " \t\r\n"
_is_word = re.compile(r"[\w.:/@+-]{1,128}", re.ASCII).fullmatch
_is_base64_uri = re.compile(r"data:[^,\s]{0,200};base64,", re.IGNORECASE).match

_R = TypeVar("_R", bound=Request)


def texts_of(request: Request) -> tuple[str, ...]:
    """Every different text of a request, in order: also of fields outside the schema."""
    return tuple(dict.fromkeys(_strings(request, _Reading(meter=Meter(), seen=set()))))


def measure_arguments(request: Request, meter: Meter) -> None:
    """Measure the JSON within a request's texts as `texts_of` decodes it. Raises TooComplex."""
    for _ in _strings(request, _Reading(meter=meter, seen=set(), strict=True)):
        pass


def characters_of(request: Request) -> int:
    """Return the characters of all texts of a request, equal ones as often as they are sent."""
    original = request.original if isinstance(request, ChatRequest) else None
    if original is None:
        return _characters(_one_form(request))
    parsed = _one_form(replace(request, original=None))
    # In a tool call `input` is the client's own object, here it is the conversation.
    sent = {"" if name == "input" else name: raw for name, raw in original.fields.items()}
    return max(_characters(parsed), _characters([sent, original.unsent]))


def has_tokens(request: Request) -> bool:
    """Whether it has token ids in place of text."""
    match request:
        case TokenRequest():
            return True
        case CompletionRequest():
            return any(not isinstance(prompt, str) for prompt in request.prompts)
        case EmbeddingsRequest():
            return any(not isinstance(text, str) for text in request.inputs)
        case TaskRequest():
            return "input.tokens" in request.content
        case _:
            return False


def with_texts(request: _R, changes: Mapping[str, str]) -> _R:
    """Return the request with whole texts replaced, also in the JSON that its client sent."""
    return cast("_R", _Replacement(changes).of(request))


def json_texts(raw: Raw, *, free: bool = False) -> Iterable[str]:
    """The texts of a JSON value. free: it is of someone's own making, as fields in FREE are."""
    return _strings(decoded(raw), _Reading(meter=Meter()), free=free)


def json_with_texts(raw: Raw, changes: Mapping[str, str], *, free: bool = False) -> Raw:
    return cast("Raw", _Replacement(changes).of(raw, free=free))


def arguments_of(text: str, meter: Meter, *, strict: bool = False) -> object:
    """Return the arguments of a tool call, read from their JSON.

    `None` if that has no object, or one that repeats a name: it is text as a whole then, because
    reading it would leave out a value. The same is true of arguments beyond the meter's limits:
    requests and answers with such are refused before a guardrail that enforces examines them.

    strict: raises TooComplex for those.
    """
    if not text.lstrip(_BLANK).startswith("{"):
        return None
    try:
        value = meter.decode(text)
        if not isinstance(value, dict) or repeated_name(text.encode()) is not None:
            return None
    except TooComplex:
        if strict:
            raise
        return None
    except (NotJson, ValueError, RecursionError):
        return None
    return cast("object", value)


def _is_text(name: str, value: str) -> bool:
    """Whether a field's value may be text rather than the protocol's own."""
    if name in WORDS:
        return _is_word(value) is None
    if name in PROOFS:
        return False
    return name not in _MEDIA or _is_base64_uri(value) is None


def _is_skipped(name: str, fields: Mapping[str, object]) -> bool | None:
    """Whether a field is encoded media or a proof, as its neighbours show.

    `None`: it is text, whatever it looks like, because it names a person.
    """
    if name == "data" and isinstance(fields[name], str):
        kind = fields.get("type")
        media = "format" in fields or "mimeType" in fields or "mime_type" in fields
        return media or (isinstance(kind, str) and kind in _ENCODED)
    return None if name == "name" and "role" in fields else False


def _fields_of(value: Struct) -> dict[str, object]:
    """The fields that may have text."""
    names, read = holding(type(value), NUMBERS)
    return {
        name: one for name, one in zip(names, read(value), strict=False) if type(one) not in NUMBERS
    }


def _characters(value: object) -> int:
    return sum(map(len, _strings(value, _Reading(meter=Meter()))))


def _one_form(value: object) -> object:
    """The value with each text once: the client's JSON, and not also what was read from it."""
    match value:
        case Struct():
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            fields = {
                name: one for name, one in fields.items() if one is not None and one is not UNSET
            }
            if "raw" in fields:
                return fields["raw"]
            fields.pop("optional", None)  # names of the protocol
            if fields.get("thoughts"):
                fields.pop("reasoning", None)  # the same text
            return {name: _one_form(one) for name, one in fields.items()}
        case tuple():
            return [_one_form(one) for one in cast("tuple[object, ...]", value)]
        case _:
            return value


class _Reading(Struct, kw_only=True):
    """How texts are read. meter: of the JSON within them.

    seen: arguments that have been read, each by its hash and length: most requests have them twice,
    in the client's JSON and in what was read from it. `None` reads them as often as they are there.
    strict: raises TooComplex for arguments beyond the meter's limits.
    """

    meter: Meter
    seen: set[tuple[int, int]] | None = None
    strict: bool = False

    def arguments(self, text: str) -> object:
        """See `arguments_of`."""
        return arguments_of(text, self.meter, strict=self.strict)

    def knows(self, text: str) -> bool:
        """Return whether the arguments have been read, and remember that they are."""
        if self.seen is None:
            return False
        key = hash(text), len(text)
        known = key in self.seen
        self.seen.add(key)
        return known


def _strings(value: object, reading: _Reading, name: str = "", *, free: bool = False) -> list[str]:
    """name: of the field that has the value; a list's values are in its field."""
    found: list[str] = []
    _add_strings(found, value, reading, name, free)
    return found


def _add_strings(found: list[str], value: Any, reading: _Reading, name: str, free: bool) -> None:
    kind = value.__class__
    if kind is str:
        _add_text(found, value, reading, name, free)
    elif kind is tuple or kind is list:
        for one in value:
            _add_strings(found, one, reading, name, free)
    elif kind is Raw:
        _add_strings(found, decoded(value), reading, name, free)
    elif kind is dict:
        _add_fields(found, value, reading, name, free)
    elif isinstance(value, Struct):
        _add_fields(found, _fields_of(value), reading, name, free)


def _add_fields(
    found: list[str], fields: dict[str, object], reading: _Reading, name: str, free: bool
) -> None:
    if free or name in FREE:
        for key, one in fields.items():
            found.append(key)
            _add_strings(found, one, reading, key, True)
        return
    for key, one in fields.items():
        if type(one) in NUMBERS or (skipped := _is_skipped(key, fields)):
            continue
        _add_strings(found, one, reading, "" if skipped is None else key, False)


def _add_text(found: list[str], value: str, reading: _Reading, name: str, free: bool) -> None:
    if name == "arguments":
        if reading.knows(value):
            return
        if (inside := reading.arguments(value)) is not None:
            _add_strings(found, inside, reading, "", True)
            return
    if name in _MEDIA and (file := encoded_text(name, value)) is not None:
        found.append(file.text)
    elif value and (free or _is_text(name, value)):
        found.append(value)


class _Replacement:
    """Replaces texts in values; what shares a part before shares it afterwards.

    Adapters send a field's own JSON only while the request still has the very value that was read
    from it (strowger_gateway.schemas.requests.Original).
    """

    def __init__(self, changes: Mapping[str, str]) -> None:
        self._changes = changes
        self._meter = Meter()
        self._done: dict[tuple[int, str, bool], tuple[object, object]] = {}
        """With the value itself, because another one may get its identity when it is gone."""

    def of(self, value: object, name: str = "", *, free: bool = False) -> object:
        """The value with its texts replaced; the same object if there is nothing to replace."""
        match value:
            case str():
                return self._text(value, name, free=free)
            case Raw():
                before = decoded(value)
                after = self.of(before, name, free=free)
                return value if after is before else Raw(msgspec.json.encode(after))
            case Struct() | dict() | tuple() | list():
                key = (id(cast("object", value)), name, free)
                found = self._done.get(key)
                if found is None:
                    whole = cast("object", value)
                    found = self._done[key] = (whole, self._parts(whole, name, free=free))
                return found[1]
            case _:
                return value

    def _text(self, value: str, name: str, *, free: bool) -> str:
        if name == "arguments" and (inside := arguments_of(value, self._meter)) is not None:
            after = self.of(inside, free=True)
            return value if after is inside else msgspec.json.encode(after).decode()
        if name in _MEDIA and (file := encoded_text(name, value)) is not None:
            text = self._changes.get(file.text, file.text)
            return value if text == file.text else file.with_text(text)
        return self._changes.get(value, value) if free or _is_text(name, value) else value

    def _parts(self, value: object, name: str, *, free: bool) -> object:
        match value:
            case Struct():
                new = self._fields(_fields_of(value), free=free or name in FREE)
                return replace(value, **new) if new else value
            case dict():
                old = cast("dict[str, object]", value)
                free = free or name in FREE
                new = self._fields(old, free=free)
                whole = old | new if new else old
                return self._keys(whole) if free else whole
            case tuple() | list():
                before = cast("tuple[object, ...] | list[object]", value)
                items = [self.of(one, name, free=free) for one in before]
                if all(one is other for one, other in zip(items, before, strict=True)):
                    return before
                return tuple(items) if isinstance(before, tuple) else items
            case _:
                return value

    def _fields(self, fields: Mapping[str, object], *, free: bool) -> dict[str, object]:
        new: dict[str, object] = {}
        for key, one in fields.items():
            skipped = None if free else _is_skipped(key, fields)
            if skipped:
                continue
            in_name = key if free or skipped is not None else ""
            changed = self.of(one, in_name, free=free)
            if changed is not one:
                new[key] = changed
        return new

    def _keys(self, fields: dict[str, object]) -> dict[str, object]:
        changes = self._changes
        if not any(key in changes for key in fields):
            return fields
        return {changes.get(key, key): one for key, one in fields.items()}
