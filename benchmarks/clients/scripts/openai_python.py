"""Chats from openai-python, every second one streamed: python FILE URL KEY MODEL NUMBER."""

import sys

from openai import OpenAI

url, key, model, chats = sys.argv[1:]
client = OpenAI(base_url=f"{url}/v1", api_key=key)
for number in range(int(chats)):
    question = f"What is 17 + {number}?"
    if number % 2:
        for _ in client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": question}], stream=True
        ):
            pass
    else:
        client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": question}]
        )
