"""The tool runner of OpenAI's Python SDK: python FILE URL MODEL TASK whole|stream."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import sys

import openai
from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner
from work import TOOLS, schema


def registered(tool) -> RegisteredFunction:
    declared = {
        "type": "function",
        "name": tool.__name__,
        "description": tool.__doc__,
        "parameters": schema(tool),
        "strict": True,
    }
    return RegisteredFunction(tool=declared, execute=lambda given: tool(**given))


def main(url: str, model: str, task: str, mode: str) -> None:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
    runner = ResponsesToolRunner(functions=[registered(one) for one in TOOLS])
    asked = {"model": model, "input": task, "store": False}
    print(runner.run(client, asked, stream=mode == "stream").output_text)


main(*sys.argv[1:])
