"""The shape of `prices` in config.yaml. See `gateway/config/schema` for the conventions."""

from msgspec import Struct

from strowger_gateway.gateway.config.schema.units import BackendName, Name, Tokens, Usd


class Rates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens of each kind; of web_search and search_unit, per thousand.

    cached_input, cache_write: `None` costs the same as input; cache_write_1h: as cache_write;
    reasoning, audio_output, image_output: as output; audio_input, image_input: as input;
    cached_audio_input, cached_image_input: as cached_input; web_search, search_unit (of
    reranking): nothing.
    """

    input: Usd
    output: Usd
    cached_input: Usd | None = None
    cache_write: Usd | None = None
    cache_write_1h: Usd | None = None
    reasoning: Usd | None = None
    audio_input: Usd | None = None
    cached_audio_input: Usd | None = None
    audio_output: Usd | None = None
    image_input: Usd | None = None
    cached_image_input: Usd | None = None
    image_output: Usd | None = None
    web_search: Usd | None = None
    search_unit: Usd | None = None


class PriceTier(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of a whole request whose prompt has more tokens than `above`."""

    above: Tokens


class ServiceTierPrice(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rates of a service tier other than the vendor's standard one.

    name: as the vendor's answers have it: priority, flex, fast, optimized.
    """

    name: Name
    tiers: tuple[PriceTier, ...] = ()


class Price(Rates, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a backend.

    match: a backend, or a prefix of several with `*`; an exact match wins, then the longest.
    tiers: for long prompts; the highest one that the prompt is above prices the whole request.
    service_tiers: for answers that were served in one; those in any other cost as without.
    """

    match: BackendName
    tiers: tuple[PriceTier, ...] = ()
    service_tiers: tuple[ServiceTierPrice, ...] = ()


class CatalogueRow(Struct, frozen=True, kw_only=True):
    """What the catalogue of published prices says about a backend.

    price:   `None` if it is unknown, with the reason in `unknown`.
    source:  the catalogue and its version. url: the vendor's page of prices; "" if unknown.
    since:   ISO date of the price; "" if the catalogue has no other.
    """

    backend: str
    price: Price | None = None
    source: str = ""
    url: str = ""
    since: str = ""
    unknown: str = ""
