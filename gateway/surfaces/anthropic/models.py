"""Lists of models in Anthropic's format, in pages.

https://docs.anthropic.com/en/api/models-list
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.surfaces.model_card import ModelCard
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest

VERSION: Final = b"anthropic-version"
"""The header that every client of this API sends."""

PAGE: Final = 20
LARGEST_PAGE: Final = 1000


class AnthropicModel(Struct, frozen=True, kw_only=True):
    """created_at: when the gateway started, RFC 3339. retires_at: as far as it is known.

    max_input_tokens: of a prompt and its answer together. max_tokens: of the longest answer.
    lifecycle: deprecated, if the model has a date of retirement.
    """

    id: str
    created_at: datetime
    display_name: str
    type: str = "model"
    lifecycle: str = "active"
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    retires_at: datetime | None = None


class AnthropicModelList(Struct, frozen=True, kw_only=True):
    """A page of the models that the key may use."""

    data: list[AnthropicModel]
    first_id: str | None
    last_id: str | None
    has_more: bool


def model_body(card: ModelCard, created: float) -> bytes:
    """created: Unix seconds."""
    return encode(_model(card, created))


def models_body(
    names: Sequence[str],
    card: Callable[[str], ModelCard],
    created: float,
    *,
    limit: int = PAGE,
    after: str = "",
    before: str = "",
) -> bytes:
    """Return one page. card: of a name. after, before: the model next to the page; "" for none.

    Raises InvalidRequest for a limit out of range.
    """
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidRequest(f"limit must be from 1 to {LARGEST_PAGE}", param="limit")
    known = list(names)
    if before in known:
        rest = known[: known.index(before)]
        page, more = rest[-limit:], len(rest) > limit
    else:
        rest = known[known.index(after) + 1 :] if after in known else known
        page, more = rest[:limit], len(rest) > limit
    return encode(
        AnthropicModelList(
            data=[_model(card(name), created) for name in page],
            first_id=page[0] if page else None,
            last_id=page[-1] if page else None,
            has_more=more,
        )
    )


def _model(card: ModelCard, created: float) -> AnthropicModel:
    return AnthropicModel(
        id=card.name,
        created_at=datetime.fromtimestamp(int(created), UTC),
        display_name=card.name,
        lifecycle="active" if card.retires is None else "deprecated",
        max_input_tokens=card.context,
        max_tokens=card.max_output,
        retires_at=None
        if card.retires is None
        else datetime.fromisoformat(card.retires).replace(tzinfo=UTC),
    )
