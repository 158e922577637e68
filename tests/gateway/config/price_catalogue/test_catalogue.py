"""Published prices for the backends that the operator has not priced."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from strowger_gateway.gateway.assembly.wiring.prices import prices_of
from strowger_gateway.gateway.cli.prices import ShownPrice
from strowger_gateway.gateway.cli.prices import prices as prices_command
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.fleet.processes.messages import WorkerInit, packed, to_worker
from strowger_gateway.gateway.routing.planning.prices import cost_of
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.events import Usage

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
    return read()


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

    price = prices_of(read(text)).of("o/gpt-5")

    assert price is not None
    assert cost_of(Usage(prompt_tokens=1_000_000, completion_tokens=0), price) == 7


@pytest.mark.parametrize("own", ["", "prices: [{match: g/*, input: 1, output: 2}]\n"])
def test_published_prices_are_in_force_unless_they_are_turned_off(own: str) -> None:
    text = CONFIG.partition("prices:")[0].replace("policy: lowest_cost, ", "") + own

    config, off = read(text), read(f"{text}price_catalogue: false\n")

    assert prices_of(config).of("o/gpt-5") is not None
    assert (prices_of(config).of("g/gemini-2.5-pro") == prices_of(off).of("g/gemini-2.5-pro")) is (
        own != ""
    )
    assert off.catalogue == ()
    assert prices_of(off).of("o/gpt-5") is None


def test_the_catalogue_cannot_be_asked_for_and_turned_off() -> None:
    with pytest.raises(InvalidConfig, match=r"price_catalogue: is false, but prices\.from is cat"):
        read(f"{CONFIG}price_catalogue: false\n")


def test_a_gateway_of_backends_without_published_prices_says_nothing_of_costs() -> None:
    text = CONFIG.partition("models:")[0]
    text += "models: [{name: own, backends: [{provider: mine, model: tiny}]}]\n"

    found = prices_of(read(text))

    assert (found.any, found.priced) == (False, False)


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
    assert ", read on 2026-" in gpt.source
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

    assert any(one.endswith(f": {told}") for one in caught.value.problems)


def test_published_prices_need_no_package_that_the_table_was_made_from(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    code = (
        "import json, sys, strowger_gateway.gateway.cli.serve, "
        "strowger_gateway.gateway.assembly.runtime, "
        "strowger_gateway.gateway.fleet.processes.worker\n"
        "from pathlib import Path\n"
        "from strowger_gateway.gateway.config.load import load_config\n"
        "rows = load_config(Path(sys.argv[1]), {}).catalogue\n"
        "loaded = [name for name in ('genai_prices', 'pydantic') if name in sys.modules]\n"
        "print(json.dumps([len(rows), loaded]))"
    )

    done = subprocess.run((sys.executable, "-c", code, file), capture_output=True, check=True)

    assert json.loads(done.stdout) == [5, []]


def test_backends_get_the_published_prices_of_service_tiers(config: Config) -> None:
    price = prices_of(config).of("o/gpt-5")
    usage = Usage(prompt_tokens=1_000_000, completion_tokens=0)

    assert price is not None
    assert cost_of(usage, price) == 1.25
    assert cost_of(usage, price.in_tier("flex")) == 0.625
    assert cost_of(usage, price.in_tier("priority")) == 2.5
    assert price.in_tier("scale") is price
