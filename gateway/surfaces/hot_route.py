"""Routes of a surface: a path, the surface that serves it, and the struct that documents it."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.surfaces.base import Surface
from strowger_gateway.schemas.requests import Request

_MOST_KEPT: Final = 256
_LONGEST_KEPT: Final = 200
_SEGMENTS: Final = {"{model}": "(?P<model>.+)", "{version}": "[^/]+"}


class HotRoute(Struct, frozen=True, kw_only=True):
    """One POST route of the request path.

    path:          may contain `{model}`, which matches slashes too, and `{version}`, one segment.
    body:          returns the wire struct that documents the request body.
    counts:        it counts the tokens of requests instead of answering them.
    stores:        its answers can be stored, and continued by their ids.
    compacts:      its clients can have a long conversation replaced by a summary.
    default_model: neither path nor body names a model; the operator's default is used.
    tagged:        a model's name may end in `:latest`, or not.
    prefixed:      a model's name may begin with `models/`, or not.
    at_once:       returns the answer to a request that needs no backend; b"" for any other.
    listed:        the same path without `alt=sse` in the query, which streams a JSON list as
                   Google's APIs do. Its path has the query behind it.
    """

    path: str
    surface: Surface
    body: Callable[[], type[Struct]]
    summary: str
    default_model: bool = False
    counts: bool = False
    stores: bool = False
    compacts: bool = False
    tagged: bool = False
    prefixed: bool = False
    at_once: Callable[[Request], bytes] | None = None
    listed: "HotRoute | None" = None

    @property
    def templated(self) -> bool:
        return "{" in self.path


class TemplatedPaths:
    """Find the first templated route that matches a path. The last paths are remembered."""

    def __init__(self, routes: Sequence[HotRoute]) -> None:
        self._patterns = [(_pattern(route.path), route.path) for route in routes if route.templated]
        self._found: dict[str, tuple[str, str]] = {}

    def find(self, path: str) -> tuple[str, str]:
        """Return the route's path, as written, and the model's name; "" and "" if none matches."""
        found = self._found.get(path)
        if found is not None:
            return found
        found = self._search(path)
        if len(path) <= _LONGEST_KEPT:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            self._found[path] = found
        return found

    def _search(self, path: str) -> tuple[str, str]:
        for pattern, route in self._patterns:
            match = pattern.fullmatch(path)
            if match is not None:
                return route, match["model"]
        return "", ""


def _pattern(path: str) -> re.Pattern[str]:
    pieces = re.split(r"(\{[a-z]+\})", path.partition("?")[0])
    whole = "".join(_SEGMENTS.get(piece) or re.escape(piece) for piece in pieces)
    # A name may contain a line break, and then names no existing model.
    return re.compile(whole, re.DOTALL)
