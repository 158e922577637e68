"""What a client of any dialect does with an answer, and how it sends it back."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from tests.gateway.backends.vendors.dialect import Json

Echo = Literal["everything", "sdk", "plain"]
ECHOES: Final[Sequence[Echo]] = ("everything", "sdk", "plain")

Item = dict[str, object]
Parameters = Mapping[str, Json]
"""By function: its schema."""


class Reply(Struct, frozen=True, kw_only=True):
    """An answer as the client sends it back. calls: ids, names and arguments."""

    items: Sequence[Json]
    text: str
    calls: Sequence[tuple[str, str, Json]]


class NamesModelInBody:
    """What most dialects have in common. path: of all requests."""

    path: str

    def sends(self, model: str, body: Json, *, stream: bool) -> tuple[str, Json]:
        """See Client."""
        return self.path, {"model": model, "stream": stream, **body}


def events(answer: bytes) -> list[Item]:
    """Return the JSON of a stream's events."""
    lines = [line[6:] for line in answer.splitlines() if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


class Client(Protocol):
    """One dialect."""

    def sends(self, model: str, body: Json, *, stream: bool) -> tuple[str, Json]:
        """Return the path of a request, and its whole body."""
        ...

    @property
    def proves(self) -> bool:
        """Whether its API has a place for proofs of reasoning."""
        ...

    def user(self, text: str, image: str = "") -> Json:
        """Return a turn of the user. image: base64 of a PNG."""
        ...

    def results(self, reply: Reply, texts: Sequence[str]) -> list[Json]:
        """Return what came of a reply's calls."""
        ...

    def body(self, conversation: Sequence[Json], functions: Parameters) -> Json:
        """Return a request without its model."""
        ...

    def reply(self, answer: bytes, echo: Echo, *, stream: bool) -> Reply: ...
