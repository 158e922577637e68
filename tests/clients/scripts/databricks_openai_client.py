"""databricks-openai against a gateway: python FILE. Prints what it saw as JSON.

The workspace is in the environment: DATABRICKS_HOST, DATABRICKS_TOKEN.
"""

# pyright: basic, reportMissingImports=false

import json

from databricks_openai import DatabricksOpenAI

QUESTION = "What is 17 + 25?"


def main() -> None:
    turns = [{"role": "user", "content": QUESTION}]
    unified = DatabricksOpenAI(use_ai_gateway=True)
    native = DatabricksOpenAI(use_ai_gateway_native_api=True)
    whole = unified.chat.completions.create(model="system.ai.tiny", messages=turns, temperature=0)
    stream = unified.chat.completions.create(
        model="system.ai.tiny", messages=turns, temperature=0, stream=True
    )
    response = native.responses.create(model="system.ai.tiny", input=QUESTION, temperature=0)
    seen = {
        "addresses": [str(one.base_url.raw_path, "ascii") for one in (unified, native)],
        "whole": whole.choices[0].message.content,
        "streamed": "".join(one.choices[0].delta.content or "" for one in stream if one.choices),
        "response": response.output_text,
    }
    print(json.dumps(seen))


main()
