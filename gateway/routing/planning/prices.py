"""The prices of backends, looked up by name, and the exact cost of one answer.

Money is computed in integers: prices in 10⁻¹⁸ US dollars per token, costs in 10⁻⁹ US dollars,
rounded once. The costs in logs, records and reports are these integers as floats of US dollars.
"""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from math import gcd

from msgspec import Struct

from strowger_gateway.gateway.config.schema.prices import Price, Rates, ServiceTierPrice
from strowger_gateway.gateway.routing.planning.vendor_counts import (
    NANOS,
    modal_counts,
    reported_nanos,
)
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.usage import tier_in_usage

_PER_MILLION = 10**12
"""A US dollar per million tokens, in 10⁻¹⁸ US dollars per token; prices have up to 12 decimals."""
_PER_THOUSAND = 10**15
_MOST_WILD = 4096
"""Backends whose prices are remembered that a wildcard gives; clients choose models behind one."""
_ATTOS = 10**9
"""10⁻¹⁸ US dollars in 10⁻⁹."""


class TokenPrices(Struct, frozen=True, gc=False):
    """10⁻¹⁸ US dollars: the price of one token, and by how much each kind of token differs from it.

    cached_audio, cached_image: beyond the difference of cached tokens and that of the modality.
    search: of one web search. search_unit: of one of reranking.
    """

    input: int
    output: int
    cached: int
    written: int
    written_1h: int
    reasoning: int
    audio_input: int
    cached_audio: int
    audio_output: int
    image_input: int
    cached_image: int
    image_output: int
    search: int
    search_unit: int

    @property
    def modal(self) -> bool:
        """Whether the price of an answer depends on more than our own `Usage`."""
        kinds = (self.audio_input, self.cached_audio, self.audio_output, self.search)
        kinds += (self.search_unit,)
        return any(kinds) or any((self.image_input, self.cached_image, self.image_output))


class BackendPrice(Struct, frozen=True):
    """The price of a backend, ready to compute with.

    row, prices: `None` if only the vendor's answers state the cost.
    tiers:   (tokens, prices), the longest prompts first. modal: whether any price is.
    reports: the vendor's answers state their cost, which is truer than any price.
    flat:    the prices of a token of the prompt and of the answer, and how many of their unit are
             10⁻⁹ US dollars; `None` if they depend on anything but caching and reasoning.
    services: by the name of a service tier other than the standard one.
    """

    row: Price | None = None
    prices: TokenPrices | None = None
    tiers: tuple[tuple[int, TokenPrices], ...] = ()
    modal: bool = False
    reports: bool = False
    flat: tuple[int, int, int] | None = None
    services: Mapping[str, "BackendPrice"] = {}

    def in_tier(self, tier: str) -> "BackendPrice":
        """The price in a service tier: the standard one if that of the tier is unknown."""
        return self.services.get(tier, self)

    def of_answer(self, usage: Usage, tier: str) -> "BackendPrice":
        """The price of an answer. tier: what it or its request named, if its usage names none."""
        if not self.services:
            return self
        named = tier_in_usage(usage.raw)
        return self.services.get(tier if named is None else named, self)

    @property
    def search_unit(self) -> int:
        """The highest price of a search unit, 10⁻¹⁸ US dollars."""
        own = 0 if self.prices is None else self.prices.search_unit
        return max([own, *(prices.search_unit for _, prices in self.tiers)])

    def at(self, prompt_tokens: int) -> TokenPrices | None:
        """The prices for a prompt of this length."""
        for above, prices in self.tiers:
            if prompt_tokens > above:
                return prices
        return self.prices


def price_of(row: Price, *, reports: bool = False) -> BackendPrice:
    """Prepare a row."""
    services = {
        tier.name.lower(): _prepared(row, tier, reports=reports) for tier in row.service_tiers
    }
    return _prepared(row, row, services, reports=reports)


def _prepared(
    row: Price,
    rates: Price | ServiceTierPrice,
    services: Mapping[str, BackendPrice] | None = None,
    *,
    reports: bool,
) -> BackendPrice:
    """The rates of a row, or of one of its service tiers."""
    prices = _token_prices(rates)
    ordered = sorted(rates.tiers, key=lambda tier: tier.above, reverse=True)
    tiers = tuple((tier.above, _token_prices(tier)) for tier in ordered)
    modal = any(one.modal for one in (prices, *(tier for _, tier in tiers)))
    # Small numbers are multiplied faster, and most prices are whole 10⁻⁹ dollars.
    unit = gcd(prices.input, prices.output, _ATTOS)
    flat = prices.input // unit, prices.output // unit, _ATTOS // unit
    if tiers or modal or reports:
        flat = None
    return BackendPrice(row, prices, tiers, modal, reports, flat, services or {})


class Prices:
    """The price of each backend, PROVIDER/MODEL: the exact row, else the longest wildcard.

    any: whether a cost may be known. priced: whether a price is known.
    """

    def __init__(self, rows: Sequence[Price], reporting: Collection[str] = ()) -> None:
        """reporting: the providers whose answers state their cost."""
        exact: dict[str, BackendPrice] = {}
        wild: list[tuple[str, BackendPrice]] = []
        for row in rows:
            price = price_of(row, reports=row.match.partition("/")[0] in reporting)
            if row.match.endswith("*"):
                wild.append((row.match[:-1], price))
            else:
                exact[row.match] = price
        wild += [(f"{provider}/", BackendPrice(reports=True)) for provider in reporting]
        self._wild = sorted(wild, key=lambda one: len(one[0]), reverse=True)
        self._found: dict[str, BackendPrice | None] = {**exact}
        self._most_found = len(exact) + _MOST_WILD
        self.priced = bool(rows)
        self.any = self.priced or bool(reporting)

    def of(self, backend: str) -> BackendPrice | None:
        """The price of a backend; `None` if it is unknown, which does not mean free."""
        try:
            return self._found[backend]
        except KeyError:
            pass
        price = next((price for start, price in self._wild if backend.startswith(start)), None)
        if len(self._found) < self._most_found:
            self._found[backend] = price
        return price


UNPRICED = Prices(())


def cost_of(usage: Usage, price: BackendPrice) -> float | None:
    """The cost in US dollars, as `nanos_of`."""
    flat = price.flat
    if flat is not None and not (
        usage.cached_tokens or usage.cache_write_tokens or usage.reasoning_tokens
    ):  # `nanos_of` written out for most answers
        prompt = usage.prompt_tokens
        if prompt is not None:
            one, other, unit = flat
            cost = prompt * one + (usage.completion_tokens or 0) * other
            return (cost + unit // 2) // unit / NANOS
    nanos = nanos_of(usage, price)
    return None if nanos is None else nanos / NANOS


def nanos_of(usage: Usage, price: BackendPrice) -> int | None:
    """The cost in 10⁻⁹ US dollars; `None` if the tokens or their price are unknown.

    Cached tokens, cache writes (for an hour or less) and reasoning tokens are included in the
    tokens of the prompt and of the answer, and so are tokens of audio and images.
    """
    if price.reports and (told := reported_nanos(usage.raw)) is not None:
        return told
    prompt, answer = usage.prompt_tokens, usage.completion_tokens or 0
    if prompt is None:
        return None
    prices = price.at(prompt) if price.tiers else price.prices
    if prices is None:
        return None
    cost = 0
    cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    if cached or written:
        prompt = max(prompt, cached + written)
        hour = min(usage.cache_write_1h_tokens or 0, written)
        cost = cached * prices.cached + (written - hour) * prices.written + hour * prices.written_1h
    reasoning = usage.reasoning_tokens
    if reasoning:
        answer = max(answer, reasoning)
        cost += reasoning * prices.reasoning
    cost += prompt * prices.input + answer * prices.output
    if price.modal:
        cost += _modal_cost(usage, prices)
    return (cost + _ATTOS // 2) // _ATTOS


def _modal_cost(usage: Usage, prices: TokenPrices) -> int:
    """What audio, images and searches add. An estimated usage has no counts and is all text."""
    counts = modal_counts(usage.raw)
    return (
        counts.audio_input * prices.audio_input
        + counts.cached_audio * prices.cached_audio
        + counts.audio_output * prices.audio_output
        + counts.image_input * prices.image_input
        + counts.cached_image * prices.cached_image
        + counts.image_output * prices.image_output
        + counts.searches * prices.search
        + round(counts.search_units * prices.search_unit)
    )


def is_reported(usage: Usage) -> bool:
    """Whether the answer of a vendor that reports costs states this one."""
    return reported_nanos(usage.raw) is not None


def expected_cost(
    tokens: int, max_tokens: int | None, price: BackendPrice, searches: int = 0
) -> float | None:
    """The cost in US dollars of a request that is not answered yet; `None` if it is unknown.

    Assumes an answer of `max_tokens`; if that is `None`, one as long as the prompt. searches:
    estimated search units.
    """
    answer = tokens if max_tokens is None else max_tokens
    prices = price.at(tokens)
    if prices is None:
        return None
    attos = tokens * prices.input + answer * prices.output + searches * prices.search_unit
    return attos / (NANOS * _ATTOS)


def _token_prices(rates: Rates) -> TokenPrices:
    """Convert rates to integers, as differences from the plain token of their side."""
    plain, answer = _attos(rates.input), _attos(rates.output)
    cached = _attos(rates.cached_input, plain) - plain
    written = _attos(rates.cache_write, plain)
    audio = _attos(rates.audio_input, plain) - plain
    image = _attos(rates.image_input, plain) - plain
    return TokenPrices(
        plain,
        answer,
        cached,
        written - plain,
        _attos(rates.cache_write_1h, written) - plain,
        _attos(rates.reasoning, answer) - answer,
        audio,
        _attos(rates.cached_audio_input, plain + cached) - plain - cached - audio,
        _attos(rates.audio_output, answer) - answer,
        image,
        _attos(rates.cached_image_input, plain + cached) - plain - cached - image,
        _attos(rates.image_output, answer) - answer,
        _attos(rates.web_search, 0, _PER_THOUSAND),
        _attos(rates.search_unit, 0, _PER_THOUSAND),
    )


def _attos(usd: float | None, other: int = 0, scale: int = _PER_MILLION) -> int:
    """`other` if not set. The decimal digits count: 0.1 is a tenth, not its binary neighbour."""
    return other if usd is None else int((Decimal(repr(usd)) * scale).to_integral_value())
