"""What Ollama's clients learn about models, and about the server, before they chat."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import httpx
import ollama
import pytest
from msgspec import Struct

from tests.gateway.surfaces.ollama.vendors import client_of, vendors

pytestmark = pytest.mark.anyio

SETTINGS = """
capabilities:
  - {match: claude/*, context: 200000, input: [text, image], tools: true, reasoning: true}
auth:
  mode: keys
  keys:
    - {name: all, key: key-of-all-000000}
    - {name: one, key: key-of-one-000000, models: [gpt]}
"""


class Rig(Struct, frozen=True, kw_only=True, eq=False):
    """every, one: Ollama's own client, with each key."""

    web: httpx.AsyncClient
    every: Any
    one: Any


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig, None]:
    async with (
        vendors(tmp_path_factory.mktemp("run"), SETTINGS) as at,
        httpx.AsyncClient(base_url=at.gateway.url, timeout=60) as web,
        client_of(at.gateway.url, authorization="Bearer key-of-all-000000") as every,
        client_of(at.gateway.url, authorization="Bearer key-of-one-000000") as one,
    ):
        yield Rig(web=web, every=every, one=one)


async def test_a_key_sees_the_models_that_it_may_use(rig: Rig) -> None:
    every = await rig.every.list()
    few = await rig.one.list()
    running = await rig.one.ps()

    names = [one.model for one in every.models]
    assert names == ["gpt", "claude", "box:latest", "open", "nomic-embed-text"]
    assert [one.model for one in few.models] == ["gpt"]
    assert [one.model for one in running.models] == ["gpt"]
    assert every.models[0].modified_at is not None
    assert len({one.digest for one in every.models}) == len(names)
    assert (await rig.web.get("/api/tags")).status_code == 401


async def test_a_model_shows_what_it_can_do(rig: Rig) -> None:
    claude = await rig.every.show("claude:latest")
    embeds = await rig.every.show("nomic-embed-text")
    box = await rig.every.show("box")

    assert claude.capabilities == ["completion", "tools", "vision", "thinking"]
    assert claude.modelinfo["general.architecture"] == "strowger"
    assert claude.modelinfo["strowger.context_length"] == 200_000
    assert embeds.capabilities == ["embedding"]
    assert box.capabilities == ["completion", "tools", "insert"]
    with pytest.raises(ollama.ResponseError, match="model 'claude' not found") as hidden:
        await rig.one.show("claude")
    assert hidden.value.status_code == 404


async def test_a_pull_of_a_served_model_succeeds_and_of_another_is_not_found(
    rig: Rig,
) -> None:
    steps = [one.status async for one in await rig.every.pull("gpt", stream=True)]
    whole = await rig.every.pull("box")

    assert steps == ["pulling manifest", "success"]
    assert whole.status == "success"
    with pytest.raises(ollama.ResponseError, match="model 'llama3' not found"):
        await rig.every.pull("llama3")


async def test_what_manages_models_is_refused_by_name(rig: Rig) -> None:
    for method, path in (
        ("POST", "/api/push"),
        ("POST", "/api/create"),
        ("POST", "/api/copy"),
        ("DELETE", "/api/delete"),
        ("POST", "/api/blobs/sha256:0"),
    ):
        answer = await rig.web.request(method, path, json={"model": "gpt"})
        told = cast("dict[str, str]", answer.json())
        assert answer.status_code == 404
        assert "Ollama's management of models is not served here" in told["error"]


async def test_the_version_and_the_root_are_as_clients_look_for_them(
    rig: Rig,
) -> None:
    version = await rig.web.get("/api/version")
    ours = await rig.web.get("/")
    theirs = await rig.web.get("/", headers={"user-agent": "ollama-python/0.6.3 (x86_64 linux)"})
    plain = await rig.web.get("/", headers={"accept": "text/plain"})
    head = await rig.web.head("/")

    assert [int(one) for one in version.json()["version"].split(".")] >= [0, 6, 4]
    assert ours.json()["models"] == "/v1/models"
    assert theirs.text == plain.text == "Ollama is running"
    assert head.status_code == 200
