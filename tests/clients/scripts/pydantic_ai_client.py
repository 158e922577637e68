"""pydantic-ai's chat model against a gateway: python FILE URL. Prints what it saw as JSON."""

# pyright: basic, reportMissingImports=false

import asyncio
import json
import sys

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

QUESTION = "What is 17 + 25?"


async def main(url: str) -> None:
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="k")
    agent = Agent(OpenAIChatModel("tiny", provider=provider), model_settings={"temperature": 0.0})
    whole = await agent.run(QUESTION)
    async with agent.run_stream(QUESTION) as stream:
        streamed = [piece async for piece in stream.stream_text(delta=True)]
    seen = {
        "whole": [whole.output, *counts(whole)],
        "streamed": ["".join(streamed), *counts(stream)],
    }
    print(json.dumps(seen))


def counts(run) -> tuple:
    usage = run.usage
    return usage.input_tokens, usage.output_tokens


asyncio.run(main(sys.argv[1]))
