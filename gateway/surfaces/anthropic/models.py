"""Lists of models in Anthropic's format, in pages.

https://docs.anthropic.com/en/api/models-list
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from gateway.surfaces.anthropic.frames import encode
from schemas.errors import InvalidRequest

VERSION: Final = b"anthropic-version"
"""The header that every client of this API sends."""

PAGE: Final = 20
LARGEST_PAGE: Final = 1000


class AnthropicModel(Struct, frozen=True, kw_only=True):
    """created_at: when the gateway started, RFC 3339."""

    id: str
    created_at: datetime
    display_name: str
    type: str = "model"
    lifecycle: str = "active"


class AnthropicModelList(Struct, frozen=True, kw_only=True):
    """A page of the models that the key may use."""

    data: list[AnthropicModel]
    first_id: str | None
    last_id: str | None
    has_more: bool


def model_body(name: str, created: float) -> bytes:
    """created: Unix seconds."""
    return encode(_model(name, created))


def models_body(
    names: Sequence[str], created: float, *, limit: int = PAGE, after: str = "", before: str = ""
) -> bytes:
    """Return one page. after, before: the model next to the page; "" for none.

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
            data=[_model(name, created) for name in page],
            first_id=page[0] if page else None,
            last_id=page[-1] if page else None,
            has_more=more,
        )
    )


def _model(name: str, created: float) -> AnthropicModel:
    moment = datetime.fromtimestamp(int(created), UTC)
    return AnthropicModel(id=name, created_at=moment, display_name=name)
