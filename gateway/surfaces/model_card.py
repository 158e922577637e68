"""What a list of models shows about one of them, whichever API's list it is."""

from msgspec import Struct

from strowger_gateway.gateway.config.schema.capabilities import Modality


class CardPrice(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens, of short prompts. `None`: not charged differently."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None


class ModelCard(Struct, frozen=True, kw_only=True):
    """One model that a key may use; `None` is unknown.

    context:    tokens of the longest prompt and its answer together, at the backend with the most.
    max_output: tokens of the longest answer, also at the backend with the most.
    input, output: what a backend accepts through this gateway, and returns.
    retires:    ISO date from which no backend answers.
    price:      the most that any backend costs; `None` if the price of one is unknown.
    parameters: the request fields that at least one backend honours, as clients write them.
    """

    name: str
    context: int | None = None
    max_output: int | None = None
    input: tuple[Modality, ...] | None = None
    output: tuple[Modality, ...] | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    structured_output: bool | None = None
    retires: str | None = None
    price: CardPrice | None = None
    parameters: tuple[str, ...] = ()
