"""Triton's client besides inference: list models, read their metadata, check readiness."""

# tritonclient annotates nothing:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import cast

import httpx
import pytest
from tritonclient.http import InferenceServerClient
from tritonclient.utils import InferenceServerException

from strowger_gateway.gateway.surfaces.kserve.parameter_tables import INPUTS, OUTPUTS
from tests.gateway.serving import Serving, serving
from tests.gateway.surfaces.kserve.triton import Answered, Refused, client, infer
from tests.gateway.surfaces.kserve.triton_requests import integer, tokens
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
auth:
  mode: keys
  keys: [{{name: a, key: key-a}}, {{name: b, key: key-b, models: [chat]}}]
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: k}}
models:
  - name: chat
    aliases: [talk]
    retry: {{attempts: 1}}
    breaker: {{failure_rate: 0.5, min_requests: 1}}
    backends: [{{provider: remote, model: m}}]
  - {{name: org/other, backends: [{{provider: remote, model: n}}]}}
"""
KEY_A = {"authorization": "Bearer key-a"}
KEY_B = {"authorization": "Bearer key-b"}


@pytest.fixture
async def remote() -> AsyncGenerator[Provider, None]:
    async with provider() as running:
        yield running


@pytest.fixture
async def gateway(remote: Provider, tmp_path: Path) -> AsyncGenerator[Serving, None]:
    async with serving(CONFIG.format(url=remote.base_url), tmp_path) as running:
        yield running


async def asked(gateway: Serving, question: Callable[[InferenceServerClient], object]) -> object:
    """Raises what the client raises."""

    def ask() -> object:
        with client(gateway.url) as asking:
            return question(asking)

    return await asyncio.to_thread(ask)


async def test_a_server_is_live_and_ready_and_shows_its_extensions(gateway: Serving) -> None:
    live = await asked(gateway, lambda c: c.is_server_live())
    ready = await asked(gateway, lambda c: c.is_server_ready())
    metadata = cast(Mapping[str, object], await asked(gateway, lambda c: c.get_server_metadata()))

    assert live is True
    assert ready is True
    assert metadata["name"] == "strowger"
    assert "binary_tensor_data" in cast("list[str]", metadata["extensions"])


async def test_a_draining_server_is_live_and_not_ready(gateway: Serving) -> None:
    gateway.state.admission.draining = True

    assert await asked(gateway, lambda c: c.is_server_live()) is True
    assert await asked(gateway, lambda c: c.is_server_ready()) is False


@pytest.mark.parametrize("version", ["", "1"])
async def test_a_models_metadata_lists_every_tensor(gateway: Serving, version: str) -> None:
    """With the datatypes and shapes of TensorRT-LLM's tables; -1 is any size."""
    found = cast(
        Mapping[str, object],
        await asked(gateway, lambda c: c.get_model_metadata("org/other", version, headers=KEY_A)),
    )

    inputs = {one["name"]: one for one in cast("list[Mapping[str, object]]", found["inputs"])}
    outputs = {one["name"]: one for one in cast("list[Mapping[str, object]]", found["outputs"])}
    assert (found["name"], found["versions"]) == ("org/other", ["1"])
    assert set(inputs) == {spec.name for spec in INPUTS}
    assert set(outputs) == {spec.name for spec in OUTPUTS}
    assert inputs["request_output_len"] == {
        "name": "request_output_len",
        "datatype": "INT32",
        "shape": [1, 1],
    }
    assert inputs["bad_words_list"]["shape"] == [1, 2, -1]
    assert outputs["generation_logits"]["shape"] == [1, -1, -1, -1]


async def test_a_models_configuration_shows_which_tensors_are_mandatory(gateway: Serving) -> None:
    found = cast(
        Mapping[str, object],
        await asked(gateway, lambda c: c.get_model_config("chat", headers=KEY_A)),
    )

    inputs = cast("list[Mapping[str, object]]", found["input"])
    needed = {one["name"] for one in inputs if not one.get("optional")}
    assert needed == {"request_output_len", "input_ids"}
    assert found["max_batch_size"] == 0


async def test_a_model_is_ready_unless_its_backends_cool_down(
    gateway: Serving, remote: Provider
) -> None:
    async def fails(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "no"}}, status=500)

    def ready(version: str) -> Callable[[InferenceServerClient], object]:
        return lambda c: c.is_model_ready("chat", version, headers=KEY_A)

    before = [await asked(gateway, ready(version)) for version in ("", "1", "2")]
    remote.behaviour = fails
    async with httpx.AsyncClient(base_url=gateway.url, headers=KEY_A, timeout=60) as ask:
        failed = await ask.post(
            "/v2/models/chat/generate", json={"text_input": "a", "max_tokens": 1}
        )
        why = await ask.get("/v2/models/chat/ready")
    index = await asked(gateway, lambda c: c.get_model_repository_index(headers=KEY_A))

    assert before == [True, True, False]
    assert failed.status_code == 502
    assert await asked(gateway, ready("")) is False
    assert why.status_code == 400
    assert why.json()["error"].startswith("model 'chat' is not ready: remote/m: ")
    states = [(one["name"], one["state"]) for one in cast("list[Mapping[str, str]]", index)]
    assert states == [("chat", "UNAVAILABLE"), ("org/other", "READY"), ("talk", "UNAVAILABLE")]


async def test_keys_see_what_is_theirs(gateway: Serving) -> None:
    index = await asked(gateway, lambda c: c.get_model_repository_index(headers=KEY_B))

    names = [one["name"] for one in cast("list[Mapping[str, str]]", index)]
    assert names == ["chat", "talk"]
    for model, headers, status in (
        ("chat", None, "401"),
        ("org/other", KEY_B, "404"),
        ("nothing", KEY_A, "404"),
    ):
        with pytest.raises(InferenceServerException) as caught:
            await asked(gateway, lambda c: c.get_model_metadata(model, headers=headers))  # noqa: B023  called at once
        assert caught.value.status() == status


async def test_inference_needs_a_key_that_may_use_the_model(gateway: Serving) -> None:
    every = {"input_ids": tokens([5]), "request_output_len": integer(1)}

    async def outcome(model: str, headers: Mapping[str, str] | None) -> Answered | Refused:
        try:
            return await asyncio.to_thread(infer, gateway.url, model, every, headers=headers)
        except Refused as exc:
            return exc

    found = [await outcome("chat", None), await outcome("org/other", KEY_B)]

    assert [one.status for one in found if isinstance(one, Refused)] == [401, 404]
    assert all(isinstance(one, Refused) and one.message for one in found)


async def test_everything_under_v2_wears_the_envelope(gateway: Serving) -> None:
    async with httpx.AsyncClient(base_url=gateway.url, headers=KEY_A, timeout=60) as ask:
        answers = [
            await ask.get("/v2/nowhere"),
            await ask.get("/v2/models/chat/versions/7"),
            await ask.get("/v2/models/chat/infer"),
            await ask.post("/v2/models/chat"),
            await ask.post("/v2/models/chat/infer", content=b"{", headers={"content-type": "x/y"}),
            await ask.post("/v2/models/chat/infer", content=b"{"),
            await ask.post("/v2/repository/index", json={"ready": 7}),
        ]

    assert [one.status_code for one in answers] == [404, 404, 405, 405, 415, 400, 400]
    assert all(list(one.json()) == ["error"] for one in answers)
