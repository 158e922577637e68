"""The response resource: an answer with all settings that the client chose for it.

Settings that the client left out are written as the specification's defaults; what the backend
really used is its own business. https://www.openresponses.org/reference
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct

from strowger_gateway.gateway.surfaces.openai.envelope import encode, members
from strowger_gateway.gateway.surfaces.responses.tools import read_reasoning
from strowger_gateway.gateway.surfaces.sse import one_line
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.searches import SEARCHES

_MEANS_MORE: Final = (
    "choices",
    "conversation",
    "created",
    "image",
    "input_transformations",
    "moderation",
    "prompt",
    "prompt_cache_diagnostics",
    "prompt_cache_options",
    "prompt_cache_retention",
    "tool_usage",
    "user",
    SEARCHES,
)
"""Fields of responses that backends of other APIs send with another meaning, or in place of
ours."""

NATIVE: Final = "(responses)"
"""Marks the fields of an answer as those of a backend of this API."""

_PLAIN_FIELDS: Final = frozenset({"input", "instructions"})
"""Of these, an answer repeats nothing but the instructions."""

_REPEATED_IF_SENT: Final = ("prompt", "prompt_cache_retention")

_NOTHING: Final = Raw(b"null")
_TIER: Final = Raw(b'"default"')
_TIERS: Final = frozenset(
    b'"%b"' % tier
    for tier in (b"auto", b"default", b"flex", b"scale", b"priority", b"fast", b"ultrafast")
)
"""Tiers that clients know; a backend of another API has names of its own."""
_EMPTY: Final = Raw(b"{}")
_TEXT: Final = Raw(b'{"format":{"type":"text"}}')
_AUTO: Final = Raw(b'"auto"')
_PLAIN_SETTINGS: Final = (
    b',"previous_response_id":null,"instructions":%b,"tools":[],"tool_choice":"auto",'
    b'"truncation":"disabled","parallel_tool_calls":true,"text":{"format":{"type":"text"}},'
    b'"top_p":%b,"presence_penalty":%b,"frequency_penalty":%b,"top_logprobs":0,"temperature":%b,'
    b'"reasoning":{"effort":null,"summary":null},"max_output_tokens":%b,"max_tool_calls":null,'
    b'"metadata":{},"safety_identifier":null,"prompt_cache_key":null,"usage":'
)
"""What `_members` writes of a request that has nothing but `_PLAIN_FIELDS` and sampling."""
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_raws: Final = msgspec.json.Decoder(list[Raw])


class ResponseOutcome(Struct, frozen=True, kw_only=True, gc=False):
    """What becomes of an answer while it grows. All bytes are JSON.

    completed_at: Unix seconds. stored: `GET /v1/responses/{id}` has it.
    """

    status: bytes
    stored: bool = False
    model: str
    output: bytes = b"[]"
    completed_at: int | None = None
    error: bytes = b"null"
    incomplete: bytes = b"null"
    usage: bytes = b"null"
    extra: Mapping[str, Raw] = {}


class ResourceWriter:
    """Writes the resource of one request, as often as a stream needs it."""

    def __init__(self, request: ChatRequest, *, id: str, created: int) -> None:
        """created: Unix seconds."""
        original = request.original
        self._kept: Mapping[str, Raw] = {} if original is None else original.fields
        self._head = b'{"id":"%b","object":"response","created_at":%d,"background":false' % (
            id.encode(),
            created,
        )
        self._settings = _settings(request, self._kept)

    def write(self, outcome: ResponseOutcome) -> bytes:
        extra = outcome.extra
        tier = extra.get("service_tier", _NOTHING) if extra else _NOTHING
        foreign = NATIVE not in extra and bytes(tier) not in _TIERS
        if tier is _NOTHING or foreign or bytes(tier) == b'""':
            tier = self._kept.get("service_tier", _TIER)
        ended = outcome.completed_at
        return b"".join(
            (
                self._head,
                b',"status":"%b","completed_at":' % outcome.status,
                b"null" if ended is None else b"%d" % ended,
                b',"error":%b,"incomplete_details":%b,"model":%b,"output":'
                % (outcome.error, outcome.incomplete, encode(outcome.model)),
                outcome.output,
                b',"service_tier":',
                one_line(bytes(tier)),
                b',"store":true' if outcome.stored else b',"store":false',
                self._settings,
                outcome.usage,
                members(extra, self._ours(extra)) if extra else b"",
                b"}",
            )
        )

    def _ours(self, extra: Mapping[str, Raw]) -> Collection[str]:
        """Return the fields that the backend's do not replace."""
        return OURS if NATIVE not in extra else _OURS_ALWAYS | self._kept.keys()


def is_summarised(request: ChatRequest) -> bool:
    """Return whether the client looks for summaries of reasoning, and not for its text."""
    reasoning = None if request.original is None else request.original.fields.get("reasoning")
    if reasoning is None:
        return False
    wire = read_reasoning(reasoning)
    return (wire.summary or wire.generate_summary) is not None


def _settings(request: ChatRequest, kept: Mapping[str, Raw]) -> bytes:
    """Return the members between the output and the counts; the last has no value yet."""
    storage = None if request.original is None else request.original.storage
    previous = "" if storage is None else storage.previous
    if previous or request.extra or request.user is not UNSET or not kept.keys() <= _PLAIN_FIELDS:
        return _members(request, kept, previous or None)
    # Most requests: these fields at most, and `instructions` has no line break, being a string.
    sampling = request.sampling
    top_p, temperature, limit = sampling.top_p, sampling.temperature, sampling.max_tokens
    presence, frequency = sampling.presence_penalty, sampling.frequency_penalty
    return _PLAIN_SETTINGS % (
        kept.get("instructions", b"null"),
        b"1.0" if top_p is UNSET else encode(top_p),
        b"0.0" if presence is UNSET else encode(presence),
        b"0.0" if frequency is UNSET else encode(frequency),
        b"1.0" if temperature is UNSET else encode(temperature),
        b"null" if limit is UNSET else encode(limit),
    )


def _members(request: ChatRequest, kept: Mapping[str, Raw], previous: str | None) -> bytes:
    sampling, extra = request.sampling, request.extra
    settings: dict[str, object] = {
        "previous_response_id": previous,
        "instructions": kept.get("instructions"),
        "tools": _tools(kept.get("tools")),
        "tool_choice": kept.get("tool_choice", _AUTO),
        "truncation": extra.get("truncation", "disabled"),
        "parallel_tool_calls": kept.get("parallel_tool_calls", True),
        "text": _text(kept.get("text")),
        "top_p": 1.0 if sampling.top_p is UNSET else sampling.top_p,
        "presence_penalty": _or_zero(sampling.presence_penalty),
        "frequency_penalty": _or_zero(sampling.frequency_penalty),
        "top_logprobs": kept.get("top_logprobs", 0),
        "temperature": 1.0 if sampling.temperature is UNSET else sampling.temperature,
        "reasoning": _reasoning(kept.get("reasoning")),
        "max_output_tokens": None if sampling.max_tokens is UNSET else sampling.max_tokens,
        "max_tool_calls": extra.get("max_tool_calls"),
        "metadata": kept.get("metadata", _EMPTY),
        "safety_identifier": kept.get("safety_identifier"),
        "prompt_cache_key": kept.get("prompt_cache_key"),
    }
    for name in _REPEATED_IF_SENT:
        if name in kept:
            settings[name] = kept[name]
    if request.user is not UNSET:
        settings["user"] = request.user
    return b',%b,"usage":' % one_line(encode(settings))[1:-1]


def _or_zero(value: object) -> object:
    return 0.0 if value is UNSET else value


def _tools(raw: Raw | None) -> list[Raw | dict[str, object]]:
    """Return functions with all fields of the specification, and other tools as they are."""
    return [] if raw is None else [_tool(one) for one in _raws.decode(raw)]


def _tool(raw: Raw) -> Raw | dict[str, object]:
    fields = _fields.decode(raw)
    if bytes(fields.get("type", _NOTHING)) != b'"function"':
        return raw
    absent: dict[str, object] = {"description": None, "parameters": None, "strict": None}
    return {**absent, **fields}


def _text(raw: Raw | None) -> Raw | dict[str, object]:
    if raw is None:
        return _TEXT
    return {"format": Raw(b'{"type":"text"}'), **_without_nulls(raw)}


def _reasoning(raw: Raw | None) -> dict[str, object]:
    absent: dict[str, object] = {"effort": None, "summary": None}
    return absent if raw is None else {**absent, **_without_nulls(raw)}


def _without_nulls(raw: Raw) -> dict[str, Raw]:
    return {name: one for name, one in _fields.decode(raw).items() if bytes(one) != b"null"}


_BARE: Final = ResourceWriter(ChatRequest(model="", messages=()), id="", created=0)
_WRITTEN: Final = _fields.decode(_BARE.write(ResponseOutcome(status=b"completed", model="")))
OURS: Final = frozenset({*_WRITTEN, *_MEANS_MORE})
"""Fields that those of a backend of another API never replace."""

_OURS_ALWAYS: Final = frozenset({*_WRITTEN, NATIVE, "choices", "created", "user"})
"""Fields that those of a backend of this API never replace."""
