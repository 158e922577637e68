"""`stream_options` of the OpenAI dialect.

https://platform.openai.com/docs/api-reference/chat/create#chat-create-stream_options, and vLLM's
`continuous_usage_stats`, which requires `include_usage`:
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.gateway.surfaces.decoding import invalid_request, is_null
from strowger_gateway.gateway.surfaces.openai.wire import ALLOWED
from strowger_gateway.schemas.fields import STREAM_OPTIONS

OPTIONAL: Final = ("include_obfuscation", "continuous_usage_stats")
"""Options that a backend may ignore: the answer is the same without them."""


class _OnlyUsage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    include_usage: bool = False


class _Options(Struct, frozen=True, kw_only=True):
    include_usage: bool | None = None
    include_obfuscation: bool | None = None
    continuous_usage_stats: bool | None = None


_only_usage: Final = msgspec.json.Decoder(_OnlyUsage)
_options: Final = msgspec.json.Decoder(_Options)
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode

StreamOptions = tuple[bool, bool, tuple[str, ...]]
"""Usage at the end, usage on every chunk, and the paths of options that a backend may ignore."""


NO_OPTIONS: Final[StreamOptions] = (False, False, ())


def read_stream_options(raw: Raw, extra: dict[str, Raw]) -> StreamOptions:
    """Parse the options; all but `include_usage` go to `extra`. Raises InvalidRequest."""
    try:
        return _only_usage.decode(raw).include_usage, False, ()
    except (DecodeError, RecursionError):
        return _usage_among_others(raw, extra)


def _usage_among_others(raw: Raw, extra: dict[str, Raw]) -> StreamOptions:
    if is_null(raw):
        return NO_OPTIONS
    try:
        wanted = _options.decode(raw)
        options = _fields.decode(raw)
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, STREAM_OPTIONS, ALLOWED) from exc
    options.pop("include_usage", None)
    others = {name: value for name, value in options.items() if not is_null(value)}
    if others:
        extra[STREAM_OPTIONS] = Raw(_encode(others))
    usage = wanted.include_usage is True
    optional = tuple(f"{STREAM_OPTIONS}.{name}" for name in OPTIONAL if name in others)
    return usage, usage and wanted.continuous_usage_stats is True, optional
