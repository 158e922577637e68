"""One vendor's fake on loopback, a gateway in front of it, and OpenAI's client in front of that."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import openai
from msgspec import Struct
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.chat import ChatCompletionToolParam as Tool

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Behaviour, Provider, provider

Json = dict[str, object]

HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hi"}
WEATHER: Tool = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """A server, the gateway in front of it, and a client of the gateway."""

    server: Provider
    gateway: Serving
    client: openai.AsyncOpenAI

    def sent(self) -> Json:
        """The last request that the server got."""
        return self.server.requests[-1].json


@asynccontextmanager
async def in_front_of(
    vendor: Behaviour, config: str, run_dir: Path
) -> AsyncGenerator[Setting, None]:
    """config: YAML with {url} for the server's origin."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(vendor))
        gateway = await stack.enter_async_context(
            serving(config.format(url=server.origin), run_dir)
        )
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        yield Setting(server=server, gateway=gateway, client=client)


def turn_of(message: ChatCompletionMessage) -> ChatCompletionMessageParam:
    """The message as a client hands it back that knows no vendor."""
    return cast("ChatCompletionMessageParam", message.model_dump(exclude_none=True))
