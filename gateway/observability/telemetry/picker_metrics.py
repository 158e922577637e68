"""Gauges by which endpoint pickers compare servers, under the names of vLLM.

They are those that the Gateway API Inference Extension requires of a model server:
https://github.com/kubernetes-sigs/gateway-api-inference-extension/tree/main/docs/proposals/003-model-server-protocol
Label values are names of models, from the configuration.
"""

import time
from collections.abc import Container, Iterable, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.observability.telemetry.engine_reports import EngineReport
from strowger_gateway.local_engine.protocol.stats import Stats

MODEL = ("model_name",)
LORA = ("max_lora", "running_lora_adapters", "waiting_lora_adapters")


class PickerCollector(Collector):
    """Export `reports` and `config`, which the caller sets before each scrape.

    Only engines of this machine count: a picker chooses a machine, and other machines have
    gauges of their own. While none of them is up, there are no gauges, not zeros.
    """

    def __init__(self) -> None:
        self.reports: Sequence[EngineReport] = ()
        self.config = Config(providers=(), models=())

    def describe(self) -> Iterable[Metric]:
        """Return nothing, which turns off the registry's check for duplicate names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        here = [one for one in self.reports if one.up and not one.address]
        if not here:
            return
        waiting = GaugeMetricFamily(
            "vllm:num_requests_waiting", "Sequences in the queue of a local engine.", labels=MODEL
        )
        running = GaugeMetricFamily(
            "vllm:num_requests_running", "Sequences that a local engine generates.", labels=MODEL
        )
        used = GaugeMetricFamily(
            "vllm:kv_cache_usage_perc",
            "Share of the key/value cache's blocks that sequences use, 0 to 1.",
            labels=MODEL,
        )
        for model, engines in _by_model(here).items():
            waiting.add_metric([model], sum(one.waiting for one in engines))
            running.add_metric([model], sum(one.running for one in engines))
            used.add_metric([model], max(one.cache_used_share for one in engines))
        yield from (waiting, running, used)
        yield self._adapters({one.name for one in here})

    def _adapters(self, engines: Container[str]) -> Metric:
        info = GaugeMetricFamily(
            "vllm:lora_requests_info",
            "Unix time of the scrape; the labels list the LoRA adapters that requests can name.",
            labels=LORA,
        )
        names = adapters_served(self.config, engines)
        info.add_metric([str(len(names)), ",".join(names), ""], time.time())
        return info


def adapters_served(config: Config, engines: Container[str]) -> tuple[str, ...]:
    """Return the models that are LoRA adapters of these engines, sorted, by clients' names."""
    loras = {
        (provider.name, lora.name)
        for provider in config.providers
        if provider.engine is not None and provider.name in engines
        for lora in provider.engine.loras
    }
    return tuple(
        sorted(
            model.name
            for model in config.models
            if any((backend.provider, backend.model) in loras for backend in model.backends)
        )
    )


def _by_model(reports: Iterable[EngineReport]) -> dict[str, list[Stats]]:
    """Two engines may serve models of the same name, which are one series."""
    found: dict[str, list[Stats]] = {}
    for report in reports:
        for model, stats in report.models.items():
            found.setdefault(model, []).append(stats)
    return found
