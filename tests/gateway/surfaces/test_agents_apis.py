"""What the gateway does for a chat it does for Messages and Responses: records, hedges, copies."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import msgspec
import pytest
from msgspec import Struct

from strowger_gateway.gateway.console.explain.explanation import Explanation
from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from tests.gateway.cli.command_line import run
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

CONFIG = """
server: {{max_in_flight: 100}}
auth: {{mode: keys, keys: [{{name: team-a, key: k1}}]}}
providers:
  - {{name: a, adapter: openai, base_url: "{url}", api_key: k}}
  - {{name: b, adapter: openai, base_url: "{url}", api_key: k}}
models:
  - {{name: plain, backends: [{{provider: a, model: fast}}]}}
  - {{name: hedged, policy: in_order, on_slow: keep, hedge_after_s: 0.05, deadline_s: 5,
     backends: [{{provider: a, model: never}}, {{provider: b, model: fast}}]}}
  - {{name: copied, backends: [{{provider: a, model: fast}}],
     mirror: {{backend: b/copy, share: 1}}}}
  - {{name: failing, policy: in_order, retry: {{backoff_s: 0, max_backoff_s: 0}},
     backends: [{{provider: a, model: error}}, {{provider: b, model: fast}}]}}
prices: [{{match: a/*, input: 1, output: 2}}, {{match: b/*, input: 10, output: 20}}]
"""
MESSAGES = ("/v1/messages", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 64})
RESPONSES = ("/v1/responses", {"input": "hi"})
EVERY_API = pytest.mark.parametrize(
    ("api", "surface"),
    [(MESSAGES, "anthropic"), (RESPONSES, "responses")],
    ids=["messages", "responses"],
)
EITHER_WAY = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
Api = tuple[str, Mapping[str, object]]


async def behave(request: Received, answer: Answer) -> None:
    model = request.json["model"]
    if model == "never":
        await answer.gone.wait()
    elif model == "error":
        await answer.json({"error": {"message": "boom"}}, 500)
    else:
        await answers(request, answer)


class Rig(Struct, frozen=True, kw_only=True, eq=False):
    gateway: Serving
    remote: Provider

    async def ask(self, model: str, api: Api, *, stream: bool) -> httpx.Response:
        path, body = api
        async with httpx.AsyncClient(base_url=self.gateway.url, timeout=60) as client:
            return await client.post(
                path,
                json={"model": model, "stream": stream, **body},
                headers={"authorization": "Bearer k1"},
            )


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider(behave))
        text = CONFIG.format(url=remote.base_url)
        gateway = await stack.enter_async_context(serving(text, tmp_path_factory.mktemp("run")))
        yield Rig(gateway=gateway, remote=remote)


@EVERY_API
@EITHER_WAY
async def test_a_request_is_recorded_with_its_key_tokens_and_cost(
    rig: Rig, api: Api, surface: str, stream: bool
) -> None:
    answer = await rig.ask("plain", api, stream=stream)

    line = rig.gateway.access_lines()[-1]
    assert answer.status_code == 200, answer.text
    assert (line.surface, line.task, line.key) == (surface, "chat", "team-a")
    assert (line.model, line.backend, line.stream) == ("plain", "a/fast", stream)
    assert (line.prompt_tokens or 0) > 0
    assert (line.completion_tokens or 0) > 0
    assert line.cost_usd == pytest.approx(
        ((line.prompt_tokens or 0) + 2 * (line.completion_tokens or 0)) / 1e6
    )
    assert line.ttft_ms is not None


@EVERY_API
@EITHER_WAY
async def test_a_late_backend_is_hedged(rig: Rig, api: Api, surface: str, stream: bool) -> None:
    answer = await rig.ask("hedged", api, stream=stream)

    line = rig.gateway.access_lines()[-1]
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-gateway-hedged"]
    assert (line.surface, line.backend) == (surface, "b/fast")
    assert [one.backend for one in line.attempts] == ["a/never", "b/fast"]


@EVERY_API
@EITHER_WAY
async def test_a_failure_before_the_first_content_is_answered_elsewhere(
    rig: Rig, api: Api, surface: str, stream: bool
) -> None:
    answer = await rig.ask("failing", api, stream=stream)

    line = rig.gateway.access_lines()[-1]
    assert answer.status_code == 200, answer.text
    assert (line.surface, line.backend, line.fallback) == (surface, "b/fast", False)
    outcomes = [one.outcome for one in line.attempts]
    assert (outcomes[0], outcomes[-1]) == ("upstream_failed", "ok")


@EVERY_API
@EITHER_WAY
async def test_a_copy_goes_out_and_is_compared(
    rig: Rig, api: Api, surface: str, stream: bool
) -> None:
    answer = await rig.ask("copied", api, stream=stream)
    await rig.gateway.state.side(MirrorsSide).copies.wait_idle()

    line, copy = rig.gateway.access_lines()[-1], rig.gateway.mirror_lines()[-1]
    assert answer.status_code == 200, answer.text
    assert copy.mirror_of == line.request_id
    assert (line.surface, copy.backend, copy.mirror, copy.outcome) == (
        surface,
        "a/fast",
        "b/copy",
        "ok",
    )
    assert rig.remote.requests[-1].json["model"] == "copy"
    assert copy.compared is not None


@EVERY_API
def test_explain_reads_a_body_of_each_api(tmp_path: Path, api: Api, surface: str) -> None:
    path, body = api
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(url="http://127.0.0.1:9"))

    result = run(
        *("explain", "-", "--config", str(config), "--surface", path, "--key", "team-a", "--json"),
        typed=json.dumps({"model": "hedged", **body}),
    )

    explanation = msgspec.json.decode(result.stdout, type=Explanation)
    assert result.exit_code == 0, result.output
    assert explanation.path == path
    assert [one.backend for one in explanation.candidates] == ["a/never", "b/fast"]
