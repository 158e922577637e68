"""The interface of a vendor's dialect, in vendor-neutral terms."""

import json
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from msgspec import Struct

Json = Mapping[str, object]

FAULT = "the card is on fire"
"""What a vendor says where something has failed."""

USAGE = (11, 5)
"""Tokens of the prompt and of the answer, where a vendor counts."""


class Call(Struct, frozen=True, kw_only=True):
    """id: "" where the vendor gives none. proof: of the call itself, which must come back.

    custom: its argument `input` is all that the tool takes, where a vendor has such tools.
    """

    name: str
    arguments: Json = {}
    id: str = ""
    proof: str = ""
    custom: bool = False


class Said(Struct, frozen=True, kw_only=True):
    """An answer. text: its pieces, as they are streamed. proof: of the thought."""

    text: tuple[str, ...] = ("Hel", "lo 🌍")
    thought: str = ""
    proof: str = ""
    calls: tuple[Call, ...] = ()

    @property
    def whole_text(self) -> str:
        return "".join(self.text)


class Turn(Struct, frozen=True, kw_only=True):
    """One turn of a conversation as the vendor got it.

    thoughts: texts with their proofs. results: ids of calls with the texts that came of them.
    images:   in base64.
    """

    role: str
    text: str = ""
    thoughts: tuple[tuple[str, str], ...] = ()
    calls: tuple[Call, ...] = ()
    results: tuple[tuple[str, str], ...] = ()
    images: tuple[str, ...] = ()


class ReceivedRequest(Struct, frozen=True, kw_only=True):
    """A request as the vendor got it. tools: their names. schema: of the answer."""

    turns: tuple[Turn, ...]
    tools: tuple[str, ...] = ()
    schema: object = None


class Streamed(Struct, frozen=True, kw_only=True):
    """An answer in the pieces of a stream: what comes before any content, the content, the end."""

    before: Sequence[bytes] = ()
    content: Sequence[bytes] = ()
    end: Sequence[bytes] = ()


class Dialect(Protocol):
    """How a vendor encodes its answers and decodes its requests."""

    @property
    def kind(self) -> str:
        """The content type of a stream."""
        ...

    def whole(self, said: Said) -> Json: ...

    def streamed(self, said: Said) -> Streamed: ...

    def received(self, body: Json) -> ReceivedRequest: ...

    def error(self, status: int, message: str) -> Json:
        """The body of an answer with a status of 400 or more."""
        ...

    def failure(self) -> bytes:
        """A piece of a stream that says FAULT."""
        ...

    def failed(self) -> Json:
        """A whole answer of status 200 that says that it failed."""
        ...


def sse(body: Json, event: str = "") -> bytes:
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(body)}\n\n".encode()


def dicts(value: object) -> list[dict[str, object]]:
    """The objects of a list in JSON, [] for what is none."""
    return cast("list[dict[str, object]]", value) if isinstance(value, list) else []


def inner(value: object, *names: str) -> dict[str, object]:
    """The object at a path of names, {} where there is none."""
    for name in names:
        value = cast("Json", value).get(name) or {}
    return cast("dict[str, object]", value)


def data_of(url: object) -> str:
    """The base64 of a data: URI."""
    return str(url).partition(",")[2]
