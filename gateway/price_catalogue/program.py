"""The catalogue's program: `python -m gateway.price_catalogue.program`.

It reads backends from its standard input and writes their prices to its standard output. It is a
process of its own, because genai-prices and pydantic take 34 MB of memory, which a serving process
would keep. It uses no network: the prices are in the package.
"""

import os
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from importlib.metadata import version

import msgspec
from genai_prices.data_snapshot import DataSnapshot, get_snapshot
from genai_prices.types import (
    ModelInfo,
    ModelPrice,
    Provider,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)
from msgspec.structs import replace

from gateway.config.schema.prices import CatalogueRow, Price, PriceTier, ServiceTierPrice
from gateway.price_catalogue.messages import Asked, CatalogueAnswer, Question

SOURCE = "genai-prices"

_RATES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached_input",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
    "output_reasoning_mtok": "reasoning",
    "input_audio_mtok": "audio_input",
    "cache_audio_read_mtok": "cached_audio_input",
    "output_audio_mtok": "audio_output",
    "input_image_mtok": "image_input",
    "cache_image_read_mtok": "cached_image_input",
    "output_image_mtok": "image_output",
    "web_searches_kcount": "web_search",
}
"""Their names of prices, and ours."""
_TIERS = ("service_tier", "processing", "speed")
"""Their conditions of other prices whose value is the name of a service tier: that of OpenAI and
Google, `batch`, and Anthropic's `fast`."""
_TOOLS = {"storage_searches_kcount", "social_searches_kcount"}
"""Prices of tools that no usage object counts; the price of the tokens is known without them."""


class UnknownPrice(Exception):
    """Why the catalogue has no price that our usage can be charged by."""


def main() -> None:
    """Answer one question."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(
        sys.stderr.fileno(), sys.stdout.fileno()
    )  # a library that prints must not corrupt the reply
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    day, snapshot = date.fromisoformat(question.day), get_snapshot()
    source = f"{SOURCE} {version(SOURCE)}"
    rows = tuple(_row(one, day, snapshot, source) for one in question.backends)
    with os.fdopen(answers, "wb") as out:
        out.write(msgspec.json.encode(CatalogueAnswer(rows=rows)))


def _row(asked: Asked, day: date, snapshot: DataSnapshot, source: str) -> CatalogueRow:
    url = ""
    try:
        provider = _provider(asked, snapshot)
        url = (provider.pricing_urls or [""])[0]
        model = _model(asked, provider, snapshot)
        price, since = price_on(model, day)
        return CatalogueRow(
            backend=asked.backend,
            price=replace(
                as_price(price, asked.backend),
                service_tiers=tuple(service_tiers(model, price, day, asked.backend)),
            ),
            source=source,
            url=url,
            since="" if since is None else since.isoformat(),
        )
    except UnknownPrice as why:
        return CatalogueRow(backend=asked.backend, source=source, url=url, unknown=str(why))


def _provider(asked: Asked, snapshot: DataSnapshot) -> Provider:
    try:
        return snapshot.find_provider(None, None, asked.base_url)
    except LookupError:
        raise UnknownPrice("the catalogue knows no vendor at this address") from None


def _model(asked: Asked, provider: Provider, snapshot: DataSnapshot) -> ModelInfo:
    model = provider.find_model(asked.model, all_providers=snapshot.providers)
    if model is None:
        raise UnknownPrice("the catalogue does not know this model of the vendor")
    return model


def price_on(model: ModelInfo, day: date) -> tuple[ModelPrice, date | None]:
    """The model's price on a day, and since when it is valid if that is known.

    Raises UnknownPrice if the price depends on the time of day.
    """
    if isinstance(model.prices, ModelPrice):
        return model.prices, None
    for one in reversed(model.prices):
        match one.constraint:
            case TimeOfDateConstraint():
                raise UnknownPrice("its price depends on the time of day")
            case StartDateConstraint(start_date=start):
                if start <= day:
                    return one.prices, start
            case None:
                return one.prices, None
    raise UnknownPrice("its price begins on a later day")


def as_price(price: ModelPrice, backend: str) -> Price:
    """Convert a price. Raises UnknownPrice if it has units that our usage does not have."""
    kinds = {
        name: value
        for name, value in price.__dict__.items()
        if value is not None and name not in _TOOLS
    }
    strange = sorted(kinds.keys() - _RATES.keys())
    if strange:
        raise UnknownPrice(f"it is charged by {', '.join(strange)}")
    if "input_mtok" not in kinds:
        raise UnknownPrice("the catalogue has no price per token")
    starts = {
        tier.start
        for value in kinds.values()
        if isinstance(value, TieredPrices)
        for tier in value.tiers
    }
    tiers = tuple(
        msgspec.convert({**_rates(kinds, start), "above": start}, PriceTier)
        for start in sorted(starts)
    )
    return msgspec.convert({**_rates(kinds, None), "match": backend, "tiers": tiers}, Price)


def service_tiers(
    model: ModelInfo, standard: ModelPrice, day: date, backend: str
) -> Iterator[ServiceTierPrice]:
    """Yield the prices of the model's service tiers on a day, where they differ from the standard.

    A tier that is charged by units that our usage does not have is left out.
    """
    found: dict[str, ModelPrice] = {}
    for variant in model.price_variants or ():
        ((condition, name), *others) = variant.when.items()
        since = variant.constraint
        valid = since is None or (
            isinstance(since, StartDateConstraint) and since.start_date <= day
        )
        if others or condition not in _TIERS or name in found or not valid:
            continue
        changed = {key: one for key, one in variant.prices.__dict__.items() if one is not None}
        if changed:
            found[name] = ModelPrice(**{**standard.__dict__, **changed})
    for name, price in found.items():
        try:
            row = as_price(price, backend)
        except UnknownPrice:
            continue
        rates = {key: getattr(row, key) for key in (*_RATES.values(), "tiers")}
        yield ServiceTierPrice(name=name, **rates)


def _rates(kinds: dict[str, Decimal | TieredPrices], start: int | None) -> dict[str, float]:
    """The rates of the tier that begins at `start`; `None`: of short prompts.

    A model without a price for output, such as one for embeddings, has none.
    """
    rates = {_RATES[name]: float(_at(value, start)) for name, value in kinds.items()}
    return {"output": 0.0, **rates}


def _at(value: Decimal | TieredPrices, start: int | None) -> Decimal:
    if isinstance(value, Decimal):
        return value
    reached = [tier.price for tier in value.tiers if start is not None and tier.start <= start]
    return reached[-1] if reached else value.base


if __name__ == "__main__":
    main()
