"""`GET /v1/models`: OpenAI's list, with the fields from which tools read a model's limits.

OpenAI's own objects have `id`, `created`, `object`, `owned_by` and `shutdown_date`. The others are
those of OpenRouter's list (https://openrouter.ai/docs/api-reference/list-available-models) and
vLLM's `max_model_len`, because OpenAI has none, and clients read these. Unknown facts are absent.
Mistral's clients need `type` and `capabilities` in each object.
"""

from collections.abc import Iterable
from decimal import Decimal

from msgspec import UNSET, Struct, UnsetType

from strowger_gateway.gateway.surfaces.model_card import CardPrice, ModelCard
from strowger_gateway.gateway.surfaces.openai.envelope import encode

_MILLION = 10**6


class Architecture(Struct, frozen=True, kw_only=True):
    """modality: both lists in one text, as older clients read it: `text+image->text`."""

    modality: str
    input_modalities: tuple[str, ...]
    output_modalities: tuple[str, ...]


class Pricing(Struct, frozen=True, kw_only=True):
    """US dollars per token, as text, because floats would lose digits."""

    prompt: str
    completion: str
    input_cache_read: str | UnsetType = UNSET
    input_cache_write: str | UnsetType = UNSET
    internal_reasoning: str | UnsetType = UNSET


class TopProvider(Struct, frozen=True, kw_only=True):
    """The limits again, where OpenRouter's clients look for them."""

    context_length: int | UnsetType = UNSET
    max_completion_tokens: int | UnsetType = UNSET


class Capabilities(Struct, frozen=True, kw_only=True):
    """Absent if unknown."""

    tools: bool | UnsetType = UNSET
    reasoning: bool | UnsetType = UNSET
    structured_output: bool | UnsetType = UNSET


class OpenAIModel(Struct, frozen=True, kw_only=True):
    """created: Unix seconds, when the gateway started. shutdown_date: ISO date.

    context_length, max_model_len: tokens of a prompt and its answer together.
    """

    id: str
    created: int
    object: str = "model"
    owned_by: str = "strowger"
    type: str = "base"
    name: str
    context_length: int | UnsetType = UNSET
    max_model_len: int | UnsetType = UNSET
    max_completion_tokens: int | UnsetType = UNSET
    architecture: Architecture | UnsetType = UNSET
    capabilities: Capabilities = Capabilities()
    pricing: Pricing | UnsetType = UNSET
    supported_parameters: tuple[str, ...] | UnsetType = UNSET
    top_provider: TopProvider | UnsetType = UNSET
    shutdown_date: str | UnsetType = UNSET


class OpenAIModelList(Struct, frozen=True, kw_only=True):
    """The models that the key may use."""

    object: str = "list"
    data: list[OpenAIModel]


def models_body(cards: Iterable[ModelCard], created: float) -> bytes:
    """`GET /v1/models`. created: Unix seconds."""
    return encode(OpenAIModelList(data=[_model(card, created) for card in cards]))


def model_body(card: ModelCard, created: float) -> bytes:
    """`GET /v1/models/{name}`. created: Unix seconds."""
    return encode(_model(card, created))


def _model(card: ModelCard, created: float) -> OpenAIModel:
    context, most = _or_unset(card.context), _or_unset(card.max_output)
    limited = context is not UNSET or most is not UNSET
    return OpenAIModel(
        id=card.name,
        created=int(created),
        name=card.name,
        context_length=context,
        max_model_len=context,
        max_completion_tokens=most,
        architecture=_architecture(card),
        capabilities=Capabilities(
            tools=_flag(card.tools),
            reasoning=_flag(card.reasoning),
            structured_output=_flag(card.structured_output),
        ),
        pricing=UNSET if card.price is None else _pricing(card.price),
        supported_parameters=card.parameters or UNSET,
        top_provider=TopProvider(context_length=context, max_completion_tokens=most)
        if limited
        else UNSET,
        shutdown_date=UNSET if card.retires is None else card.retires,
    )


def _architecture(card: ModelCard) -> Architecture | UnsetType:
    if card.input is None or card.output is None:
        return UNSET
    return Architecture(
        modality=f"{'+'.join(card.input)}->{'+'.join(card.output)}",
        input_modalities=card.input,
        output_modalities=card.output,
    )


def _pricing(price: CardPrice) -> Pricing:
    return Pricing(
        prompt=_per_token(price.input),
        completion=_per_token(price.output),
        input_cache_read=_rate(price.cached_input),
        input_cache_write=_rate(price.cache_write),
        internal_reasoning=_rate(price.reasoning),
    )


def _rate(usd: float | None) -> str | UnsetType:
    return UNSET if usd is None else _per_token(usd)


def _per_token(usd: float) -> str:
    """usd: per million tokens."""
    return f"{(Decimal(repr(usd)) / _MILLION).normalize():f}"


def _or_unset(count: int | None) -> int | UnsetType:
    return UNSET if count is None else count


def _flag(value: bool | None) -> bool | UnsetType:
    return UNSET if value is None else value
