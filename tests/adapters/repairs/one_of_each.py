"""A gateway whose model NAME goes to one stand-in server by the adapter NAME.

A backend's own model name is chosen by the request: a model `NAME/MODEL` is a wildcard.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from msgspec import Struct

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

Json = dict[str, object]

PATHS: Mapping[str, str] = {
    "anthropic": "",
    "bedrock": "",
    "cohere": "",
    "deepseek": "/deepseek",
    "gemini": "/v1beta",
    "mindie": "/mindie",
    "ollama": "",
    "tgi": "/tgi",
    "databricks": "/serving-endpoints",
    "vertex-anthropic": "/v1/projects/p/locations/global/publishers/anthropic",
}
"""What follows the address in `base_url`; `/NAME/v1` for all others, by which tests/oracle tells
vendors of one dialect apart."""

MODELS: Mapping[str, str] = {
    "anthropic": "claude-opus-4-5",
    "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "gemini": "gemini-3.5-flash",
    "openai": "gpt-4.1",
    "openai-responses": "gpt-4.1",
    "vertex-anthropic": "claude-opus-4-5",
}
USER: Json = {"role": "user", "content": "hi"}


class Rig(Struct, frozen=True, kw_only=True, eq=False):
    """The running gateway, the stand-in for all vendors, and a client of the gateway."""

    gateway: Serving
    vendor: Provider
    client: httpx.AsyncClient

    async def chat(self, model: str, **body: object) -> httpx.Response:
        """Send a chat completion. messages: by default one of the user."""
        return await self._post(
            "/v1/chat/completions", {"messages": [USER], "model": model, **body}
        )

    async def messages(self, model: str, **body: object) -> httpx.Response:
        """Send a request of the Messages API."""
        given: Json = {"messages": [USER], "max_tokens": 2048, "model": model, **body}
        return await self._post("/v1/messages", given)

    async def responses(self, model: str, **body: object) -> httpx.Response:
        """Send a request of the Responses API."""
        return await self._post("/v1/responses", {"input": "hi", "model": model, **body})

    async def _post(self, path: str, body: Json) -> httpx.Response:
        headers = {"authorization": f"Bearer {body.pop('key', 'key-of-team-a-0123456789')}"}
        return await self.client.post(path, json=body, headers=headers)

    @property
    def sent(self) -> Json:
        """The last body that a vendor received."""
        return self.vendor.requests[-1].json


def repairs(answer: httpx.Response) -> list[str]:
    """Return what `x-gateway-repairs` names."""
    return [one for one in answer.headers.get("x-gateway-repairs", "").split(", ") if one]


def dropped(answer: httpx.Response) -> list[str]:
    """Return what `x-gateway-dropped-params` names."""
    return [one for one in answer.headers.get("x-gateway-dropped-params", "").split(", ") if one]


def config(origin: str, *adapters: str, more: str = "", **keys: str) -> str:
    """Return a configuration with a provider and two models per adapter.

    keys: settings of a provider, by adapter. more: settings of every model.
    """
    providers, models = "", ""
    for name in adapters:
        url = f"{origin}{PATHS.get(name, f'/{name}/v1')}"
        extra = keys.get(name.replace("-", "_"), "")
        providers += (
            f"  - {{name: {name}, adapter: {name}, base_url: '{url}', api_key: k{extra}}}\n"
        )
        for public, own in ((name, MODELS.get(name, "m")), (f"{name}/*", "*")):
            models += (
                f"  - {{name: '{public}', backends: [{{provider: {name}, model: '{own}'}}], "
                f"retry: {{attempts: 1}}{more}}}\n"
            )
    return (
        f"providers:\n{providers}models:\n{models}"
        "auth:\n  mode: keys\n  keys:\n"
        "    - {name: team-a, key: key-of-team-a-0123456789}\n"
        "    - {name: team-b, key: key-of-team-b-0123456789}\n"
    )


@asynccontextmanager
async def one_of_each(
    tmp_path: Path, *adapters: str, more: str = "", top: str = "", **keys: str
) -> AsyncGenerator[Rig]:
    """Run a gateway with these adapters; see `config`. top: more of the configuration."""
    async with provider(_answers) as vendor:
        text = config(vendor.origin, *adapters, more=more, **keys) + top
        async with (
            serving(text, tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            yield Rig(gateway=gateway, vendor=vendor, client=client)


async def _answers(request: Received, answer: Answer) -> None:
    """Answer in the vendor's format, which the path tells."""
    path, text = request.path.partition("?")[0], "ok"
    if path.endswith(("/messages", ":rawPredict")):
        usage = {"input_tokens": 1, "output_tokens": 1}
        block = {"type": "text", "text": text}
        await answer.json(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude",
                "content": [block],
                "stop_reason": "end_turn",
                "usage": usage,
            }
        )
    elif path.endswith("/converse"):
        counts = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        message = {"role": "assistant", "content": [{"text": text}]}
        await answer.json(
            {"output": {"message": message}, "stopReason": "end_turn", "usage": counts}
        )
    elif path.endswith(":generateContent"):
        content = {"role": "model", "parts": [{"text": text}]}
        await answer.json({"candidates": [{"content": content, "finishReason": "STOP"}]})
    elif path.endswith("/responses"):
        said: Json = {"type": "output_text", "text": text, "annotations": []}
        item: Json = {"type": "message", "id": "msg_1", "role": "assistant", "content": [said]}
        await answer.json(
            {
                "id": "resp_1",
                "object": "response",
                "created_at": 1,
                "model": "gpt",
                "status": "completed",
                "output": [{**item, "status": "completed"}],
                "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
            }
        )
    elif path.endswith("/api/chat"):
        message = {"role": "assistant", "content": text}
        await answer.json({"model": "m", "message": message, "done": True, "done_reason": "stop"})
    elif path.endswith("/v2/chat"):
        message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        await answer.json({"id": "1", "finish_reason": "COMPLETE", "message": message})
    else:
        await answers(request, answer)
