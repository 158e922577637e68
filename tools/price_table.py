"""Write the table of published prices from the package genai-prices: `make prices`.

The package and pydantic take 34 MB of memory, so the gateway reads a table in their place. A price
that our usage cannot be charged by is unknown in it, with the reason.
"""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from typing import Final

import msgspec
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import (
    ClauseAnd,
    ClauseContains,
    ClauseEndsWith,
    ClauseEquals,
    ClauseOr,
    ClauseRegex,
    ClauseStartsWith,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    Provider,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

from strowger_gateway.gateway.config.price_catalogue.table import (
    FILE,
    DatedPrice,
    ListedModel,
    Match,
    read_price_table,
)

SOURCE: Final = "genai-prices"
_RATES: Final = {
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
_TIERS: Final = ("service_tier", "processing", "speed")
"""Their conditions of other prices whose value is the name of a service tier: that of OpenAI and
Google, `batch`, and Anthropic's `fast`."""
_TOOLS: Final = {"storage_searches_kcount", "social_searches_kcount"}
"""Prices of tools that no usage object counts; the price of the tokens is known without them."""

Fields = dict[str, object]
"""The fields of `Price` or of a part of it."""


class UnknownPrice(Exception):
    """Why our usage cannot be charged by a price."""


def price_table_text(made: date) -> str:
    """Return the file: one line per model, in the order in which the package tries them."""
    providers = get_snapshot().providers
    known = {one.id for one in providers}
    release = version(SOURCE)
    head = {
        "source": f"{SOURCE} {release}",
        "url": f"https://pypi.org/project/{SOURCE}/{release}/",
        "made": made.isoformat(),
    }
    vendors = ",\n".join(_vendor_text(one, known) for one in providers)
    return f'{_line(head)[:-1]}, "vendors": [\n{vendors}\n]}}\n'


def _vendor_text(provider: Provider, known: set[str]) -> str:
    fallbacks = [one for one in provider.fallback_model_providers or () if one in known]
    head = {
        "id": provider.id,
        "address": provider.api_pattern,
        "url": (provider.pricing_urls or [""])[0],
        "fallbacks": fallbacks,
    }
    models = ",\n".join(f"  {_line(msgspec.to_builtins(listed(one)))}" for one in provider.models)
    return f'{_line(head)[:-1]}, "models": [\n{models}\n]}}'


def _line(fields: object) -> str:
    return json.dumps(fields, ensure_ascii=False)


def listed(model: ModelInfo) -> ListedModel:
    """Convert a model, with a price for each time between two days on which one changes."""
    found: list[DatedPrice] = []
    for start in (None, *sorted(_starts(model))):
        dated = _dated(model, start)
        last = found[-1] if found else None
        if last is None or (last.since, last.price, last.unknown) != (
            dated.since,
            dated.price,
            dated.unknown,
        ):
            found.append(dated)
    return ListedModel(id=model.id, match=_match(model.match), prices=tuple(found))


def _starts(model: ModelInfo) -> set[date]:
    """The days on which a price of the model, or of a service tier, begins."""
    prices = () if isinstance(model.prices, ModelPrice) else model.prices
    constraints = [one.constraint for one in (*prices, *(model.price_variants or ()))]
    return {one.start_date for one in constraints if isinstance(one, StartDateConstraint)}


def _dated(model: ModelInfo, start: date | None) -> DatedPrice:
    day = date.min if start is None else start
    try:
        standard, since = _price_on(model, day)
        fields = _fields(standard)
        tiers = list(_service_tiers(model, standard, day))
    except UnknownPrice as why:
        return DatedPrice(start=start, unknown=str(why))
    if tiers:
        fields["service_tiers"] = tiers
    return DatedPrice(start=start, since=since, price=fields)


def _price_on(model: ModelInfo, day: date) -> tuple[ModelPrice, date | None]:
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


def _fields(price: ModelPrice) -> Fields:
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
    fields: Fields = {**_rates(kinds, None)}
    if starts:
        fields["tiers"] = [{**_rates(kinds, one), "above": one} for one in sorted(starts)]
    return fields


def _service_tiers(model: ModelInfo, standard: ModelPrice, day: date) -> Iterator[Fields]:
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
            yield {"name": name, **_fields(price)}
        except UnknownPrice:  # left out, as the docstring says
            continue


def _rates(kinds: dict[str, Decimal | TieredPrices], start: int | None) -> dict[str, int | float]:
    """The rates of the tier that begins at `start`; `None`: of short prompts.

    A model without a price for output, such as one for embeddings, has none.
    """
    found = {ours: _at(kinds[name], start) for name, ours in _RATES.items() if name in kinds}
    rates = {name: int(rate) if rate == int(rate) else float(rate) for name, rate in found.items()}
    return {"output": 0, **rates}


def _at(value: Decimal | TieredPrices, start: int | None) -> Decimal:
    if isinstance(value, Decimal):
        return value
    reached = [tier.price for tier in value.tiers if start is not None and tier.start <= start]
    return reached[-1] if reached else value.base


def _match(clause: MatchLogic) -> Match:
    match clause:
        case ClauseEquals(equals=text):
            return Match(equals=text.lower())
        case ClauseStartsWith(starts_with=text):
            return Match(starts_with=text.lower())
        case ClauseEndsWith(ends_with=text):
            return Match(ends_with=text.lower())
        case ClauseContains(contains=text):
            return Match(contains=text.lower())
        case ClauseRegex(regex=text):
            return Match(regex=text)
        case ClauseOr(or_=clauses):
            return Match(any_of=tuple(map(_match, clauses)))
        case ClauseAnd(and_=clauses):
            return Match(all_of=tuple(map(_match, clauses)))


def main() -> None:
    """Write the file, with today's date; leave a file with the same prices as it is."""
    if FILE.exists() and FILE.read_text("utf-8") == price_table_text(read_price_table().made):
        return
    FILE.write_text(price_table_text(datetime.now(UTC).date()), "utf-8")


if __name__ == "__main__":
    main()
