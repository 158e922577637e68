"""What each server of the Responses API needs, drops, refuses and reports differently.

https://learn.microsoft.com/en-us/azure/ai-foundry/openai/how-to/responses
https://openrouter.ai/docs/api_reference/responses/error-handling
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
https://lmstudio.ai/docs/developer/openai-compat/responses
https://docs.ollama.com/api/openai-compatibility
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest
from msgspec import Struct

from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]

KEY = "sk-secret-of-the-operator"
HI: Json = {"role": "user", "content": "hi"}
PICTURE = "data:image/png;base64,iVBORw0KGgo="
CLOCK: Json = {"name": "clock", "parameters": {"type": "object", "properties": {}}}
ANSWER: Json = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
}


async def says(request: Received, answer: Answer) -> None:
    await answer.json(ANSWER)


def failing(status: int, body: Json) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.json(body, status)

    return behave


class Backend(Struct, frozen=True, kw_only=True):
    gateway: Serving
    server: Provider

    async def chat(self, **body: object) -> httpx.Response:
        return await self._post("/v1/chat/completions", {"messages": [HI], **body})

    async def responses(self, **body: object) -> httpx.Response:
        return await self._post("/v1/responses", {"input": "hi", **body})

    async def _post(self, path: str, body: Json) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.gateway.url, timeout=60) as client:
            return await client.post(path, json={"model": "chat", **body})

    @property
    def received(self) -> Received:
        return self.server.requests[-1]


@asynccontextmanager
async def backend(
    adapter: str,
    tmp_path: Path,
    behave: Behaviour = says,
    *,
    address: str = "/v1",
    key: bool = True,
    drops: bool = False,
) -> AsyncGenerator[Backend, None]:
    more = "    on_unsupported: drop" if drops else ""
    async with provider(behave) as server:
        config = one_model(f"{server.origin}{address}", model_more=more)
        config = config.replace("adapter: openai", f"adapter: {adapter}")
        if not key:
            config = config.replace(f"    api_key: {KEY}\n", "")
        async with serving(config, tmp_path) as gateway:
            yield Backend(gateway=gateway, server=server)


def dropped(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    named = answer.headers.get("x-gateway-dropped-params", "")
    return sorted(named.split(", ")) if named else []


def error(answer: httpx.Response) -> Json:
    return cast("Json", answer.json()["error"])


async def test_azure_gets_its_key_header_its_version_and_the_deployments_name(
    tmp_path: Path,
) -> None:
    address = "/openai/v1?api-version=preview"
    async with backend("azure-responses", tmp_path, address=address) as azure:
        answer = await azure.chat()
        sent = azure.received

    assert answer.status_code == 200, answer.text
    assert sent.path == "/openai/v1/responses?api-version=preview"
    assert sent.headers["api-key"] == KEY
    assert "authorization" not in sent.headers
    assert sent.json["model"] == "m-1"
    assert sent.json["store"] is False


async def test_azure_gets_at_least_16_tokens(tmp_path: Path) -> None:
    async with backend("azure-responses", tmp_path) as azure:
        few = await azure.responses(max_output_tokens=15)
        limits = [sent.json["max_output_tokens"] for sent in azure.server.requests]

    assert few.status_code == 200, few.text
    assert limits == [16]


async def test_azures_content_filter_is_the_clients_error_and_a_lost_deployment_is_not(
    tmp_path: Path,
) -> None:
    filtered: Json = {
        "message": "The response was filtered due to the prompt.",
        "type": None,
        "param": "prompt",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }
    absent: Json = {
        "code": "DeploymentNotFound",
        "message": "The API deployment for this resource does not exist.",
    }
    async with (
        backend("azure-responses", tmp_path, failing(400, {"error": filtered})) as strict,
        backend("azure-responses", tmp_path, failing(404, {"error": absent})) as without,
    ):
        refused = await strict.responses()
        lost = await without.responses()

    assert (refused.status_code, error(refused)["code"]) == (400, "content_filter")
    assert (lost.status_code, error(lost)["code"]) == (400, "upstream_model_unknown")
    assert "The API deployment" in str(error(lost)["message"])


async def test_openrouter_gets_openais_own_tools_but_no_choice_of_models(
    tmp_path: Path,
) -> None:
    search: Json = {"type": "web_search"}
    async with backend("openrouter-responses", tmp_path, address="/api/v1") as openrouter:
        answer = await openrouter.responses(tools=[search])
        sent = openrouter.received
        routed = await openrouter.responses(models=["other/model"])
        calls = len(openrouter.server.requests)

    assert answer.status_code == 200, answer.text
    assert sent.path == "/api/v1/responses"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json["tools"] == [search]
    assert (routed.status_code, error(routed)["param"]) == (400, "models")
    assert calls == 1


async def test_openrouter_gets_no_field_that_only_openai_has(tmp_path: Path) -> None:
    async with backend("openrouter-responses", tmp_path, drops=True) as openrouter:
        answer = await openrouter.responses(
            prompt_cache_options={"x": 1}, moderation={"model": "m"}, prompt_cache_key="k"
        )
        sent = openrouter.received.json

    assert "prompt_cache_options" not in sent
    assert "moderation" not in sent
    assert {"moderation", "prompt_cache_options"} <= set(dropped(answer))


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (400, "invalid_prompt", (400, "invalid_prompt")),
        (402, 402, (400, "upstream_refused")),
        (429, "rate_limit_exceeded", (429, "rate_limit_exceeded")),
        (503, "server_error", (503, "upstream_overloaded")),
    ],
)
async def test_openrouters_errors_have_only_a_code_and_a_message(
    tmp_path: Path, status: int, code: object, told: tuple[int, str]
) -> None:
    body: Json = {"error": {"code": code, "message": "It says why."}, "metadata": None}
    async with backend("openrouter-responses", tmp_path, failing(status, body)) as openrouter:
        answer = await openrouter.responses()

    assert (answer.status_code, error(answer)["code"]) == told
    assert "It says why." in str(error(answer)["message"]) or status in (402, 429)


async def test_vllm_gets_its_sampling_and_its_priorities(tmp_path: Path) -> None:
    async with backend("vllm-responses", tmp_path) as vllm:
        answer = await vllm.chat(
            stop=["END"], top_k=7, seed=5, ignore_eos=True, repetition_penalty=1.1, priority=2
        )
        sent = vllm.received.json

    assert dropped(answer) == []
    assert (sent["stop"], sent["top_k"], sent["seed"]) == (["END"], 7, 5)
    assert (sent["ignore_eos"], sent["repetition_penalty"]) == (True, 1.1)
    assert sent["priority"] == -3


async def test_vllm_gets_custom_tools_as_functions_and_reasoning_as_text(tmp_path: Path) -> None:
    thought: Json = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    async with backend("vllm-responses", tmp_path) as vllm:
        answer = await vllm.responses(
            input=[HI, thought, {"role": "assistant", "content": "Hello."}, HI],
            tools=[{"type": "custom", "name": "shell"}],
            user="u-1",
        )
        sent = vllm.received.json
        hosted = await vllm.responses(tools=[{"type": "web_search"}])
        answered_without = vllm.received.json
        own = await vllm.responses(tools=[{"type": "local_shell"}])

    items = cast("list[Json]", sent["input"])
    tools = cast("list[Json]", sent["tools"])
    assert dropped(answer) == ["user"]
    assert [(one["type"], one["name"]) for one in tools] == [("function", "shell")]
    assert items[1]["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert dropped(hosted) == ["tools[].web_search"]
    assert "tools" not in answered_without
    assert (own.status_code, error(own)["param"]) == (400, "tools.opaque")


async def test_vllms_errors_have_a_number_as_code_and_the_class_as_type(tmp_path: Path) -> None:
    wrong: Json = {
        "message": "top_p must be in (0, 1].",
        "type": "BadRequestError",
        "param": "top_p",
        "code": 400,
    }
    absent = {**wrong, "message": "The model `m-1` does not exist.", "type": "NotFoundError"}
    async with (
        backend("vllm-responses", tmp_path, failing(400, {"error": wrong})) as strict,
        backend(
            "vllm-responses",
            tmp_path,
            failing(404, {"error": {**absent, "param": "model", "code": 404}}),
        ) as without,
    ):
        refused = await strict.chat()
        lost = await without.chat()

    assert (refused.status_code, error(refused)["param"]) == (400, "top_p")
    assert (lost.status_code, error(lost)["code"]) == (424, "upstream_model_unknown")


async def test_lm_studio_needs_no_key_and_gets_text_only_with_a_format(tmp_path: Path) -> None:
    schema: Json = {"type": "object", "properties": {}}
    form: Json = {"type": "json_schema", "name": "x", "schema": schema}
    async with backend("lm-studio-responses", tmp_path, key=False) as studio:
        answer = await studio.responses(text={"verbosity": "low"}, metadata={"a": "b"}, user="u-1")
        without = studio.received
        formatted = await studio.responses(text={"format": form, "verbosity": "low"})
        sent = studio.received.json

    assert "authorization" not in without.headers
    assert not {"text", "metadata", "user", "verbosity"} & without.json.keys()
    assert {"text.verbosity", "user"} <= set(dropped(answer))
    assert dropped(formatted) == ["text.verbosity"]
    assert sent["text"] == {"format": form}


async def test_lm_studio_has_only_schemas_and_names_the_field_at_fault(tmp_path: Path) -> None:
    missing: Json = {
        "message": "Required",
        "type": "invalid_request_error",
        "param": "text.format",
        "code": "missing_required_parameter",
    }
    async with backend("lm-studio-responses", tmp_path, failing(400, {"error": missing})) as studio:
        told = await studio.responses()
        await studio.responses(text={"format": {"type": "json_object"}})
        loose = studio.server.requests[-1].json

    assert (told.status_code, error(told)["code"]) == (400, "missing_required_parameter")
    assert error(told)["param"] == "text.format"
    assert "text" not in loose


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}
                        ],
                    }
                ]
            },
            "messages[0].content[0].image_url.url",
        ),
    ],
)
async def test_ollama_refuses_what_it_would_ignore(tmp_path: Path, body: Json, named: str) -> None:
    async with backend("ollama-responses", tmp_path) as ollama:
        answer = await ollama.chat(**body)
        calls = len(ollama.server.requests)

    assert (answer.status_code, error(answer)["param"]) == (400, named)
    assert calls == 0


async def test_ollama_reads_reasoning_in_encrypted_content_and_images_as_data(
    tmp_path: Path,
) -> None:
    thought: Json = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    image: Json = {"type": "input_image", "image_url": PICTURE}
    async with backend("ollama-responses", tmp_path, key=False) as ollama:
        answer = await ollama.responses(
            input=[
                {"role": "user", "content": [image]},
                thought,
                {"role": "assistant", "content": "Hello."},
                HI,
            ]
        )
        items = cast("list[Json]", ollama.received.json["input"])

    assert dropped(answer) == []
    assert items[0]["content"] == [{**image, "detail": "auto"}]
    assert items[1]["encrypted_content"] == "Hm."
    assert "content" not in items[1]


async def test_ollamas_model_that_nobody_pulled_is_the_operators_matter(tmp_path: Path) -> None:
    absent: Json = {
        "message": 'model "m-1" not found, try pulling it first',
        "type": "not_found_error",
        "param": None,
        "code": None,
    }
    async with backend("ollama-responses", tmp_path, failing(404, {"error": absent})) as ollama:
        answer = await ollama.chat()

    assert (answer.status_code, error(answer)["code"]) == (424, "upstream_model_unknown")
    assert "try pulling it first" in str(error(answer)["message"])
