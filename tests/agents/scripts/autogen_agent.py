"""AutoGen: python FILE URL MODEL TASK whole|stream."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import asyncio
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelFamily
from autogen_ext.models.openai import OpenAIChatCompletionClient
from work import TOOLS

INFO = {
    "vision": True,
    "function_calling": True,
    "json_output": True,
    "structured_output": True,
    "family": ModelFamily.UNKNOWN,
}


async def main(url: str, name: str, task: str, mode: str) -> None:
    client = OpenAIChatCompletionClient(
        model=name, base_url=f"{url}/v1", api_key="k", model_info=INFO
    )
    agent = AssistantAgent(
        "clerk",
        model_client=client,
        tools=list(TOOLS),
        max_tool_iterations=10,
        model_client_stream=mode == "stream",
    )
    run = await agent.run(task=task)
    print(run.messages[-1].content)
    await client.close()


asyncio.run(main(*sys.argv[1:]))
