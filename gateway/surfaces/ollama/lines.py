"""The lines of Ollama's streams, and the time that is in each of them.

A stream is newline-delimited JSON. Every line has `created_at`, an RFC 3339 time in nanoseconds,
and the last one the durations, also in nanoseconds. Those of an Ollama server are passed on; for
any other backend they are what the gateway measures: in a stream, until the first content is the
prompt's time, and the rest the answer's. Nothing is loaded, so that takes 0.
https://github.com/ollama/ollama/blob/main/docs/api.md#conventions
"""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Struct, UnsetType

from strowger_gateway.schemas.usage import Usage

NDJSON: Final = "application/x-ndjson"

SPACE: Final = b" "
"""Keeps a silent stream open: white space before the next line's object, which JSON allows, so that
clients that read by the line, or by the value, never see it."""

_S: Final = 1_000_000_000
_MS: Final = 1_000_000

Clock = Callable[[], int]
"""Returns nanoseconds since the epoch."""


class OllamaTimes(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Counts and nanoseconds, as an answer's last line has them; absent if unknown."""

    total_duration: int | UnsetType = UNSET
    load_duration: int | UnsetType = UNSET
    prompt_eval_count: int | UnsetType = UNSET
    prompt_eval_duration: int | UnsetType = UNSET
    eval_count: int | UnsetType = UNSET
    eval_duration: int | UnsetType = UNSET


_times: Final = msgspec.json.Decoder(OllamaTimes)


class Stopwatch:
    """Measures one answer, from when it is asked for. Mutable state: when its content began."""

    def __init__(self, request_id: str, clock: Clock = time.time_ns) -> None:
        """request_id: a UUIDv7, whose time is the beginning."""
        self.clock = clock
        self._asked = int(request_id[:8] + request_id[9:13], 16) * _MS
        self._first = 0

    def content(self) -> None:
        """Note that content has arrived."""
        if not self._first:
            self._first = self.clock()

    def times(self, usage: Usage | None) -> OllamaTimes:
        """Return what the last line says. usage: the backend's."""
        own = _servers(usage)
        if own is not None:
            return own
        ended = self.clock()
        first = self._first
        prompt = UNSET if usage is None else _count(usage.prompt_tokens)
        answer = UNSET if usage is None else _count(usage.completion_tokens)
        # At least 1: clients divide by them.
        return OllamaTimes(
            total_duration=max(ended - self._asked, 1),
            load_duration=0,
            prompt_eval_count=prompt,
            prompt_eval_duration=max(first - self._asked, 1) if first else UNSET,
            eval_count=answer,
            eval_duration=max(ended - (first or self._asked), 1),
        )


def stamp(at: int) -> bytes:
    """Return RFC 3339 of nanoseconds since the epoch."""
    seconds, rest = divmod(at, _S)
    return b"%b.%09dZ" % (_second(seconds), rest)


@lru_cache(maxsize=4)
def _second(seconds: int) -> bytes:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode()


def _count(count: int | None) -> int | UnsetType:
    return UNSET if count is None else count


def _servers(usage: Usage | None) -> OllamaTimes | None:
    """Return what an Ollama server has measured; `None` for any other backend."""
    if usage is None or usage.raw is None or b'"total_duration"' not in bytes(usage.raw):
        return None
    try:
        return _times.decode(usage.raw)
    except (DecodeError, RecursionError):
        return None


def with_fields(head: bytes, fields: Struct) -> bytes:
    """Return `head`, an object without its closing brace, with the fields of another, closed."""
    more = msgspec.json.encode(fields)
    return b"%b,%b" % (head, more[1:]) if len(more) > 2 else head + b"}"
