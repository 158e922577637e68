"""What a surface's routes are: a path, who reads and writes there, and what documents the body."""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gateway.surfaces.base import Surface

_SEGMENTS: Final = {"{model}": "(?P<model>.+)", "{version}": "[^/]+"}


class HotRoute(Struct, frozen=True, kw_only=True):
    """One POST route of the request path.

    path:          may hold `{model}`, which matches slashes too, and `{version}`, one segment.
    body:          the wire struct that documents what is sent.
    default_model: the route names no model, and neither does its body: the operator does.
    """

    path: str
    surface: Surface
    body: type[Struct]
    summary: str
    default_model: bool = False

    @property
    def templated(self) -> bool:
        return "{" in self.path


class TemplatedPaths:
    """Finds the first of some templated routes that a path matches."""

    def __init__(self, routes: Sequence[HotRoute]) -> None:
        self._patterns = [(_pattern(route.path), route.path) for route in routes if route.templated]

    def find(self, path: str) -> tuple[str, str]:
        """The route's path, as it was written, and the model's name; "" and "" for no route."""
        for pattern, route in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                return route, match["model"]
        return "", ""


def _pattern(path: str) -> re.Pattern[str]:
    pieces = re.split(r"(\{[a-z]+\})", path)
    whole = "".join(_SEGMENTS.get(piece) or re.escape(piece) for piece in pieces)
    # A name may hold a line break, and is then one that there is not.
    return re.compile(whole, re.DOTALL)
