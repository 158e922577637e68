"""What endpoint pickers read: one series per model, of the engines of this machine only."""

from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from strowger_gateway.gateway.config.schema.config import (
    BackendRef,
    Config,
    Engine,
    EngineModel,
    Lora,
    Model,
)
from strowger_gateway.gateway.config.schema.config import Provider as ProviderConfig
from strowger_gateway.gateway.observability.telemetry.engine_reports import EngineReport
from strowger_gateway.gateway.observability.telemetry.picker_metrics import PickerCollector
from strowger_gateway.local_engine.protocol.stats import Stats
from tests.gateway.serving import serving
from tools.reference.http_api import MINIMAL

pytestmark = pytest.mark.anyio

Series = dict[str, list[tuple[dict[str, str], float]]]


def report(name: str, address: str = "", *, up: bool = True, **models: Stats) -> EngineReport:
    return EngineReport(
        name=name,
        up=up,
        state="ready",
        status="ready",
        pid=1,
        uptime_s=1,
        restarts=0,
        address=address,
        models=models,
    )


def scraped(config: Config, *reports: EngineReport) -> Series:
    registry, pickers = CollectorRegistry(), PickerCollector()
    registry.register(pickers)
    pickers.reports, pickers.config = reports, config
    text = generate_latest(registry).decode()
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def engine(name: str, *loras: str) -> ProviderConfig:
    return ProviderConfig(
        name=name,
        adapter="local",
        engine=Engine(
            models=(EngineModel(name="m", path="bundled:tiny-chat"),),
            loras=tuple(Lora(name=lora, path=f"./{lora}") for lora in loras),
        ),
    )


def model(name: str, provider: str, target: str) -> Model:
    return Model(name=name, backends=(BackendRef(provider=provider, model=target),))


NOTHING = Config(providers=(), models=())


def test_engines_with_a_model_of_the_same_name_are_one_series() -> None:
    found = scraped(
        NOTHING,
        report("a", m=Stats(waiting=2, running=3, blocks_total=4, blocks_free=3)),
        report("b", m=Stats(waiting=1, running=5, blocks_total=4, blocks_free=1), n=Stats()),
    )

    m, n = {"model_name": "m"}, {"model_name": "n"}
    assert found["vllm:num_requests_waiting"] == [(m, 3), (n, 0)]
    assert found["vllm:num_requests_running"] == [(m, 8), (n, 0)]
    assert found["vllm:kv_cache_usage_perc"] == [(m, 0.75), (n, 0)]


def test_engines_of_other_machines_and_those_that_are_down_have_no_gauges() -> None:
    elsewhere = report("pool@10.0.0.5:9000", "10.0.0.5:9000", m=Stats(running=9))

    assert scraped(NOTHING, elsewhere, report("a", up=False)) == {}
    both = scraped(NOTHING, elsewhere, report("a", m=Stats(running=1)))
    assert both["vllm:num_requests_running"] == [({"model_name": "m"}, 1)]


def test_adapters_are_listed_under_the_names_that_clients_ask_for() -> None:
    config = Config(
        providers=(engine("a", "sql", "unused"), engine("down", "late")),
        models=(
            model("to-sql", "a", "sql"),
            model("plain", "a", "m"),
            model("later", "down", "late"),
            model("a-second-name", "a", "sql"),
        ),
    )

    found = scraped(config, report("a", m=Stats()), report("down", up=False))

    ((labels, _),) = found["vllm:lora_requests_info"]
    assert labels == {
        "max_lora": "2",
        "running_lora_adapters": "a-second-name,to-sql",
        "waiting_lora_adapters": "",
    }


async def test_a_gateway_without_an_engine_has_no_gauges_of_engines(tmp_path: Path) -> None:
    async with serving(MINIMAL, tmp_path) as up, httpx.AsyncClient(timeout=60) as client:
        key = {"authorization": "Bearer the-key-of-the-operator"}
        text = (await client.get(f"{up.url}/metrics", headers=key)).text

    assert "strowger_in_flight_requests" in text
    assert "vllm:" not in text
