"""Published prices for the backends that the operator has not priced."""

import json
import random
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, StartDateConstraint
from genai_prices.types import Usage as TheirUsage
from msgspec.structs import replace

from gateway.cli.prices import ShownPrice
from gateway.cli.prices import prices as prices_command
from gateway.config.load import read_config
from gateway.config.schema.config import Config
from gateway.price_catalogue.lookup import with_catalogue
from gateway.price_catalogue.program import UnknownPrice, as_price, price_on, service_tiers
from gateway.processes.messages import WorkerInit, packed, to_worker
from gateway.routing.planning.prices import cost_of, nanos_of, price_of
from gateway.wiring.prices import prices_of
from schemas.errors import InvalidConfig
from schemas.events import Usage

CONFIG = """
providers:
  - {name: o, adapter: openai, api_key: k}
  - {name: g, adapter: gemini, api_key: k}
  - {name: d, adapter: openai, base_url: "https://api.deepseek.com/v1", api_key: k}
  - {name: mine, adapter: vllm, base_url: "http://127.0.0.1:9/v1"}
models:
  - {name: gpt, backends: [{provider: o, model: gpt-5}, {provider: o, model: whisper-1}]}
  - {name: gemini, backends: [{provider: g, model: gemini-2.5-pro}]}
  - {name: cheap, policy: lowest_cost, backends: [{provider: d, model: deepseek-chat}]}
  - {name: own, backends: [{provider: mine, model: tiny}, {provider: mine, model: other}]}
prices: {from: catalogue, rows: [{match: mine/t*, input: 0, output: 0}]}
"""


def read(text: str = CONFIG) -> Config:
    return read_config(text, source="config.yaml", env={})


@pytest.fixture(scope="module")
def config() -> Config:
    return with_catalogue(read(), source="config.yaml")


def test_backends_get_published_prices_and_long_prompts_theirs(config: Config) -> None:
    price = prices_of(config).of("g/gemini-2.5-pro")

    assert price is not None
    short = cost_of(Usage(prompt_tokens=200_000, completion_tokens=1_000), price)
    long = cost_of(Usage(prompt_tokens=200_001, completion_tokens=1_000), price)
    assert short == pytest.approx(0.2 * 1.25 + 0.001 * 10)
    assert long == pytest.approx(0.200001 * 2.5 + 0.001 * 15)


def test_the_operators_rows_win_wildcards_included() -> None:
    row = "{match: o/gpt-*, input: 7, output: 8}"
    text = CONFIG.replace("rows: [", f"rows: [{row}, ")

    price = prices_of(with_catalogue(read(text), source="")).of("o/gpt-5")

    assert price is not None
    assert cost_of(Usage(prompt_tokens=1_000_000, completion_tokens=0), price) == 7


def test_the_command_names_source_and_date_and_why_a_price_is_unknown(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    runner = CliRunner()

    told = runner.invoke(prices_command, ["--config", str(file), "--json"])
    table = runner.invoke(prices_command, ["gpt", "--config", str(file)])
    nothing = runner.invoke(prices_command, ["gtp", "--config", str(file)])

    shown = {one.backend: one for one in msgspec.json.decode(told.output, type=list[ShownPrice])}
    gpt = shown["o/gpt-5"]
    assert gpt.source.startswith("genai-prices 0.")
    assert gpt.url.startswith("https://")
    assert gpt.price is not None
    assert gpt.price.input == 1.25
    assert shown["mine/tiny"].source == "prices[0]"
    assert "audio_hours" in shown["o/whisper-1"].unknown
    assert "time of day" in shown["d/deepseek-chat"].unknown
    assert "no vendor at this address" in shown["mine/other"].unknown
    assert shown["mine/other"].price is None
    assert "1.25" in table.output
    assert "tiny" not in table.output
    assert nothing.exit_code == 1
    assert 'did you mean "gpt"?' in nothing.output


def test_workers_get_the_rows_with_the_configuration(config: Config) -> None:
    begin = WorkerInit(worker=0, config=config, engines=(), run_dir=b"")

    received = to_worker.decode(packed(begin))

    assert isinstance(received, WorkerInit)
    assert received.config.catalogue == config.catalogue


def test_a_missing_package_is_an_error_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)

    with pytest.raises(InvalidConfig) as caught:
        with_catalogue(read(), source="config.yaml")

    (problem,) = caught.value.problems
    assert "pip install 'strowger-gateway[catalogue]'" in problem


@pytest.mark.parametrize(
    ("prices", "told"),
    [
        ("{from: web}", 'prices.from: expected "catalogue", found "web"'),
        ("{rows: []}", 'prices.from: is missing; give "catalogue"'),
        ("{from: catalogue, row: []}", 'prices.row: unknown key; did you mean "rows"?'),
    ],
)
def test_another_source_is_refused(prices: str, told: str) -> None:
    text = CONFIG.partition("prices:")[0] + f"prices: {prices}\n"

    with pytest.raises(InvalidConfig) as caught:
        read(text)

    assert f"config.yaml: {told}" in caught.value.problems


def test_a_process_that_serves_never_loads_the_catalogue() -> None:
    code = (
        "import json, sys, gateway.cli.serve, gateway.runtime, gateway.processes.worker;"
        "print(json.dumps([name in sys.modules for name in ('genai_prices', 'pydantic')]))"
    )

    done = subprocess.run((sys.executable, "-c", code), capture_output=True, check=True)

    assert json.loads(done.stdout)[0] is False


def test_a_price_that_changes_on_a_date_is_the_price_of_that_day() -> None:
    seen = 0
    for _, model, starts in dated():
        for start in starts:
            for day in (start - timedelta(days=1), start):
                try:
                    price, since = price_on(model, day)
                except UnknownPrice:
                    continue
                seen += 1
                assert since is None or since <= day
                assert since is None or not any(since < other <= day for other in starts)
                assert isinstance(price, ModelPrice)
    assert seen > 100


def dated() -> list[tuple[str, ModelInfo, list[date]]]:
    """Every model with prices from a date on, and these dates."""
    found: list[tuple[str, ModelInfo, list[date]]] = []
    for vendor in get_snapshot().providers:
        for model in vendor.models:
            if isinstance(model.prices, list):
                rules = [one.constraint for one in model.prices]
                starts = [one.start_date for one in rules if isinstance(one, StartDateConstraint)]
                if starts:
                    found.append((vendor.id, model, starts))
    return found


def test_costs_are_those_that_the_catalogues_own_package_computes() -> None:
    """Random usages of every model that has a price in tokens."""
    draw, day, compared = random.Random(28), date(2026, 11, 24), 0
    for vendor in get_snapshot().providers:
        for model in vendor.models:
            try:
                theirs, _ = price_on(model, day)
                price = price_of(as_price(theirs, "a/m"))
            except UnknownPrice:
                continue
            for _ in range(3):
                usage = random_usage(draw)
                total = theirs.calc_price(their_usage(usage))["total_price"]
                expected = int((total * 10**9).quantize(Decimal(1), ROUND_HALF_UP))
                found = nanos_of(usage, price)
                # Some of their prices are binary fractions with 17 digits; ours have 12 decimals.
                assert found is not None
                assert abs(found - expected) <= 1, (vendor.id, model.id, usage)
                compared += 1
    assert compared > 3_000


def test_costs_in_service_tiers_are_those_that_the_catalogues_own_package_computes() -> None:
    draw, day, compared = random.Random(5), date(2026, 11, 24), set[str]()
    moment = datetime(2026, 11, 24, 12, tzinfo=UTC)
    for vendor in get_snapshot().providers:
        for model in vendor.models:
            try:
                standard, _ = price_on(model, day)
                tiers = tuple(service_tiers(model, standard, day, "a/m"))
                price = price_of(replace(as_price(standard, "a/m"), service_tiers=tiers))
            except UnknownPrice:
                continue
            for variant in model.price_variants or ():
                ((condition, name),) = variant.when.items()
                if condition not in ("service_tier", "processing", "speed"):
                    continue
                theirs = model.get_prices(moment, {condition: name})
                usage = random_usage(draw)
                total = theirs.calc_price(their_usage(usage))["total_price"]
                expected = int((total * 10**9).quantize(Decimal(1), ROUND_HALF_UP))
                found = nanos_of(usage, price.in_tier(name))
                assert found is not None
                assert abs(found - expected) <= 1, (vendor.id, model.id, name, usage)
                compared.add(name)
    assert compared >= {"priority", "flex", "fast", "batch", "default"}


def test_backends_get_the_published_prices_of_service_tiers(config: Config) -> None:
    price = prices_of(config).of("o/gpt-5")
    usage = Usage(prompt_tokens=1_000_000, completion_tokens=0)

    assert price is not None
    assert cost_of(usage, price) == 1.25
    assert cost_of(usage, price.in_tier("flex")) == 0.625
    assert cost_of(usage, price.in_tier("priority")) == 2.5
    assert price.in_tier("scale") is price


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
