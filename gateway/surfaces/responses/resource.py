"""The response resource: an answer with all settings that the client chose for it.

Settings that the client left out are written as the specification's defaults; what the backend
really used is its own business. https://www.openresponses.org/reference
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct

from gateway.surfaces.openai.stream_chunks import encode, members
from gateway.surfaces.responses.tools import read_reasoning
from gateway.surfaces.sse import one_line
from schemas.requests import ChatRequest
from schemas.sampling import Sampling

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
)
"""Fields of responses that backends of other APIs send with another meaning, or in place of
ours."""

_UNREPEATED: Final = frozenset({"input"})
_NOTHING: Final = Raw(b"null")
_TIER: Final = Raw(b'"default"')
_EMPTY: Final = Raw(b"{}")
_AUTO: Final = Raw(b'"auto"')
_DISABLED: Final = Raw(b'"disabled"')
_TEXT_DEFAULTS: Final = {"format": Raw(b'{"type":"text"}')}
_TEXT: Final = encode(_TEXT_DEFAULTS)
_NO_REASONING: Final = b'{"effort":null,"summary":null}'
_SETTINGS: Final = (
    b'{"previous_response_id":%b,"instructions":%b,"tools":%b,"tool_choice":%b,"truncation":%b,'
    b'"parallel_tool_calls":%b,"text":%b,"top_p":%b,"presence_penalty":%b,"frequency_penalty":%b,'
    b'"top_logprobs":%b,"temperature":%b,"reasoning":%b,"max_output_tokens":%b,'
    b'"max_tool_calls":%b,"metadata":%b,"safety_identifier":%b,"prompt_cache_key":%b%b}'
)
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
        tier = extra.get("service_tier", _NOTHING)
        if bytes(tier)[:2] in (b'""', b"nu"):
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
                members(extra, OURS) if extra else b"",
                b"}",
            )
        )


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
    if _is_plain(request, kept) and not previous:
        return _DEFAULTS
    return _members(request, kept, previous or None)


def _is_plain(request: ChatRequest, kept: Mapping[str, Raw]) -> bool:
    """Return whether the client has chosen nothing that the answer repeats."""
    return (
        kept.keys() <= _UNREPEATED
        and request.sampling == _SILENT
        and not request.extra
        and request.user is UNSET
    )


def _members(request: ChatRequest, kept: Mapping[str, Raw], previous: str | None) -> bytes:
    """Write by a template, because encoding a dictionary of all settings takes longer."""
    sampling, extra, form = request.sampling, request.extra, kept.get("text")
    top_p, temperature, limit = sampling.top_p, sampling.temperature, sampling.max_tokens
    presence, frequency = sampling.presence_penalty, sampling.frequency_penalty
    more = b""
    if "prompt_cache_retention" in kept:
        more = b',"prompt_cache_retention":%b' % kept["prompt_cache_retention"]
    if request.user is not UNSET:
        more += b',"user":' + encode(request.user)
    settings = _SETTINGS % (
        b"null" if previous is None else encode(previous),
        kept.get("instructions", _NOTHING),
        _tools(kept["tools"]) if "tools" in kept else b"[]",
        kept.get("tool_choice", _AUTO),
        extra.get("truncation", _DISABLED),
        kept.get("parallel_tool_calls", b"true"),
        _TEXT if form is None else encode({**_TEXT_DEFAULTS, **_without_nulls(form)}),
        b"1.0" if top_p is UNSET else encode(top_p),
        b"0.0" if presence is UNSET else encode(presence),
        b"0.0" if frequency is UNSET else encode(frequency),
        kept.get("top_logprobs", b"0"),
        b"1.0" if temperature is UNSET else encode(temperature),
        _reasoning(kept["reasoning"]) if "reasoning" in kept else _NO_REASONING,
        b"null" if limit is UNSET else encode(limit),
        extra.get("max_tool_calls", _NOTHING),
        kept.get("metadata", _EMPTY),
        kept.get("safety_identifier", _NOTHING),
        kept.get("prompt_cache_key", _NOTHING),
        more,
    )
    return b',%b,"usage":' % one_line(settings)[1:-1]


def _tools(raw: Raw) -> bytes:
    """Return functions with all fields of the specification, and other tools as they are."""
    return encode([_tool(one) for one in _raws.decode(raw)])


def _tool(raw: Raw) -> Raw | dict[str, object]:
    fields = _fields.decode(raw)
    if bytes(fields.get("type", _NOTHING)) != b'"function"':
        return raw
    absent: dict[str, object] = {"description": None, "parameters": None, "strict": None}
    return {**absent, **fields}


def _reasoning(raw: Raw) -> bytes:
    absent: dict[str, object] = {"effort": None, "summary": None}
    return encode({**absent, **_without_nulls(raw)})


def _without_nulls(raw: Raw) -> dict[str, Raw]:
    return {name: one for name, one in _fields.decode(raw).items() if bytes(one) != b"null"}


_SILENT: Final = Sampling()
_DEFAULTS: Final = _members(ChatRequest(model="", messages=()), {}, None)
_BARE: Final = ResourceWriter(ChatRequest(model="", messages=()), id="", created=0)
OURS: Final = frozenset(
    {*_fields.decode(_BARE.write(ResponseOutcome(status=b"completed", model=""))), *_MEANS_MORE}
)
"""Fields that a backend's own never replace."""
