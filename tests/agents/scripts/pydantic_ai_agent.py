"""pydantic-ai: python FILE URL MODEL TASK chat|responses|messages."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from work import TOOLS


def model_of(url: str, name: str, api: str):
    if api == "messages":
        return AnthropicModel(name, provider=AnthropicProvider(base_url=url, api_key="k"))
    model = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    return model(name, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="k"))


async def main(url: str, name: str, task: str, api: str) -> None:
    agent = Agent(model_of(url, name, api), tools=TOOLS)
    run = await agent.run(task, event_stream_handler=ignore)  # which makes it stream
    print(run.output)


async def ignore(_, events) -> None:
    async for _ in events:
        pass


asyncio.run(main(*sys.argv[1:]))
