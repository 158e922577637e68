"""A gateway in front of the models whose vendors differ in what they refuse, all on one server."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
from msgspec import Struct

from tests.gateway.serving import serving
from tests.oracle.fuzz.atoms import Json
from tests.stand_ins.provider import Answer, Provider, Received, provider

OPENAI: Final = "http://api.openai.com/v1"
"""Reached through the server as a proxy: adapters know OpenAI by its host."""

PATHS: Final = {
    "anthropic": "/anthropic",
    "vertex-anthropic": "/v1/projects/p/locations/global/publishers/anthropic",
    "bedrock": "",
    "gemini": "/v1beta",
    "cohere": "",
    "ollama": "",
    "azure": "/azure/openai?api-version=2024-10-21",
}
"""What follows the address of the server; /NAME/v1 for all others."""

MODELS: Final[Sequence[tuple[str, str]]] = (
    ("openai", "gpt-4.1"),
    ("openai", "gpt-5"),
    ("openai", "gpt-5.5"),
    ("openai", "gpt-5.6"),
    ("openai", "o3"),
    ("azure", "gpt-4.1"),
    ("azure", "gpt-5.5"),
    ("openai-responses", "gpt-4.1"),
    ("openai-responses", "gpt-5.5"),
    ("azure-responses", "gpt-5.5"),
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-opus-4-6"),
    ("anthropic", "claude-opus-4-8"),
    ("vertex-anthropic", "claude-opus-4-8"),
    ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "us.anthropic.claude-opus-4-8"),
    ("bedrock", "amazon.nova-pro-v1:0"),
    ("gemini", "gemini-2.5-flash"),
    ("gemini", "gemini-3-pro-preview"),
    ("mistral", "mistral-large-latest"),
    ("cohere", "command-a-03-2025"),
    ("deepseek", "deepseek-chat"),
    ("deepseek", "deepseek-v4"),
    ("moonshot", "kimi-k2.6"),
    ("dashscope", "qwen3.5-plus"),
    ("xai", "grok-4.3"),
    ("groq", "llama-3.3-70b-versatile"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("vllm", "m"),
    ("sglang", "m"),
    ("llama-cpp", "m"),
    ("lm-studio", "m"),
    ("tgi", "m"),
    ("ollama", "m"),
)
SURFACES: Final = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "ollama": "/api/chat",
}


class Targets(Struct, frozen=True, kw_only=True, eq=False):
    """The server that all requests reach, and a client of the gateway."""

    vendor: Provider
    client: httpx.AsyncClient

    async def ask(self, surface: str, adapter: str, model: str, body: Json) -> httpx.Response:
        """Send a request; its answer tells only what the gateway thought of it."""
        self.vendor.requests.clear()
        sent = {**body, "model": f"{adapter}+{model}"}
        return await self.client.post(SURFACES[surface], json=sent)


async def _is_enough(request: Received, answer: Answer) -> None:
    """A request that arrived was judged, and needs no answer."""
    await answer.json({"error": {"message": "judged", "type": "invalid_request_error"}}, 400)


def _config(origin: str) -> str:
    providers, models = "", ""
    for adapter in dict(MODELS):
        official = adapter in ("openai", "openai-responses")
        url = OPENAI if official else origin + PATHS.get(adapter, f"/{adapter}/v1")
        reached = f"base_url: '{url}', api_key: k" + (f", proxy: '{origin}'" if official else "")
        providers += f"  - {{name: {adapter}, adapter: {adapter}, {reached}}}\n"
    for adapter, model in MODELS:
        asked = f"backends: [{{provider: {adapter}, model: '{model}'}}], retry: {{attempts: 1}}"
        models += f"  - {{name: '{adapter}+{model}', {asked}}}\n"
    return f"providers:\n{providers}models:\n{models}"


@asynccontextmanager
async def all_targets(folder: Path) -> AsyncGenerator[Targets]:
    """Run the gateway and its server until the block ends."""
    async with provider(_is_enough) as vendor:
        async with (
            serving(_config(vendor.origin), folder) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            yield Targets(vendor=vendor, client=client)
