"""Automatic function calling of Google's Python SDK: python FILE URL MODEL TASK whole|stream."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import sys

from google import genai
from google.genai import types
from work import TOOLS


def main(url: str, model: str, task: str, mode: str) -> None:
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))
    chat = client.chats.create(model=model, config=types.GenerateContentConfig(tools=[*TOOLS]))
    if mode == "whole":
        print(chat.send_message(task).text)
        return
    print("".join(chunk.text or "" for chunk in chat.send_message_stream(task)))


main(*sys.argv[1:])
