"""What a vendor's own usage object says beyond our `Usage`: audio, images, searches, the cost."""

from decimal import Decimal

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.schemas.usage import MOST_TOKENS

NANOS = 10**9
"""Billionths of a US dollar in a dollar: the unit of all money."""


class _Details(Struct, frozen=True):
    """OpenAI's: the tokens of one side by modality.

    https://platform.openai.com/docs/api-reference/chat/object
    """

    audio_tokens: int | None = None
    image_tokens: int | None = None


class _Modality(Struct, frozen=True, rename="camel"):
    """Gemini's. https://ai.google.dev/api/generate-content#ModalityTokenCount"""

    modality: str = ""
    token_count: int = 0


class _Searches(Struct, frozen=True):
    """Anthropic's. https://platform.claude.com/docs/en/api/messages"""

    web_search_requests: int | None = None


class _Counts(Struct, frozen=True):
    """The members of several vendors' usage objects, none of which conflict."""

    prompt_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None
    gemini_prompt: list[_Modality] | None = msgspec.field(name="promptTokensDetails", default=None)
    gemini_cached: list[_Modality] | None = msgspec.field(name="cacheTokensDetails", default=None)
    gemini_answer: list[_Modality] | None = msgspec.field(
        name="candidatesTokensDetails", default=None
    )
    server_tool_use: _Searches | None = None
    search_units: float | None = None


class _CostDetails(Struct, frozen=True):
    upstream_inference_cost: Decimal | None = None


class _Cost(Struct, frozen=True):
    """OpenRouter's, in US dollars. https://openrouter.ai/docs/use-cases/usage-accounting

    With the operator's own key at the vendor (`is_byok`), `cost` is OpenRouter's fee alone.
    """

    cost: Decimal | None = None
    is_byok: bool = False
    cost_details: _CostDetails | None = None


class ModalCounts(Struct, frozen=True, gc=False):
    """Tokens of audio and images, all of them included in the counts of `Usage`; searches.

    search_units: of reranking, see `strowger_gateway.schemas.tasks.task.searched`.
    """

    audio_input: int = 0
    cached_audio: int = 0
    audio_output: int = 0
    image_input: int = 0
    cached_image: int = 0
    image_output: int = 0
    searches: int = 0
    search_units: float = 0


TEXT_ONLY = ModalCounts()
_read_counts = msgspec.json.Decoder(_Counts).decode
_read_cost = msgspec.json.Decoder(_Cost).decode
_SHOWS = (b"audio", b"image", b"AUDIO", b"IMAGE", b"web_search_requests", b"search_units")


def modal_counts(raw: Raw | None) -> ModalCounts:
    """Read the counts by modality; those of a vendor that reports none, or nonsense, are 0."""
    text = b"" if raw is None else bytes(raw)
    if not any(word in text for word in _SHOWS):
        return TEXT_ONLY
    try:
        counts = _read_counts(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return TEXT_ONLY
    prompt = counts.prompt_tokens_details or counts.input_tokens_details or _Details()
    answer = counts.completion_tokens_details or counts.output_tokens_details or _Details()
    found = ModalCounts(
        (prompt.audio_tokens or 0) + _of("AUDIO", counts.gemini_prompt),
        _of("AUDIO", counts.gemini_cached),
        (answer.audio_tokens or 0) + _of("AUDIO", counts.gemini_answer),
        (prompt.image_tokens or 0) + _of("IMAGE", counts.gemini_prompt),
        _of("IMAGE", counts.gemini_cached),
        (answer.image_tokens or 0) + _of("IMAGE", counts.gemini_answer),
        (counts.server_tool_use.web_search_requests or 0) if counts.server_tool_use else 0,
        counts.search_units or 0,
    )
    counted = msgspec.structs.astuple(found)
    return found if min(counted) >= 0 and max(counted) <= MOST_TOKENS else TEXT_ONLY


def _of(modality: str, counts: list[_Modality] | None) -> int:
    return sum(one.token_count for one in counts or () if one.modality == modality)


def reported_nanos(raw: Raw | None) -> int | None:
    """The cost that OpenRouter reports, in billionths of a US dollar; `None` without one."""
    if raw is None:
        return None
    try:
        said = _read_cost(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    cost = said.cost
    if cost is not None and said.is_byok:
        theirs = said.cost_details.upstream_inference_cost if said.cost_details else None
        cost = None if theirs is None else cost + theirs
    if cost is None or not cost.is_finite() or not 0 <= cost < NANOS:
        return None
    return int((cost * NANOS).to_integral_value())
