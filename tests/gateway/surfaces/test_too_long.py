"""Errors of a prompt that is too long, on every route."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

SAID = "You passed 9 tokens. However, the model's context length is only 8 tokens"
CALLS = {
    "/v1/chat/completions": ({"messages": [{"role": "user", "content": "hi"}]}, "messages"),
    "/v1/completions": ({"prompt": "hi"}, "prompt"),
    "/v1/embeddings": ({"input": "hi"}, "input"),
}


async def refuses(request: Received, answer: Answer) -> None:
    error = {"message": SAID, "type": "BadRequestError", "param": "input_text", "code": 400}
    await answer.json({"error": error}, 400)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", CALLS)
async def test_the_field_is_the_routes_own(path: str, stream: bool, tmp_path: Path) -> None:
    body, field = CALLS[path]
    if stream and "input" not in body:
        body = {**body, "stream": True}
    async with (
        provider(refuses) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answer = await client.post(path, json={"model": "chat", **body})
        (line,) = gateway.access_lines()

    error = answer.json()["error"]
    assert answer.status_code == 400
    assert (error["code"], error["param"]) == ("context_length_exceeded", field)
    assert error["message"].startswith("the prompt is too long: this model's maximum context")
    assert SAID in error["message"]
    assert (line.error, line.param) == ("context_length_exceeded", field)


async def test_a_rule_for_the_code_moves_a_prompt_that_any_vendor_finds_too_long(
    tmp_path: Path,
) -> None:
    more = "    fallback_by_error: [{codes: [context_length_exceeded], models: [long]}]\n"
    async with provider(refuses) as short, provider() as long:
        config = one_model(short.base_url, model_more="{more}").replace(
            "providers:",
            f"providers:\n  - {{name: other, adapter: openai, base_url: {long.base_url}}}",
        )
        model = "  - {name: long, backends: [{provider: other, model: m}]}"
        async with (
            serving(config.replace("{more}", more + model), tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
            answer = await client.post("/v1/chat/completions", json=body)

    assert answer.status_code == 200
    assert answer.headers["x-gateway-backend"] == "other/m"
