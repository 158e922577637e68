"""Finds by encoding which fields outside our schema an adapter sends.

There is no list: the request is encoded with and without the field, and a field that does not
change the encoded request is lost. Results are cached by the field's path.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec import Raw, Struct

from strowger_gateway.adapters.client_fields.carried import has_no_effect
from strowger_gateway.adapters.unencodable import ENCODE_ERRORS
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.unknown_fields import Change, Unknown, edited, inside, parsed

MAX_ENCODINGS: Final = 24
"""Encodings per request, because a client may send any number of fields. Further fields count as
lost, unless an earlier request has shown that they are sent."""

MAX_ENCODED_BYTES: Final = 4 * 1024 * 1024
"""Bytes of content in all encodings of one request: about 20 ms."""

MAX_CACHED_PATHS: Final = 4096
"""Cached paths per adapter."""

_LONGEST: Final = 200
_PROBE: Final = "x_probe"
_PROBED: Final = Raw(b'"probed-5219"')


class Sent(Protocol):
    """Encodes a request; equal results are sent as equal requests."""

    def encode(self, request: Request, model: str, /) -> object: ...


class _Key(Struct, frozen=True, gc=False):
    """A path in a request for a task and a model. of: see
    strowger_gateway.schemas.unknown_fields.Unknown.

    form: the client's dialect, and what of its JSON is sent unchanged: there a field passes that
    is lost once the same tool or message is encoded again.
    """

    task: type[Request]
    form: str
    model: str
    of: str
    path: str
    kind: str


class LostFields:
    """Implements strowger_gateway.adapters.client_fields.carried.Carries for one adapter."""

    def __init__(self, adapter: Sent) -> None:
        self._adapter = adapter
        self._known: dict[_Key, bool] = {}

    def lost(self, request: Request, model: str, found: Sequence[Unknown]) -> tuple[str, ...]:
        """See Carries. Returns nothing for a request that cannot be encoded at all."""
        search = _LossSearch(self._adapter, request, model, self._known)
        lost: dict[str, None] = {}
        try:
            for one in found:
                lost.update(dict.fromkeys(search.lost(one)))
        except _Unencodable:
            return ()
        return tuple(lost)


def _form_of(request: Request) -> str:
    """See _Key.form."""
    if not isinstance(request, ChatRequest) or request.original is None:
        return ""
    original, read = request.original, request.original.read
    same = request.messages is read.messages, request.tools is read.tools
    return f"{original.dialect} {same}"


class _Unencodable(Exception):
    """The adapter rejects the unchanged request."""


class _LossSearch:
    """Compares encodings of one request."""

    def __init__(
        self, adapter: Sent, request: Request, model: str, known: dict[_Key, bool]
    ) -> None:
        self._adapter = adapter
        self._request = request
        self._form = _form_of(request)
        self._model = model
        self._known = known
        self._whole: object = None
        self._left = min(MAX_ENCODINGS, MAX_ENCODED_BYTES // max(_size(request), 1))

    def lost(self, one: Unknown) -> Iterator[str]:
        """Yield the lost paths: the field's own, or those inside it."""
        value = parsed(one.value, one.name) if isinstance(one.value, Raw) else one.value
        yield from self._lost(one, one.parent, one.name, value)

    def _lost(self, one: Unknown, parent: str, name: str, value: object) -> Iterator[str]:
        if has_no_effect(value) or self._passes(one, parent):
            return
        path = f"{parent}.{name}" if parent else name
        if not self._changes(one, path, parent, name, value):
            yield path
            return
        for place, inner in inside(value, path):
            yield from self._lost_inside(one, path, place, inner)

    def _lost_inside(self, one: Unknown, path: str, place: str, value: object) -> Iterator[str]:
        if place != f"{path}[]":
            yield from self._lost(one, path, place[len(path) + 1 :], value)
            return
        for further, inner in inside(value, place):
            yield from self._lost_inside(one, place, further, inner)

    def _passes(self, one: Unknown, parent: str) -> bool:
        """Return whether the object is sent with all its members, unknown ones included."""
        key = self._key(one, parent, "")
        found = self._known.get(key)
        return self._differs(key, one, parent, _with_probe) if found is None else found

    def _changes(self, one: Unknown, path: str, parent: str, name: str, value: object) -> bool:
        """Return whether the encoded request changes without the field."""
        kind = str(value) if isinstance(value, bool) else type(value).__name__
        key = self._key(one, path, kind)
        found = self._known.get(key)
        return self._differs(key, one, parent, _without(name)) if found is None else found

    def _key(self, one: Unknown, path: str, kind: str) -> _Key:
        return _Key(type(self._request), self._form, self._model, one.of, path, kind)

    def _differs(self, key: _Key, one: Unknown, parent: str, change: Change) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        if self._whole is None:
            try:
                self._whole = self._adapter.encode(self._request, self._model)
            except (InvalidRequest, *ENCODE_ERRORS) as exc:
                raise _Unencodable from exc
        other = edited(self._request, one, parent, change)
        try:
            found = self._adapter.encode(other, self._model) != self._whole
        except (InvalidRequest, *ENCODE_ERRORS):
            # An encoder that rejects a value has read it.
            found = True
        if len(key.path) + len(key.of) <= _LONGEST:
            if len(self._known) >= MAX_CACHED_PATHS:
                self._known.clear()
            self._known[key] = found
        return found


def _with_probe(fields: dict[str, Raw]) -> dict[str, Raw]:
    return {**fields, _PROBE: _PROBED}


def _without(name: str) -> Change:
    def change(fields: dict[str, Raw]) -> dict[str, Raw]:
        return {other: raw for other, raw in fields.items() if other != name}

    return change


def _size(request: Request) -> int:
    """Return the bytes of a chat's content; other tasks are small in comparison."""
    if not isinstance(request, ChatRequest):
        return sum(len(memoryview(raw)) for raw in request.extra.values())
    pieces = (*request.messages, *(request.tools or ()))
    raws = [one.raw for one in pieces if isinstance(one.raw, Raw)]
    return sum(len(memoryview(raw)) for raw in (*raws, *request.extra.values()))
