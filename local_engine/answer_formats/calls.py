"""A tool call that was read, and what reads one."""

from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

BLANK = " \t\r\n"


class Call(Struct, frozen=True, kw_only=True):
    """arguments: a JSON object as text. id: as the model wrote it; "" for a new one."""

    name: str
    arguments: str
    id: str = ""


class Item(Struct, frozen=True, kw_only=True):
    """What was read at the beginning of a text.

    count: characters that belong to it. calls: `None` if it is not a call but text.
    """

    count: int
    calls: tuple[Call, ...] | None = None


class CallReader(Protocol):
    """Reads one call, or one list of calls, from a text that grows."""

    def read(self, text: str, *, last: bool) -> Item | None:
        """text: from the beginning of the call. last: nothing follows.

        Returns `None` if more of the text is needed, which cannot be if it is the last.
        """
        ...


class Functions:
    """The functions that may be called. `name in functions` is true for their names."""

    def __init__(self, parameters: Mapping[str, Raw | UnsetType]) -> None:
        """parameters: the JSON schema of each function's arguments."""
        self._parameters = parameters
        self._schemas: dict[str, dict[str, object]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def schema(self, name: str) -> dict[str, object]:
        """Return a function's schema; an empty one for an unknown function."""
        if name not in self._schemas:
            raw = self._parameters.get(name, UNSET)
            self._schemas[name] = {} if raw is UNSET else _object.decode(raw)
        return self._schemas[name]


_object = msgspec.json.Decoder(dict[str, object])
