"""Token requests in experiments, as mirror copies, and with backends that support less."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide
from strowger_gateway.gateway.observability.telemetry.mirror_log_entry import MirrorLogEntry
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus
from tests.gateway.backends.end_to_end.mindie_backend import configured
from tests.gateway.experiments.recorded_gateway import stand
from tests.gateway.routing.failures.fault_tasks import FLAT, TASKS, TOKENS
from tests.gateway.serving import Serving, serving
from tests.stand_ins.mindie_server import MODEL, Answered, Hang, MindIEServer, mindie_server
from tests.stand_ins.provider import Answer, Received, provider
from tests.stand_ins.triton_server import TritonServer, triton_server

pytestmark = pytest.mark.anyio

Json = Mapping[str, object]
NOTHING: Json = {}
CONFIG = """
auth:
  mode: keys
  keys: [{{name: team-a, key: key-a}}, {{name: team-b, key: key-b}}]
providers:
  - {{name: npu, adapter: mindie, base_url: "{mindie}"}}
  - {{name: hasty, adapter: mindie, base_url: "{mindie}", timeouts: {{first_token_s: 0.3}}}}
  - {{name: trt, adapter: triton-tokens-decoupled, base_url: "{triton}"}}
models:
  - {{name: session, backends: &both [
      {{provider: npu, model: {name}}}, {{provider: trt, model: tensorrt_llm_streaming}}]}}
  - {{name: key, backends: *both}}
  - {{name: user, backends: *both}}
  - {{name: ordered, policy: in_order, backends: *both, retry: {{attempts: 2}}}}
  - {{name: strict, policy: in_order, backends: *both, retry: {{attempts: 2}}, require: true}}
  - {{name: hedged, policy: in_order, hedge_after_s: 0.05, backends: [
      {{provider: hasty, model: {name}}}, {{provider: trt, model: tensorrt_llm_streaming}}]}}
  - {{name: to-mindie, backends: [{{provider: trt, model: tensorrt_llm_streaming}}],
     mirror: {{backend: npu/{name}, share: 1}}}}
  - {{name: to-triton, backends: [{{provider: npu, model: {name}}}],
     mirror: {{backend: trt/tensorrt_llm_streaming, share: 1}}}}
experiments:
  - {{name: by-session, model: session, assign_by: "header:x-session-id", primary: latency_ms,
     variants: &arms [{{name: control, backend: npu/{name}, weight: 1}},
       {{name: treatment, backend: trt/tensorrt_llm_streaming, weight: 1,
         set: {{temperature: 0.25}}}}]}}
  - {{name: by-key, model: key, assign_by: api_key, primary: latency_ms, variants: *arms}}
  - {{name: by-user, model: user, assign_by: user, primary: latency_ms, variants: *arms}}
"""
SURFACES: Mapping[str, tuple[str, Json]] = {
    "infer_token": (TASKS["tokens"].path, TOKENS),
    "infer_token, streamed": (TASKS["tokens-stream"].path, {**TOKENS, "stream": True}),
    "generate": ("/v2/models/{model}/generate", {**FLAT, "stream": False}),
    "generate_stream": ("/v2/models/{model}/generate_stream", FLAT),
}
OWN = {"control": f"npu/{MODEL}", "treatment": "trt/tensorrt_llm_streaming"}
SESSIONS = [f"session-{number}" for number in range(12)]


class Between(Struct, frozen=True, kw_only=True, eq=False):
    gateway: Serving
    mindie: MindIEServer
    triton: TritonServer

    async def ask(
        self,
        model: str,
        surface: str,
        *,
        key: str = "key-a",
        session: str = "",
        more: Json = NOTHING,
    ) -> httpx.Response:
        path, body = SURFACES[surface]
        headers = {"authorization": f"Bearer {key}", "x-session-id": session}
        async with httpx.AsyncClient(base_url=self.gateway.url, timeout=60) as client:
            return await client.post(
                path.format(model=model), json={**body, **more}, headers=headers, timeout=60
            )

    async def copied(self, model: str, surface: str, more: Json = NOTHING) -> MirrorLogEntry:
        """What is said of the copy of a request that was answered."""
        answer = await self.ask(model, surface, more=more)
        assert answer.status_code == 200, answer.text
        await self.gateway.state.side(MirrorsSide).copies.wait_idle()
        return self.gateway.mirror_lines()[-1]

    async def metrics(self) -> str:
        return (await self.gateway.state.processes.metrics_text())[0].decode()


@pytest.fixture(scope="module")
async def between(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Between, None]:
    async with AsyncExitStack() as stack:
        mindie = await stack.enter_async_context(mindie_server())
        triton = await stack.enter_async_context(triton_server())
        config = CONFIG.format(mindie=mindie.base_url, triton=triton.base_url, name=MODEL)
        run_dir = tmp_path_factory.mktemp("run")
        gateway = await stack.enter_async_context(serving(config, run_dir))
        stand(gateway, ExperimentStatus(epoch=1))
        yield Between(gateway=gateway, mindie=mindie, triton=triton)


async def test_a_session_meets_one_variant_on_every_token_surface(between: Between) -> None:
    met: dict[str, set[str]] = {}
    for session in SESSIONS:
        for surface in SURFACES:
            answer = await between.ask("session", surface, session=session)
            variant = answer.headers["x-gateway-variant"]
            met.setdefault(session, set()).add(variant)
            line = between.gateway.access_lines()[-1]

            assert answer.headers["x-gateway-backend"] == OWN[variant]
            assert (line.experiment, line.variant) == ("by-session", variant)
            assert (line.task, line.status, line.error) == ("tokens", 200, "")

    assert all(len(variants) == 1 for variants in met.values())
    assert {variant for variants in met.values() for variant in variants} == set(OWN)


async def test_what_a_variant_sets_reaches_the_backend_of_tokens(between: Between) -> None:
    before = len(between.triton.inferences)
    for session in SESSIONS:
        await between.ask("session", "generate_stream", session=session, more={"runtime_top_k": 4})

    sent = [one.tensors["temperature"].items for one in between.triton.inferences[before:]]
    assert sent
    assert all(items == [0.25] for items in sent)


async def test_a_key_meets_one_variant_on_every_token_surface(between: Between) -> None:
    for key in ("key-a", "key-b"):
        found = [await between.ask("key", surface, key=key) for surface in SURFACES]

        variants = {answer.headers["x-gateway-variant"] for answer in found}
        backends = {answer.headers["x-gateway-backend"] for answer in found}
        assert len(variants) == 1
        assert backends == {OWN[variant] for variant in variants}


async def test_a_surface_without_a_user_gets_control_and_is_counted_as_excluded(
    between: Between,
) -> None:
    found = [await between.ask("user", surface) for surface in SURFACES]

    counted = 'strowger_experiment_requests_total{experiment="by-user",fallback="no",variant=""}'
    assert {answer.headers["x-gateway-backend"] for answer in found} == {OWN["control"]}
    assert not any("x-gateway-variant" in answer.headers for answer in found)
    assert f"{counted} {len(found)}.0" in await between.metrics()


@pytest.mark.parametrize("surface", SURFACES)
async def test_a_copy_of_tokens_is_compared_by_its_ids(between: Between, surface: str) -> None:
    line = await between.copied("to-triton", surface)

    assert (line.outcome, line.reason) == ("ok", "")
    assert line.compared is not None
    assert line.compared.same_tokens is False
    assert line.compared.same_text is None
    assert (line.completion_tokens or 0) > 0
    assert (line.mirror_completion_tokens or 0) > 0
    assert line.mirror_dropped == (("answer.text",) if surface.startswith("infer") else ())


async def test_what_a_mirror_cannot_express_is_not_sent_but_logged_and_counted(
    between: Between,
) -> None:
    asked = len(between.mindie.requests)

    line = await between.copied("to-mindie", "generate", {"presence_penalty": 0.5})

    labels = f'backend="npu/{MODEL}",model="to-mindie",outcome="unsupported"'
    assert (line.mirror, line.outcome) == (f"npu/{MODEL}", "unsupported")
    assert "presence_penalty" in line.reason
    assert line.compared is None
    assert len(between.mindie.requests) == asked
    assert f"strowger_mirror_copies_total{{{labels}}} 1.0" in await between.metrics()


async def test_one_that_lacks_what_is_optional_answers_when_the_better_one_is_down(
    between: Between,
) -> None:
    """MindIE has text for its tokens, a raw-tensor model has not."""
    between.mindie.faults += [Answered(500)] * 2
    strict = await between.ask("strict", "infer_token, streamed")
    between.mindie.faults += [Answered(500)]
    lesser = await between.ask("ordered", "infer_token, streamed")
    usual = await between.ask("ordered", "infer_token, streamed")

    assert strict.status_code == 502
    assert lesser.status_code == 200
    assert lesser.headers["x-gateway-backend"] == OWN["treatment"]
    assert lesser.headers["x-gateway-dropped-params"] == "answer.text"
    assert usual.headers["x-gateway-backend"] == OWN["control"]


async def test_only_a_failure_leads_to_an_answer_with_less_and_not_lateness(
    between: Between,
) -> None:
    between.mindie.faults += [Hang()]

    answer = await between.ask("hedged", "infer_token, streamed")

    line = between.gateway.access_lines()[-1]
    assert "x-gateway-hedged" not in answer.headers
    assert answer.headers["x-gateway-dropped-params"] == "answer.text"
    assert [one.outcome for one in line.attempts] == ["upstream_timeout", "ok"]


async def test_every_token_that_came_before_a_client_left_is_counted(tmp_path: Path) -> None:
    """Although several arrive together, and the backend sends no sum."""

    async def three_at_once(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        token = {"id": [11, 12, 13], "text": "hello"}
        await answer.event({"prefill_time": 1.5, "decode_time": None, "token": token})
        await answer.gone.wait()

    async with provider(three_at_once) as remote:
        async with serving(configured(remote.origin), tmp_path) as gateway:
            body = {**TOKENS, "stream": True}
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                async with client.stream("POST", "/infer_token", json=body) as answer:
                    assert answer.status_code == 200
            await remote.until(lambda: remote.hung_up == 1)
            while not (lines := gateway.access_lines()):  # noqa: ASYNC110  it is booked after the hang-up
                await asyncio.sleep(0.005)

    assert (lines[0].status, lines[0].usage_source) == (499, "estimated")
    assert lines[0].completion_tokens == 3
