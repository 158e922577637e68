"""LangChain: python FILE URL MODEL TASK chat|responses|messages. JOB: in the environment."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import base64
import os
import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from work import TOOLS

SEARCHES = {
    "messages": {"type": "web_search_20250305", "name": "web_search"},
    "responses": {"type": "web_search"},
}


def model_of(url: str, name: str, api: str):
    if api == "messages":
        return ChatAnthropic(model=name, base_url=url, api_key="k")
    return ChatOpenAI(
        model=name, base_url=f"{url}/v1", api_key="k", use_responses_api=api == "responses"
    )


def content(task: str) -> list:
    text = {"type": "text", "text": task}
    if os.environ["JOB"] != "pdf":
        return [text]
    data = base64.b64encode(Path("prices.pdf").read_bytes()).decode()
    return [text, {"type": "file", "base64": data, "mime_type": "application/pdf"}]


def main(url: str, name: str, task: str, api: str) -> None:
    tools = [tool(one) for one in TOOLS]
    tools += [SEARCHES[api]] if os.environ["JOB"] == "search" else []
    agent = create_agent(model_of(url, name, api), tools=tools)
    asked = {"messages": [{"role": "user", "content": content(task)}]}
    *_, last = agent.stream(asked, stream_mode="values")
    print(last["messages"][-1].text)


main(*sys.argv[1:])
