"""Token counts in the OpenAI dialect, with the members that only a vendor's `usage` has.

Ours are OpenAI's five. Every other member of the object that the vendor sent stands beside them
under the vendor's own name and as the vendor counts it; none replaces one of ours.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from schemas.events import Usage

MAX_BYTES: Final = 16_384
"""Of a vendor's `usage`; of a larger one only the counts that we read reach the client."""

_PROMPT: Final = "prompt_tokens_details"
_COMPLETION: Final = "completion_tokens_details"
_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")

_members: Final = msgspec.json.Decoder(dict[str, Raw])
_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode

_Fields = dict[str, object]


class _Counts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None


_PLAIN_BYTES: Final = 96
"""An object with the three counts alone is at most about as long."""

_counts: Final = msgspec.json.Decoder(_Counts)


def usage_json(usage: Usage) -> bytes:
    """Totals, details, and the vendor's own members. A count that the backend left out is null."""
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    details = cached is not None or written is not None or usage.reasoning_tokens is not None
    if not details and _has_only_counts(usage.raw):
        return _encode(
            _Counts(
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
                total_tokens=_total(usage),
            )
        )
    theirs = _theirs(usage.raw)
    fields: _Fields = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": _total(usage),
    }
    if cached is not None or written is not None or _PROMPT in theirs:
        ours = {"cached_tokens": cached, "cache_write_tokens": written}
        _add_details(fields, _PROMPT, theirs, ours)
    if usage.reasoning_tokens is not None or _COMPLETION in theirs:
        _add_details(fields, _COMPLETION, theirs, {"reasoning_tokens": usage.reasoning_tokens})
    return _with_theirs(fields, theirs)


def embeddings_usage_json(usage: Usage) -> bytes | None:
    """The same without completion tokens; `None` where the backend counted nothing.

    All the tokens of an embedding are the prompt's, so either count stands for the other.
    """
    prompt = usage.total_tokens if usage.prompt_tokens is None else usage.prompt_tokens
    total = usage.prompt_tokens if usage.total_tokens is None else usage.total_tokens
    if prompt is None:
        return None
    fields: _Fields = {"prompt_tokens": prompt, "total_tokens": total}
    return _with_theirs(fields, _theirs(usage.raw))


def _total(usage: Usage) -> int | None:
    if usage.total_tokens is not None:
        return usage.total_tokens
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return usage.prompt_tokens + usage.completion_tokens


def _has_only_counts(raw: Raw | None) -> bool:
    """True for what most servers send; decided without a dict. A longer object has more members."""
    if raw is None:
        return True
    if len(memoryview(raw)) > _PLAIN_BYTES:
        return False
    try:
        _counts.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _theirs(raw: Raw | None) -> dict[str, Raw]:
    """Nothing where the vendor sent no object, or one that is too large."""
    return {} if raw is None or len(memoryview(raw)) > MAX_BYTES else _object(raw)


def _object(raw: Raw) -> dict[str, Raw]:
    try:
        return _members.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _add_details(
    fields: _Fields, name: str, theirs: dict[str, Raw], ours: Mapping[str, int | None]
) -> None:
    """Takes the vendor's members of these details out of `theirs`."""
    raw = theirs.pop(name, None)
    details: _Fields = {} if raw is None else dict(_object(raw))
    details |= {key: count for key, count in ours.items() if count is not None}
    if details:
        fields[name] = details


def _with_theirs(fields: _Fields, theirs: Mapping[str, Raw]) -> bytes:
    for name, raw in theirs.items():
        if name not in _COUNTS and name not in fields:
            fields[name] = raw
    return _encode(fields)
