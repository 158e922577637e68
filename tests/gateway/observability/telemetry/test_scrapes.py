"""What a scrape has: formats, processes, whose time a request takes, and teams."""

import re
import shutil
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families as classic

from strowger_gateway.gateway.observability.tracing.part import TracingSide
from tests.gateway.commanded import Commanded
from tests.gateway.forked_commands import forked
from tests.gateway.observability.otlp.fake_collector import otlp_collector
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

openmetrics = cast(
    "Callable[[str], Iterator[Metric]]",
    parser.text_string_to_metric_families,  # pyright: ignore[reportUnknownMemberType]
)
OPERATOR = "Bearer key-of-the-operator"
ASK = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CONFIG = """
server: {{drain_delay_s: 0, workers: 2}}
store: {{spool: {spool}}}
teams: [{{name: red}}]
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys: [{{name: a, key: key-of-a-00000000, team: red}}, {{name: b, key: key-of-b-00000000}}]
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: sk-of-the-operator}}
models:
  - name: chat
    policy: in_order
    retry: {{attempts: 2, backoff_s: 0}}
    backends: [{{provider: remote, model: broken}}, {{provider: remote, model: m-1}}]
prices: [{{match: "remote/*", input: 1000000, output: 1000000}}]
"""


async def behave(request: Received, answer: Answer) -> None:
    if request.json["model"] == "broken":
        await answer.json({"error": {"message": "down"}}, 500)
    else:
        await answer.chat("hello")


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Commanded]:
    """Two workers. Key a, of a team, has sent two requests, key b one."""
    folder = tmp_path_factory.mktemp("run")
    async with provider(behave) as remote:
        text = CONFIG.format(url=remote.base_url, spool=folder / "spool")
        async with forked(folder / "config.yaml", text) as up:
            for key in "aab":
                async with up.client(authorization=f"Bearer key-of-{key}-00000000") as client:
                    answer = await client.post("/v1/chat/completions", json=ASK)
                    assert answer.status_code == 200, answer.text
            yield up


async def scraped(up: Commanded, accept: str = "") -> httpx.Response:
    async with up.client(authorization=OPERATOR) as client:
        return await client.get("/metrics", headers={"accept": accept} if accept else {})


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a name by the values of their labels, in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in classic(text)
        for sample in family.samples
        if sample.name == name
    }


async def test_the_formats_have_the_same_numbers_and_no_time_of_creation(up: Commanded) -> None:
    plain, new = await scraped(up), await scraped(up, ACCEPT)
    both: list[dict[tuple[str, str], float]] = []
    parsed: list[list[Metric]] = [list(classic(plain.text)), list(openmetrics(new.text))]
    for families in parsed:
        samples = [sample for family in families for sample in family.samples]
        both.append({
            (sample.name, str(sorted(sample.labels.items()))): sample.value
            for sample in samples
            if sample.name.startswith(("strowger_requests", "strowger_attempt", "strowger_team"))
        })  # fmt: skip

    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert new.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert new.text.endswith("# EOF\n")
    assert both[0] == both[1]
    assert len(both[0]) > 20
    assert "_created" not in plain.text
    assert "_created" not in new.text


async def test_every_process_shows_its_memory_files_and_time(up: Commanded) -> None:
    text = (await scraped(up)).text

    everyone = {("gateway",), ("leader",), ("worker 0",), ("worker 1",), ("importer",)}
    names = ("resident_memory_bytes", "open_fds", "max_fds", "start_time_seconds")
    for name in (*names, "cpu_seconds_total"):
        found = values(text, f"process_{name}")
        assert found.keys() == everyone - {("gateway",)}
        assert all(value > 0 for value in found.values()), name
    ((_, version),) = values(text, "strowger_build_info")
    assert re.fullmatch(r"\d+\..*|not installed", version)


async def test_a_spool_that_is_gone_is_shown_by_the_metrics_which_stay(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        text = CONFIG.format(url=remote.base_url, spool=tmp_path / "spool")
        async with forked(tmp_path / "config.yaml", text) as up:
            shutil.rmtree(tmp_path / "spool")
            (tmp_path / "spool").write_text("a file")
            async with up.client(authorization="Bearer key-of-a-00000000") as client:
                answer = await client.post("/v1/chat/completions", json=ASK)
            await up.said("cannot write records to the spool")
            scrape = await scraped(up)

    assert answer.status_code == 200
    assert scrape.status_code == 200, scrape.text
    assert values(scrape.text, "strowger_spool_available") == {(): 0}
    assert values(scrape.text, "strowger_spool_bytes") == {}


async def test_attempts_are_timed_by_backend_and_outcome(up: Commanded) -> None:
    text = (await scraped(up)).text

    counts = values(text, "strowger_attempt_duration_seconds_count")
    attempts = values(text, "strowger_attempts_total")
    assert counts == attempts
    assert counts["remote/broken", "upstream_failed"] == 3
    assert counts["remote/m-1", "ok"] == 3


async def test_a_request_is_its_attempts_and_what_the_gateway_adds(up: Commanded) -> None:
    text = (await scraped(up)).text
    (added,) = values(text, "strowger_gateway_overhead_seconds_sum").values()
    attempts = sum(values(text, "strowger_attempt_duration_seconds_sum").values())
    requests = sum(values(text, "strowger_request_seconds_sum").values())

    assert values(text, "strowger_gateway_overhead_seconds_count") == {("chat",): 3}
    assert added + attempts == pytest.approx(requests, abs=1e-4)
    assert 0 < added < requests


async def test_teams_have_their_requests_tokens_and_cost(up: Commanded) -> None:
    text = (await scraped(up)).text

    assert values(text, "strowger_team_requests_total") == {("chat", "answered", "red"): 2}
    tokens = values(text, "strowger_team_tokens_total")
    assert tokens.keys() == {("prompt", "chat", "red"), ("completion", "chat", "red")}
    assert values(text, "strowger_team_cost_usd_total") == {("chat", "red"): sum(tokens.values())}


async def test_a_bucket_names_a_trace_that_was_exported(tmp_path: Path) -> None:
    async with otlp_collector() as collector, provider() as remote:
        more = f'telemetry: {{otlp: {{endpoint: "{collector.origin}", sample: 1}}}}'
        async with serving(one_model(remote.base_url, more), tmp_path) as up:
            async with httpx.AsyncClient(base_url=up.url, timeout=60) as client:
                headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
                await client.post("/v1/chat/completions", json=ASK, headers=headers)
                new = (await client.get("/metrics", headers={"accept": ACCEPT})).text
                plain = (await client.get("/metrics")).text
            await up.state.side(TracingSide).close(20)

    named = {
        sample.name: (sample.exemplar.labels, sample.exemplar.value <= float(sample.labels["le"]))
        for family in openmetrics(new)
        for sample in family.samples
        if sample.exemplar is not None
    }
    names = ("strowger_request_seconds_bucket", "strowger_time_to_first_token_seconds_bucket")
    assert named == dict.fromkeys(names, ({"trace_id": TRACE}, True))
    assert "trace_id" not in plain
