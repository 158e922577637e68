"""openai-agents: python FILE URL MODEL TASK responses|chat."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import asyncio
import sys

import openai
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from work import TOOLS

MODELS = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}


async def main(url: str, model: str, task: str, api: str) -> None:
    set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    agent = Agent(
        name="clerk",
        instructions="You keep prices.",
        model=MODELS[api](model=model, openai_client=client),
        tools=[function_tool(one) for one in TOOLS],
    )
    run = Runner.run_streamed(agent, task)
    async for _ in run.stream_events():
        pass
    print(run.final_output)


asyncio.run(main(*sys.argv[1:]))
