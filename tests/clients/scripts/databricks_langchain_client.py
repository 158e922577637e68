"""databricks-langchain against a gateway: python FILE URL. Prints what it saw as JSON.

The workspace is in the environment: DATABRICKS_HOST, DATABRICKS_TOKEN.
"""

# pyright: basic, reportMissingImports=false

import json

from databricks_langchain import ChatDatabricks

QUESTION = "What is 17 + 25?"


def main() -> None:
    chat = ChatDatabricks(model="tiny", temperature=0)
    whole = chat.invoke(QUESTION)
    chunks = list(chat.stream(QUESTION))
    seen = {
        "whole": [whole.content, whole.usage_metadata],
        "text": "".join(chunk.content for chunk in chunks),
        "usage": [chunk.usage_metadata for chunk in chunks],
    }
    print(json.dumps(seen))


main()
