"""The tool runner of Anthropic's Python SDK: python FILE URL MODEL TASK whole|stream."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import sys

import anthropic
from anthropic import beta_tool
from work import TOOLS


def main(url: str, model: str, task: str, mode: str) -> None:
    client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)
    runner = client.beta.messages.tool_runner(
        model=model,
        max_tokens=4000,
        tools=[beta_tool(one) for one in TOOLS],
        messages=[{"role": "user", "content": task}],
        stream=mode == "stream",
    )
    print(runner.until_done().content[-1].text)


main(*sys.argv[1:])
