"""Assembles a call's arguments from streamed values, each with its JSON path.

https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc
"""

import re
from collections.abc import Iterable
from typing import Final, cast

import msgspec

from strowger_gateway.adapters.gemini.wire import PartialArgument

_STEP: Final = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]""")

_encode = msgspec.json.Encoder().encode


class PartialCall:
    """A call that is not complete yet."""

    def __init__(self, *, id: str, name: str, signature: str) -> None:
        self.id = id
        self.name = name
        self.signature = signature
        self._arguments: dict[str | int, object] = {}

    def add(self, pieces: Iterable[PartialArgument]) -> None:
        """Add values. A string at a known path is appended to; other values are complete.

        Raises ValueError for an invalid path.
        """
        for piece in pieces:
            *path, last = _steps(piece.json_path)
            place = self._arguments
            for step in path:
                place = _inner(place, step)
            before, value = place.get(last), _value(piece)
            more = isinstance(before, str) and isinstance(value, str)
            place[last] = f"{before}{value}" if more else value

    def text(self) -> str:
        """Return the object as JSON text."""
        return _encode(_listed(self._arguments)).decode()


def _inner(place: dict[str | int, object], step: str | int) -> dict[str | int, object]:
    inner = place.setdefault(step, {})
    if isinstance(inner, dict):
        return cast("dict[str | int, object]", inner)
    raise ValueError(f"{step} leads through a value")


def _steps(path: str) -> list[str | int]:
    if not path.startswith("$") or not _STEP.match(path, 1):
        raise ValueError(f"{path} is not a JSON path")
    return [
        int(found[2]) if found[2] else (found[1] or found[3] or found[4] or "")
        for found in _STEP.finditer(path, 1)
    ]


def _value(piece: PartialArgument) -> object:
    if piece.string_value is not None:
        return piece.string_value
    return piece.number_value if piece.bool_value is None else piece.bool_value


def _listed(value: object) -> object:
    """Convert objects whose keys are all numbers to lists."""
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str | int, object]", value)
    if fields and all(isinstance(key, int) for key in fields):
        return [_listed(one) for _, one in sorted(cast("dict[int, object]", value).items())]
    return {str(key): _listed(one) for key, one in fields.items()}
