"""Anthropic's own client in front of the gateway, and a stand-in of a provider behind it."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import anthropic
from anthropic.types import MessageParam, ToolParam
from msgspec import Struct

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Behaviour, Provider, provider

Json = dict[str, object]

HELLO: MessageParam = {"role": "user", "content": "hi"}
WEATHER: ToolParam = {
    "name": "weather",
    "description": "The weather at a place.",
    "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}},
}

BEHIND_CLAUDE = """
providers:
  - name: claude
    adapter: anthropic
    base_url: {url}
    api_key: sk-ant-fake-0123456789
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: claude, model: claude-opus-4-6}}]
"""


class ClaudeSetting(Struct, frozen=True, kw_only=True, eq=False):
    """A server, the gateway in front of it, and Anthropic's client of the gateway."""

    server: Provider
    gateway: Serving
    client: anthropic.AsyncAnthropic

    def sent(self) -> Json:
        """The last request that the server got."""
        return self.server.requests[-1].json


@asynccontextmanager
async def claude_in_front_of(
    vendor: Behaviour, config: str, run_dir: Path
) -> AsyncGenerator[ClaudeSetting, None]:
    """config: YAML with {url} for the server's origin."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(vendor))
        gateway = await stack.enter_async_context(
            serving(config.format(url=server.origin), run_dir)
        )
        client = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        yield ClaudeSetting(server=server, gateway=gateway, client=client)


def returned(message: anthropic.types.Message) -> MessageParam:
    """The answer as a client returns it in the next turn."""
    content = message.model_dump(exclude_none=True, exclude_unset=True)["content"]
    return cast("MessageParam", {"role": "assistant", "content": content})
