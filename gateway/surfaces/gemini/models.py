"""Lists of models in the Gemini API's format, in pages.

https://ai.google.dev/api/models
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.surfaces.model_card import ModelCard
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest

CLIENTS: Final = (b"x-goog-api-client", b"x-goog-api-key")
"""Headers that Google's clients send, on paths that clients of OpenAI use too."""

PREFIX: Final = "models/"
PAGE: Final = 50
LARGEST_PAGE: Final = 1000

_CHAT: Final = ("generateContent", "streamGenerateContent", "countTokens")
_EMBEDDINGS: Final = ("embedContent", "batchEmbedContents")


class GeminiModel(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """name: `models/NAME`. input_token_limit, output_token_limit, thinking: as far as known."""

    name: str
    base_model_id: str = ""
    version: str = ""
    display_name: str = ""
    description: str = ""
    input_token_limit: int | None = None
    output_token_limit: int | None = None
    supported_generation_methods: tuple[str, ...] = ()
    thinking: bool | None = None


class GeminiModelList(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A page of the models that the key may use. next_page_token: "" on the last page."""

    models: list[GeminiModel]
    next_page_token: str = ""


def model_body(card: ModelCard) -> bytes:
    return encode(_model(card))


def models_body(
    names: Sequence[str], card: Callable[[str], ModelCard], *, limit: int, after: str
) -> bytes:
    """Return one page. card: of a name. limit: 0 is the usual size. after: the page's token.

    Raises InvalidRequest for a limit out of range.
    """
    if limit < 0:
        raise InvalidRequest("pageSize must be 0 or more", param="pageSize")
    size = min(limit or PAGE, LARGEST_PAGE)
    known = list(names)
    rest = known[known.index(after) + 1 :] if after in known else known
    page = rest[:size]
    return encode(
        GeminiModelList(
            models=[_model(card(name)) for name in page],
            next_page_token=page[-1] if len(rest) > size else "",
        )
    )


def _model(card: ModelCard) -> GeminiModel:
    embeds = card.output is not None and "embeddings" in card.output
    known = "dimensions" in card.parameters or embeds
    chats = "messages" in card.parameters or not embeds
    methods = (*(_CHAT if chats else ()), *(_EMBEDDINGS if known else ()))
    return GeminiModel(
        name=PREFIX + card.name,
        base_model_id=card.name,
        version="1",
        display_name=card.name,
        input_token_limit=card.context,
        output_token_limit=card.max_output,
        supported_generation_methods=methods,
        thinking=card.reasoning,
    )
