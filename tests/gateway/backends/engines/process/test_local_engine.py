"""Two workers with one real engine process: metrics, crashes, restarts and replacement."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.commanded import Commanded, connected, pid_of
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import provider

pytest.importorskip("torch")

pytestmark = pytest.mark.anyio

CONFIG = """
server: {{workers: 2, drain_delay_s: 0, drain_timeout_s: 120}}
auth:
  mode: keys
  keys: [{{name: team-a, key: key-a}}, {{name: team-b, key: key-b}}]
  admin_key: key-of-the-operator
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: k}}
  - {{name: here, adapter: local, engine: {{
      threads: 1, reload: {reload}, models: [{{name: tiny, path: "bundled:{weights}"}}]}}}}
models:
  - {{name: alone, defaults: {{temperature: 0}}, backends: [{{provider: here, model: tiny}}]}}
  - name: both
    policy: in_order
    defaults: {{temperature: 0}}
    backends: [{{provider: here, model: tiny}}, {{provider: remote, model: m}}]
"""
Json = dict[str, object]
Gauges = dict[tuple[str, str], float]
"""By name and model."""
HELLO: Json = {"messages": [{"role": "user", "content": "What is 17 + 25?"}]}
TOO_MUCH: Json = {"messages": [{"role": "user", "content": "What is 123 + 9?"}]}
"""The weights that were trained longer answer that they only add numbers up to 99."""
LONG = {**HELLO, "ignore_eos": True, "max_tokens": 900}
SOON_S, START_S = 60.0, 240.0
RUNNING, WAITING, USED = (
    (f"vllm:{name}", "tiny")
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
)


class Rig:
    """The command, with two workers, an engine and a remote provider."""

    def __init__(self, up: Commanded, url: str) -> None:
        self.up = up
        self._url = url

    def text(self, weights: str = "tiny-chat", reload: str = "refuse") -> str:
        return CONFIG.format(url=self._url, weights=weights, reload=reload)

    def client(self, key: str = "key-a") -> httpx.AsyncClient:
        """A client of any worker."""
        return httpx.AsyncClient(base_url=self.up.url, headers=bearer(key), timeout=SOON_S)

    async def clients(self, stack: AsyncExitStack) -> list[httpx.AsyncClient]:
        """A client of each worker."""
        found = [await connected(self.up, stack, worker) for worker in (0, 1)]
        for client in found:
            client.headers.update(bearer("key-a"))
        return found

    async def engine(self) -> Json:
        """As the operator sees it; the numbers may be a second old."""
        async with self.client("key-of-the-operator") as operator:
            (view,) = (await operator.get("/admin/engines")).json()["engines"]
        return cast(Json, view)

    async def becomes(self, condition: Callable[[Json], bool]) -> Json:
        """Wait until this holds for the engine."""
        async with asyncio.timeout(START_S):
            while not condition(view := await self.engine()):  # noqa: ASYNC110  it reports only on request
                await asyncio.sleep(0.05)
        return view

    async def busy(self, answers: int) -> None:
        """Until so many requests are under way."""
        async with self.client("key-of-the-operator") as ask:
            while number((await ask.get("/metrics")).text, "strowger_in_flight_requests") < answers:  # noqa: ASYNC110  as above
                await asyncio.sleep(0.01)

    async def kill(self) -> None:
        """SIGKILL to the engine."""
        os.kill(cast(int, (await self.engine())["pid"]), signal.SIGKILL)


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    """One gateway for the whole file: an engine's start is the slow part."""
    folder: Path = tmp_path_factory.mktemp("run")
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        text = CONFIG.format(url=remote.base_url, weights="tiny-chat", reload="refuse")
        up = await stack.enter_async_context(forked(folder / "config.yaml", text))
        found = Rig(up, remote.base_url)
        await found.becomes(lambda view: view["state"] == "ready")
        yield found


class Stream:
    """A streamed chat. begun: its first frame is here. rest: all frames, when it has ended."""

    def __init__(self, ask: httpx.AsyncClient, body: Mapping[str, object]) -> None:
        self.begun = asyncio.Event()
        self.rest = asyncio.create_task(self._read(ask, body))

    async def _read(self, ask: httpx.AsyncClient, body: Mapping[str, object]) -> list[str]:
        frames: list[str] = []
        async with ask.stream("POST", "/v1/chat/completions", json=body) as answer:
            assert answer.status_code == 200
            async for line in answer.aiter_lines():
                if line:
                    frames.append(line)
                    self.begun.set()
        return frames


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_the_operator_sees_the_engine_and_what_its_models_do(rig: Rig) -> None:
    async with rig.client() as ask, rig.client("key-of-the-operator") as operator:
        await ask.post("/v1/chat/completions", json={**HELLO, "model": "alone"})
        await asyncio.sleep(1.1)
        (view,) = (await operator.get("/admin/engines")).json()["engines"]

    tiny = view["models"]["tiny"]
    assert (view["name"], view["up"], view["state"]) == ("here", True, "ready")
    assert b"local_engine" in await asyncio.to_thread(
        Path(f"/proc/{view['pid']}/cmdline").read_bytes
    )
    assert view["restarts"] == 0
    assert view["device"] == "cpu"
    assert any(line.startswith("here: ") for line in rig.up.lines), "what the engine says"
    assert rig.up.plain == [], "one format for all that is on stderr"
    assert view["dtype"] in ("float32", "bfloat16")
    assert view["resident_bytes"] > 50 << 20
    assert tiny["num_output_tokens"] > 0
    assert tiny["finished"]["eos_token"] > 0
    assert 0 < tiny["time_to_first_token"]["p50_s"] < SOON_S
    assert tiny["time_between_tokens"]["count"] > 0
    assert tiny["weights_bytes"] > 1 << 20
    assert abs(tiny["loaded_since"] - time.time()) < 600


async def test_metrics_show_what_the_models_do(rig: Rig) -> None:
    async with rig.client() as ask, rig.client("key-of-the-operator") as operator:
        await ask.post("/v1/chat/completions", json={**HELLO, "model": "alone"})
        await asyncio.sleep(1.1)
        text = (await operator.get("/metrics")).text

    of_model = '{engine="here",model="tiny"}'
    assert 'strowger_engine_up{engine="here"} 1.0' in text
    assert number(text, f"strowger_engine_output_tokens_total{of_model}") >= 8
    assert number(text, f"strowger_engine_first_token_seconds_count{of_model}") >= 1
    buckets = [line for line in text.splitlines() if "engine_step_seconds_bucket" in line]
    counts = [float(line.rpartition(" ")[2]) for line in buckets]
    assert counts == sorted(counts)
    assert counts[-1] == number(text, f"strowger_engine_step_seconds_count{of_model}")


async def test_endpoint_pickers_find_their_gauges_while_requests_run(rig: Rig) -> None:
    async with rig.client() as ask, rig.client("key-of-the-operator") as operator:
        seen = asyncio.Event()

        async def load() -> None:
            while not seen.is_set():
                await ask.post(
                    "/v1/chat/completions", json={**LONG, "model": "alone", "max_tokens": 300}
                )

        loads = [asyncio.create_task(load()) for _ in range(2)]
        busy = await gauges(operator, lambda one: one[RUNNING] > 0 and one[USED] > 0)
        seen.set()
        await asyncio.gather(*loads)
        idle = await gauges(operator, lambda one: one[RUNNING] == one[USED] == 0)

    ours = [f"strowger_engine_{one}" for one in ("running_sequences", "waiting_sequences")]
    assert 1 <= busy[RUNNING] <= 2
    assert [busy[RUNNING], busy[WAITING]] == [busy[(one, "tiny")] for one in ours]
    assert busy[USED] <= 1
    assert busy[USED] == busy[("strowger_engine_cache_used_ratio", "tiny")]
    assert idle[WAITING] == 0
    assert abs(idle[("vllm:lora_requests_info", "")] - time.time()) < 600


async def test_one_keys_prompts_are_reused_only_for_that_key(rig: Rig) -> None:
    text = "Tell me everything that there is to know about the number seventeen, please. " * 3
    body = {"model": "alone", "max_tokens": 4, "messages": [{"role": "user", "content": text}]}
    async with rig.client("key-a") as a, rig.client("key-b") as b:
        usages = [
            (await ask.post("/v1/chat/completions", json=body)).json()["usage"]
            for ask in (a, a, b, b)
        ]

    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    assert cached[0] == cached[2] == 0
    assert cached[1] == cached[3] > 0


async def test_workers_share_one_engine_which_survives_any_of_them(rig: Rig) -> None:
    body = {**LONG, "model": "alone", "stream": True, "max_tokens": 300}
    before = await rig.engine()
    async with AsyncExitStack() as stack:
        doomed, other = await rig.clients(stack)
        pid = pid_of(doomed)
        streams = [Stream(client, body) for client in (doomed, other)]
        for stream in streams:
            await stream.begun.wait()
        for of_a_terminal in (signal.SIGINT, signal.SIGHUP):  # it sends them to every process
            os.kill(cast(int, before["pid"]), of_a_terminal)
        since = len(rig.up.lines)
        os.kill(pid, signal.SIGKILL)
        await rig.up.said("worker 0 was killed by signal 9", since=since)
        with pytest.raises(httpx.TransportError):
            await streams[0].rest
        frames = await streams[1].rest
        served = [await chat(client, "alone") for client in await rig.clients(stack)]
        idle = await rig.becomes(lambda view: running(view) == 0)

    assert frames[-1] == "data: [DONE]"
    assert [said(one) for one in served] == ["17 + 25 = 42."] * 2
    assert (idle["pid"], idle["restarts"]) == (before["pid"], 0)


async def test_an_engine_that_would_change_needs_a_restart_unless_it_may_be_replaced(
    rig: Rig,
) -> None:
    since = len(rig.up.lines)
    rig.up.edit(rig.text(weights="tiny-chat-early"))
    rig.up.process.send_signal(signal.SIGHUP)
    told = await rig.up.said("rejected", since=since)

    assert "providers.here.engine: its settings" in told
    assert "needs a restart or `reload: replace`" in told


async def test_a_killed_engine_fails_its_requests_and_serves_again_after_its_restart(
    rig: Rig,
) -> None:
    """One crash for all of this, because a start takes seconds."""
    async with (
        rig.client() as ask,
        rig.client("key-of-the-operator") as operator,
        AsyncExitStack() as stack,
    ):

        def begin(
            model: str, stream: bool, body: Mapping[str, object]
        ) -> asyncio.Task[httpx.Response]:
            sent = {**body, "model": model, "stream": stream}
            return asyncio.create_task(ask.post("/v1/chat/completions", json=sent))

        whole = [begin("alone", False, LONG) for _ in range(4)]
        streams = [Stream(ask, {**LONG, "model": "alone", "stream": True}) for _ in range(4)]
        moving = begin("both", False, LONG)
        await rig.busy(9)
        for stream in streams:
            await stream.begun.wait()

        await rig.kill()
        lost = await asyncio.gather(*whole)
        cut = await asyncio.gather(*(stream.rest for stream in streams))
        moved = await moving
        refused = await begin("alone", False, HELLO)
        elsewhere = [await begin("both", stream, HELLO) for stream in (False, True)]
        await asyncio.sleep(1.1)
        metrics = await operator.get("/metrics")
        view = await rig.engine()
        await rig.becomes(lambda view: view["restarts"] == 1 and view["state"] == "ready")
        after = [
            await chat(client, model)
            for client in await rig.clients(stack)
            for model in ("alone", "both")
        ]

    assert [answer.status_code for answer in lost] == [502] * 4
    assert [error(answer.text)["code"] for answer in lost] == ["upstream_lost"] * 4
    assert [error(frames[-1])["code"] for frames in cut] == ["upstream_lost"] * 4
    assert not any("[DONE]" in frame for frames in cut for frame in frames)
    assert refused.status_code == 503
    assert error(refused.text)["code"] == "upstream_starting"
    assert int(refused.headers["retry-after"]) >= 1
    assert {one.headers["x-gateway-backend"] for one in (moved, *elsewhere)} == {"remote/m"}
    assert metrics.status_code == 200
    assert 'strowger_engine_up{engine="here"} 0.0' in metrics.text
    assert 'strowger_engine_restarts_total{engine="here"} 1.0' in metrics.text
    assert "vllm:" not in metrics.text, "a picker must not take an engine that is down for idle"
    assert (view["up"], view["state"], view["models"]) == (False, "restarting", {})
    assert [said(one) for one in after] == ["17 + 25 = 42."] * 4
    assert [one.headers["x-gateway-backend"] for one in after] == ["here/tiny"] * 4


async def test_a_replaced_engine_finishes_its_streams_and_then_the_new_one_serves(rig: Rig) -> None:
    before = await rig.engine()
    async with AsyncExitStack() as stack:
        clients = await rig.clients(stack)
        body = {**LONG, "model": "alone", "stream": True}
        streams = [Stream(client, body) for client in clients]
        for stream in streams:
            await stream.begun.wait()
        since = len(rig.up.lines)
        rig.up.edit(rig.text(weights="tiny-chat-early", reload="replace"))
        rig.up.process.send_signal(signal.SIGHUP)
        await rig.up.said("is in effect", since=since)
        running_still = [not stream.rest.done() for stream in streams]
        meanwhile = {
            model: [await chat(client, model) for client in await rig.clients(stack)]
            for model in ("alone", "both")
        }
        frames = [await stream.rest for stream in streams]
        view = await rig.becomes(
            lambda view: view["state"] == "ready" and view["pid"] != before["pid"]
        )
        after = [await chat(client, "alone", TOO_MUCH) for client in await rig.clients(stack)]

    assert running_still == [True, True]
    assert [one[-1] for one in frames] == ["data: [DONE]"] * 2
    assert {one.headers["x-gateway-backend"] for one in meanwhile["both"]} == {"remote/m"}
    assert {error(one.text)["code"] for one in meanwhile["alone"]} == {"upstream_starting"}
    assert view["restarts"] == 0
    assert [said(one).startswith("Sorry, I do not know") for one in after] == [True] * 2


async def test_an_engine_ends_with_its_killed_gateway(rig: Rig) -> None:
    """The last test of the file, because it kills the gateway of all."""
    engine = cast(int, (await rig.engine())["pid"])
    assert alive(engine)

    rig.up.process.kill()

    await rig.up.process.wait()
    async with asyncio.timeout(SOON_S):
        while alive(engine):  # noqa: ASYNC110  not a child process of the test
            await asyncio.sleep(0.05)


def alive(pid: int) -> bool:
    """A zombie process that is not waited for counts as ended."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


async def chat(client: httpx.AsyncClient, model: str, question: Json = HELLO) -> httpx.Response:
    return await client.post("/v1/chat/completions", json={**question, "model": model})


def said(answer: httpx.Response) -> str:
    return str(answer.json()["choices"][0]["message"]["content"])


def running(view: Json) -> int:
    models = cast("dict[str, dict[str, int]]", view["models"])
    return sum(model["running"] for model in models.values())


def error(text: str) -> dict[str, str]:
    """The error's envelope, from a body or a frame."""
    return cast(dict[str, str], json.loads(text.removeprefix("data: "))["error"])


def number(metrics: str, name: str) -> float:
    return next(
        float(line.removeprefix(name)) for line in metrics.splitlines() if line.startswith(name)
    )


async def gauges(operator: httpx.AsyncClient, condition: Callable[[Gauges], bool]) -> Gauges:
    """Scrape until this holds."""
    async with asyncio.timeout(START_S):
        while not condition(found := read((await operator.get("/metrics")).text)):  # noqa: ASYNC110  it reports only on request
            await asyncio.sleep(0.05)
    return found


def read(metrics: str) -> Gauges:
    """All gauges of a scrape."""
    return {
        (sample.name, sample.labels.get("model_name", sample.labels.get("model", ""))): sample.value
        for family in text_string_to_metric_families(metrics)
        if family.type == "gauge"
        for sample in family.samples
    }
