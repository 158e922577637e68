"""Attacks on the front: connections that hold something without a request that is answered."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks.isolation.attacks import Pieces
from benchmarks.isolation.requests import CHAT, attack, chat, raw

_COUNT: Final = 400
_SLOWLY: Final = 1500
"""Pieces of a byte each, 0.01 s apart."""

_HEAD: Final = f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ".encode()


def _half_heads() -> list[Pieces]:
    return [[_HEAD, *[b"a"] * _SLOWLY]] * _COUNT


def _half_bodies() -> list[Pieces]:
    """Small bodies: their key is checked when they are complete."""
    begin = raw("no-key", b"x" * 4000)[:-4000]
    return [[begin, *[b" "] * _SLOWLY]] * _COUNT


def _half_large_bodies() -> list[Pieces]:
    """The key is valid and was checked, so each is a request in flight."""
    begin = attack(b"x" * 60_000)[:-60_000]
    return [[begin, *[b" "] * _SLOWLY]] * _COUNT


def _pipelined() -> list[Pieces]:
    """Many small requests in one piece each, which are answered in order."""
    request = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
    return [[request * 2000]] * 50


def _wrong_keys() -> list[Pieces]:
    return [raw(f"guess-{n}", chat("hi", "quick")) for n in range(2000)]


def _new_connections() -> list[Pieces]:
    close = "connection: close\r\n"
    return [raw("", b"", "GET /healthz", close) for _ in range(4000)]


FRONTS: Final[Mapping[str, Callable[[int], Sequence[Pieces]]]] = {
    "half-heads-400": lambda _: _half_heads(),
    "half-bodies-400": lambda _: _half_bodies(),
    "half-large-bodies-400": lambda _: _half_large_bodies(),
    "pipelined-100k": lambda _: _pipelined(),
    "wrong-keys-2000": lambda _: _wrong_keys(),
    "connections-4000": lambda _: _new_connections(),
}
"""By name: builds the requests. Called with the gateway's port, as those of FLOODS."""
