"""The table of published prices has what the package has from which it is made."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal

import msgspec
import pytest
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, StartDateConstraint
from genai_prices.types import Usage as TheirUsage

from strowger_gateway.gateway.config.price_catalogue.lookup import Catalogue
from strowger_gateway.gateway.config.price_catalogue.table import (
    FILE,
    DatedPrice,
    ListedModel,
    ListedModels,
    Match,
    read_price_table,
)
from strowger_gateway.gateway.config.schema.prices import Price
from strowger_gateway.gateway.routing.planning.prices import BackendPrice, nanos_of, price_of
from strowger_gateway.schemas.events import Usage
from tools.price_table import price_table_text

DAY = date(2026, 11, 24)


def test_the_file_is_what_make_prices_writes_from_the_locked_package() -> None:
    made = read_price_table().made

    assert FILE.read_text("utf-8") == price_table_text(made)
    assert date(2026, 11, 1) <= made <= datetime.now(UTC).date()


def test_a_name_means_the_model_that_the_package_finds_by_it() -> None:
    """Names of up to eight models of each vendor, and of the vendors whose models it offers."""
    table, providers = read_price_table(), get_snapshot().providers
    models, draw, compared = ListedModels(table), random.Random(7), 0

    for vendor, provider in zip(table.vendors, providers, strict=True):
        for owner in (vendor.id, *vendor.fallbacks):
            listed = models.of(owner)
            for name in names(draw.sample(listed, min(len(listed), 8))):
                found = models.find(vendor, name)
                expected = provider.find_model(name, all_providers=providers)
                assert (found and found.id) == (expected and expected.id), (vendor.id, name)
                compared += 1
    assert compared > 2_000


def names(listed: list[ListedModel]) -> Iterator[str]:
    for name in sorted({text for one in listed for text in (one.id, *texts(one.match))}):
        yield from (name, f"{name}-20260131", f"x{name}", f"{name.upper()}-2026-01-31")


def texts(match: Match) -> Iterator[str]:
    for text in (match.equals, match.starts_with, match.ends_with, match.contains):
        if text is not None:
            yield text
    for one in (*match.any_of, *match.all_of):
        yield from texts(one)


@pytest.mark.parametrize(
    "address",
    [
        "https://api.openai.com/v1",
        "https://api.anthropic.com",
        "https://eu.openai.azure.com/openai/v1",
        "https://generativelanguage.googleapis.com",
        "https://europe-west1-aiplatform.googleapis.com",
        "https://bedrock-runtime.eu-central-1.amazonaws.com",
        "https://api.mistral.ai/v1",
        "https://openrouter.ai/api/v1",
        "https://router.huggingface.co/groq/v1",
        "https://x.cloud.databricks.com/serving-endpoints",
        "https://api.groq.com/openai/v1",
        "http://api.openai.com/v1",
        "https://vllm.example/https://api.openai.com/v1",
        "",
    ],
)
def test_an_address_is_the_vendor_that_the_package_finds_at_it(address: str) -> None:
    try:
        expected = get_snapshot().find_provider(None, None, address).id
    except LookupError:
        expected = None

    vendor = read_price_table().vendor_at(address)

    assert (vendor and vendor.id) == expected


def test_a_price_that_changes_on_a_date_is_the_price_of_that_day() -> None:
    draw, compared = random.Random(3), 0
    for theirs, ours in models():
        for start in starts(theirs):
            for day in (start - timedelta(days=1), start):
                price = price_from(ours.price_on(day))
                if price is None:
                    continue
                since = ours.price_on(day).since
                assert since is None or since <= day
                usage = random_usage(draw)
                compare(theirs.get_prices(noon(day)), price, usage)
                compared += 1
    assert compared > 100


def starts(model: ModelInfo) -> list[date]:
    prices = () if isinstance(model.prices, ModelPrice) else model.prices
    rules = [one.constraint for one in (*prices, *(model.price_variants or ()))]
    return [one.start_date for one in rules if isinstance(one, StartDateConstraint)]


def test_costs_are_those_that_the_package_computes() -> None:
    """Random usages of every model that has a price in tokens."""
    draw, compared = random.Random(28), 0
    for theirs, ours in models():
        price = price_from(ours.price_on(DAY))
        if price is None:
            continue
        for _ in range(3):
            compare(theirs.get_prices(noon(DAY)), price, random_usage(draw))
            compared += 1
    assert compared > 3_000


def test_costs_in_service_tiers_are_those_that_the_package_computes() -> None:
    draw, compared = random.Random(5), set[str]()
    for theirs, ours in models():
        price = price_from(ours.price_on(DAY))
        if price is None:
            continue
        for variant in theirs.price_variants or ():
            ((condition, name),) = variant.when.items()
            if condition in ("service_tier", "processing", "speed"):
                prices = theirs.get_prices(noon(DAY), {condition: name})
                compare(prices, price.in_tier(name), random_usage(draw))
                compared.add(name)
    assert compared >= {"priority", "flex", "fast", "batch", "default"}


def test_prices_by_the_time_of_day_or_by_other_units_are_unknown_with_the_reason() -> None:
    reasons = {one.unknown for _, ours in models() for one in ours.prices if one.price is None}

    assert "its price depends on the time of day" in reasons
    assert "the catalogue has no price per token" in reasons
    assert any(reason.startswith("it is charged by ") for reason in reasons)
    assert "" not in reasons


def test_a_price_that_begins_on_a_day_is_found_with_that_day() -> None:
    table = read_price_table()
    (vendor,) = (one for one in table.vendors if one.id == "openai")
    listed = next(
        one
        for one in ListedModels(table).of("openai")
        if len(one.prices) > 1 and one.prices[-1].since is not None
    )
    last = listed.prices[-1]
    assert last.start is not None
    assert last.since is not None

    row = Catalogue(last.start).row("o/m", "https://api.openai.com/v1", listed.id)

    assert row.since == last.since.isoformat()
    assert row.url == vendor.url
    assert row.price is not None
    assert row.price.match == "o/m"


def models() -> Iterator[tuple[ModelInfo, ListedModel]]:
    """Every model of the package, with its row."""
    table = read_price_table()
    for vendor, provider in zip(table.vendors, get_snapshot().providers, strict=True):
        yield from zip(provider.models, ListedModels(table).of(vendor.id), strict=True)


def price_from(dated: DatedPrice) -> BackendPrice | None:
    if dated.price is None:
        return None
    return price_of(msgspec.convert({**dated.price, "match": "a/m"}, Price))


def noon(day: date) -> datetime:
    return datetime.combine(day, time(12), UTC)


def compare(theirs: ModelPrice, price: BackendPrice, usage: Usage) -> None:
    total = theirs.calc_price(their_usage(usage))["total_price"]
    expected = int((total * 10**9).quantize(Decimal(1), ROUND_HALF_UP))
    found = nanos_of(usage, price)
    # Some of their prices are binary fractions with 17 digits; ours have 12 decimals.
    assert found is not None
    assert abs(found - expected) <= 1, (price.row, usage)


def random_usage(draw: random.Random) -> Usage:
    prompt = draw.choice((0, 1, 999, 128_000, 200_000, 200_001, 272_001, draw.randrange(1_000_000)))
    cached = draw.randrange(prompt // 2 + 1)
    written = draw.randrange(prompt // 2 + 1)
    answer = draw.randrange(70_000)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=answer,
        cached_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=draw.randrange(written + 1),
        reasoning_tokens=draw.randrange(answer + 1),
    )


def their_usage(usage: Usage) -> TheirUsage:
    return TheirUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_reasoning_tokens=usage.reasoning_tokens,
    )
