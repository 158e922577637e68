"""A model that cannot be served: `check` says why, its engine fails for good, and others serve."""

import asyncio
import re
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from strowger_gateway.gateway.cli.main import strowger
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import provider

pytest.importorskip("torch")

from tests.local_engine.loading.broken_checkpoints import (
    SINGLE,
    config,
    copied,
    cut,
    described,
    more_tokens,
)
from tests.local_engine.tiny import save_model

pytestmark = pytest.mark.anyio

CONFIG = """
server: {{drain_delay_s: 0}}
auth: {{admin_key: key-of-the-operator}}
providers:
  - {{name: remote, adapter: openai, base_url: {url}, api_key: k}}
  - {{name: cut, adapter: local, engine: {{threads: 1, models: [{{name: a, path: {folder}/cut}}]}}}}
  - {{name: crashing, adapter: local, engine: {{
      threads: 1, models: [{{name: c, path: {folder}/crashing}}]}}}}
models:
  - name: m
    policy: in_order
    backends:
      - {{provider: cut, model: a}}
      - {{provider: remote, model: m}}
  - {{name: crashes, backends: [{{provider: crashing, model: c}}]}}
"""
START_S = 240.0
SAID = {
    "cut": rf"failed: the model at \S+/cut cannot be loaded: {SINGLE} is cut off: ",
    "crashing": r"failed: c: the model at \S+/crashing cannot be served: \w+Error: ",
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("whole"))


async def test_an_engine_of_an_unusable_model_fails_for_good_and_the_others_serve(
    whole: Path, tmp_path: Path
) -> None:
    cut(SINGLE, 0.5)(copied(whole, tmp_path / "cut"))
    config(rope_parameters={"rope_type": "yarn"})(copied(whole, tmp_path / "crashing"))
    async with provider() as remote:
        text = CONFIG.format(url=remote.base_url, folder=tmp_path)
        async with (
            forked(tmp_path / "config.yaml", text, until="crashing is failed") as up,
            httpx.AsyncClient(base_url=up.url, timeout=START_S) as client,
        ):
            ready = await client.get("/readyz")
            await asyncio.sleep(1.0)  # twice the pause before a first restart
            later = await client.get("/readyz")
            bearer = {"authorization": "Bearer key-of-the-operator"}
            views = (await client.get("/admin/engines", headers=bearer)).json()["engines"]
            asked = {"messages": [{"role": "user", "content": "hi"}]}
            answer = await client.post("/v1/chat/completions", json={"model": "m", **asked})
            refused = await client.post("/v1/chat/completions", json={"model": "crashes", **asked})

    assert ready.status_code == 503
    assert later.json() == ready.json()
    for name, message in SAID.items():
        assert re.match(message, ready.json()["engines"][name])
    states = [(view["state"], view["restarts"], view["pid"]) for view in views]
    assert states == [("failed", 0, None)] * 2
    assert answer.headers["x-gateway-backend"] == "remote/m"
    assert refused.status_code == 503
    assert str(tmp_path) not in refused.text


ENGINE = """
providers: [{{name: here, adapter: local, engine: {{models: [
  {{name: one, path: {folder}/one}}, {{name: two, path: {folder}/two}}]}}}}]
models: [{{name: m, backends: [{{provider: here, model: one}}]}}]
"""


def checked(folder: Path) -> tuple[int, str]:
    file = folder / "config.yaml"
    file.write_text(ENGINE.format(folder=folder))
    result = CliRunner().invoke(strowger, ["check", str(file)])
    return result.exit_code, result.output


def test_check_names_every_model_that_its_files_show_to_be_unusable(
    whole: Path, tmp_path: Path
) -> None:
    cut(SINGLE, 0.5)(copied(whole, tmp_path / "one"))
    described(copied(whole, tmp_path / "two"))

    status, said = checked(tmp_path)

    assert status == 1
    assert f"providers 'here': engine model 'one': the model at {tmp_path}/one" in said
    assert f"{SINGLE} is cut off" in said
    assert "engine model 'two'" in said
    assert "its weights are quantized (msmodelslim W8A8_DYNAMIC" in said


def test_check_notes_a_context_that_is_cut(whole: Path, tmp_path: Path) -> None:
    rope = {"rope_type": "longrope", "original_max_position_embeddings": 64}
    config(rope_parameters=rope)(copied(whole, tmp_path / "one"))
    more_tokens("<extra>")(copied(whole, tmp_path / "two"))

    status, said = checked(tmp_path)

    assert status == 0
    assert "providers 'here': engine model 'one': its context is 64 tokens and not 256" in said
    assert "engine model 'two'" not in said
