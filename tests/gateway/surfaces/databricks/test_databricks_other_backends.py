"""Databricks requests to other backends: a workspace, and dialects that lack some fields."""

from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.serving import one_model, serving
from tests.gateway.surfaces.databricks.databricks_seed import TABLES, sent
from tests.stand_ins.databricks_server import databricks_server
from tests.stand_ins.provider import USAGE, Answer, Received, provider

pytestmark = pytest.mark.anyio

WORKSPACE = """
providers:
  - {{name: remote, adapter: databricks, base_url: "{url}", api_key: {key}}}
models:
  - {{name: chat, backends: [{{provider: remote, model: m-1}}]}}
"""
HELLO = {"role": "user", "content": "hi"}


async def continues(request: Received, answer: Answer) -> None:
    """Echoes nothing, and answers each prompt by its length."""
    prompts = cast("str | list[str]", request.json["prompt"])
    texts = [prompts] if isinstance(prompts, str) else prompts
    choices = [
        {"index": place, "text": str(len(text)), "finish_reason": "stop", "logprobs": None}
        for place, text in enumerate(texts)
    ]
    body = {"id": "c", "object": "text_completion", "created": 1, "model": "m", "usage": USAGE}
    await answer.json({**body, "choices": choices})


async def invoke(url: str, **body: object) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        return await client.post("/serving-endpoints/chat/invocations", json=body)


@pytest.mark.parametrize("table", TABLES)
async def test_a_workspace_gets_every_field_of_the_seeds_tables_as_it_came(
    table: str, tmp_path: Path
) -> None:
    bodies = [sent(table, field, value) for field in TABLES[table] for value in field.accepted]
    async with databricks_server() as server:
        config = WORKSPACE.format(url=server.base_url, key=server.key)
        async with serving(config, tmp_path) as gateway:
            answers = [await invoke(gateway.url, **body) for body in bodies]

    assert [answer.status_code for answer in answers] == [200] * len(bodies)
    for body, request in zip(bodies, server.requests, strict=True):
        assert meant(request.json) == meant(body)


def meant(body: dict[str, object]) -> dict[str, object]:
    """Without what asks for nothing, and with one way to write a single stop string."""
    given = {name: value for name, value in body.items() if value not in (None, [], False)}
    if isinstance(given.get("stop"), str):
        given["stop"] = [given["stop"]]
    return given


async def test_a_chat_goes_on_as_the_client_wrote_it_and_nothing_is_added(tmp_path: Path) -> None:
    async with provider() as a, serving(one_model(a.base_url), tmp_path) as gateway:
        answer = await invoke(gateway.url, messages=[HELLO], max_tokens=None, top_k=None, stop=[])

    assert answer.json()["choices"][0]["message"]["content"] == "hello"
    assert answer.headers["served-model-name"] == "remote/m-1"
    assert a.requests[0].json == {"model": "m-1", "messages": [HELLO]}


async def test_a_prompt_is_sent_raw_if_there_is_no_template_and_the_client_sees_that(
    tmp_path: Path,
) -> None:
    async with provider(continues) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        answer = await invoke(gateway.url, prompt=["a", "bcd"], error_behavior="error", suffix="")

    assert [one["text"] for one in answer.json()["choices"]] == ["1", "3"]
    assert answer.headers["x-gateway-dropped-params"] == "template"
    assert a.requests[0].json == {"model": "m-1", "prompt": ["a", "bcd"]}


async def test_a_client_that_requires_a_template_is_refused_in_its_own_format(
    tmp_path: Path,
) -> None:
    async with provider(continues) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        wrapped = await invoke(gateway.url, prompt="a", use_raw_prompt=False)
        raw = await invoke(gateway.url, prompt="a", use_raw_prompt=True)
        cut = await invoke(gateway.url, prompt="a", use_raw_prompt=True, error_behavior="truncate")

    assert raw.status_code == 200
    assert "x-gateway-dropped-params" not in raw.headers
    for refused, word in ((wrapped, "use_raw_prompt"), (cut, "truncate")):
        assert refused.status_code == 400
        assert refused.json()["error_code"] == "BAD_REQUEST"
        assert word in refused.json()["message"] or "error_behavior" in refused.json()["message"]
    assert len(a.requests) == 1


async def test_a_suffix_is_written_by_the_gateway_where_the_backend_writes_none(
    tmp_path: Path,
) -> None:
    async with provider(continues) as a, serving(one_model(a.base_url), tmp_path) as gateway:
        answer = await invoke(gateway.url, prompt="a", use_raw_prompt=True, suffix="!")

    assert answer.json()["choices"][0]["text"] == "1!"
    assert a.requests[0].json == {"model": "m-1", "prompt": "a"}


async def test_fields_that_the_gateway_does_not_know_travel_on(tmp_path: Path) -> None:
    async with provider() as a, serving(one_model(a.base_url), tmp_path) as gateway:
        await invoke(gateway.url, messages=[HELLO], usage_context={"team": "a"})

    assert a.requests[0].json["usage_context"] == {"team": "a"}


async def test_thinking_handed_back_reaches_an_openai_dialect_as_its_own_field(
    tmp_path: Path,
) -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    said = {"role": "assistant", "content": [thought, {"type": "text", "text": "42"}]}
    async with provider() as a, serving(one_model(a.base_url), tmp_path) as gateway:
        answer = await invoke(gateway.url, messages=[HELLO, said, HELLO])

    sent = cast("list[dict[str, object]]", a.requests[0].json["messages"])[1]
    assert answer.status_code == 200
    assert sent["content"] == [{"type": "text", "text": "42"}]
    assert sent["reasoning_content"] == "hm"
