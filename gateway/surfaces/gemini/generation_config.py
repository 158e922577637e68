"""Parse `generationConfig`: sampling, the answer's form, and how much the model thinks.

https://ai.google.dev/api/generate-content#generationconfig
"""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import is_object, null_to_unset
from strowger_gateway.gateway.surfaces.gemini.json_schemas import json_schema
from strowger_gateway.gateway.surfaces.gemini.proto import ProtoReader
from strowger_gateway.gateway.surfaces.gemini.wire import (
    ALLOWED,
    GenerationConfigWire,
    ThinkingWire,
)
from strowger_gateway.gateway.surfaces.marked_objects import Marks
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import ResponseFormat
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling

CONFIG: Final = "generationConfig"
_JSON: Final = "application/json"
_PLAIN: Final = ("", "text/plain")
_THINKING: Final = f"{CONFIG}.thinkingConfig"

_LOW: Final = 4096
_MEDIUM: Final = 16_384
"""Tokens up to which a budget is a low or a medium effort: between those that Google gives for
these efforts, 1,024, 8,192 and 24,576. https://ai.google.dev/gemini-api/docs/openai#thinking"""

_LEVELS: Final[Mapping[str, str]] = {
    "thinking_level_unspecified": "",
    "none": "none",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
}
_TEXT_ONLY: Final = (b'["TEXT"]', b'["text"]', b"[]", b'["MODALITY_UNSPECIFIED"]')
_BLANK: Final = b" \t\r\n"

_NUMBERS: Final = ProtoReader(GenerationConfigWire, ALLOWED, lists={"stopSequences"}, lax=True)
_THINKINGS: Final = ProtoReader(ThinkingWire, ALLOWED, lax=True)


class Settings(Struct, frozen=True, kw_only=True):
    """more: members that only Google has, by name."""

    sampling: Sampling = Sampling()
    form: ResponseFormat | UnsetType = UNSET
    effort: str | UnsetType = UNSET
    more: Marks = {}


NO_SETTINGS: Final = Settings()


def read_settings(config: Raw | UnsetType, max_choices: int) -> Settings:
    """Raises InvalidRequest."""
    raw = null_to_unset(config)
    if not isinstance(raw, Raw):
        return NO_SETTINGS
    wire, more = _NUMBERS.read(raw, CONFIG)
    if wire.candidate_count is not None and wire.candidate_count > max_choices:
        field = f"{CONFIG}.candidateCount"
        raise InvalidRequest(f"{field} must be at most {max_choices}", param=field)
    modalities = more.get("responseModalities")
    if modalities is not None and bytes(modalities).translate(None, _BLANK) in _TEXT_ONLY:
        del more["responseModalities"]
    form = _form(wire, more)
    thinking = ThinkingWire()
    if isinstance(given := null_to_unset(wire.thinking_config), Raw):
        thinking, _ = _THINKINGS.read(given, _THINKING)
    return Settings(
        sampling=_sampling(wire),
        form=form,
        effort=_effort(thinking),
        more=more,
    )


def _sampling(wire: GenerationConfigWire) -> Sampling:
    stop = tuple([one for one in wire.stop_sequences or () if one])
    return Sampling(
        temperature=UNSET if wire.temperature is None else wire.temperature,
        top_p=UNSET if wire.top_p is None else wire.top_p,
        top_k=round(wire.top_k) if wire.top_k else UNSET,
        max_tokens=UNSET if wire.max_output_tokens is None else wire.max_output_tokens,
        stop=stop or UNSET,
        seed=UNSET if wire.seed is None else wire.seed,
        n=UNSET if wire.candidate_count is None else wire.candidate_count,
        presence_penalty=UNSET if wire.presence_penalty is None else wire.presence_penalty,
        frequency_penalty=UNSET if wire.frequency_penalty is None else wire.frequency_penalty,
        logprobs=UNSET if wire.response_logprobs is None else wire.response_logprobs,
        top_logprobs=wire.logprobs
        if wire.logprobs is not None and wire.response_logprobs
        else UNSET,
    )


def _form(wire: GenerationConfigWire, more: Marks) -> ResponseFormat | UnsetType:
    """Return the answer's form. A media type that only Google has stays under its name."""
    media = (wire.response_mime_type or "").lower()
    schema: Raw | UnsetType = null_to_unset(wire.response_json_schema)
    if isinstance(schema, Raw):
        if not is_object(schema):
            field = f"{CONFIG}.responseJsonSchema"
            raise InvalidRequest(f"{field} must be a JSON schema, an object", param=field)
    elif isinstance(found := null_to_unset(wire.response_schema), Raw):
        schema = json_schema(found, f"{CONFIG}.responseSchema")
    if media not in (*_PLAIN, _JSON):
        more["responseMimeType"] = Raw(encode(wire.response_mime_type))
        return UNSET
    if isinstance(schema, Raw):
        return ResponseFormat(type="json_schema", schema=schema)
    return ResponseFormat(type="json_object") if media == _JSON else UNSET


def _effort(thinking: ThinkingWire) -> str | UnsetType:
    """Return the effort that a level or a budget is worth; `UNSET` if the model decides."""
    if thinking.thinking_level:
        effort = _LEVELS.get(thinking.thinking_level.lower())
        if effort is None:
            field = f"{_THINKING}.thinkingLevel"
            told = f"{field} must be one of MINIMAL, LOW, MEDIUM, HIGH, XHIGH"
            raise InvalidRequest(told, param=field)
        if effort:
            return effort
    budget = thinking.thinking_budget
    if budget is None or budget < 0:
        return UNSET
    if budget == 0:
        return "none"
    return "low" if budget <= _LOW else "medium" if budget <= _MEDIUM else "high"


def wants_thoughts(request: ChatRequest) -> bool:
    """Return whether the client wants to read the model's thoughts."""
    original = request.original
    raw = None if original is None else original.fields.get(CONFIG)
    if raw is None or b"houghts" not in bytes(raw):
        return False
    wire, _ = _NUMBERS.read(raw, CONFIG)
    if not isinstance(given := null_to_unset(wire.thinking_config), Raw):
        return False
    return _THINKINGS.read(given, _THINKING)[0].include_thoughts or False
