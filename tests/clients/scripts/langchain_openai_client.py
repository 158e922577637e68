"""langchain-openai against a gateway: python FILE URL. Prints what it saw as JSON."""

# pyright: basic, reportMissingImports=false

import json
import sys

from langchain_openai import ChatOpenAI, OpenAIEmbeddings

QUESTION, TEXT = "What is 17 + 25?", "the quick brown fox"


def main(url: str) -> None:
    account = {"base_url": f"{url}/v1", "api_key": "k", "max_retries": 0}
    chat = ChatOpenAI(model="tiny", temperature=0, stream_usage=True, **account)
    whole = chat.invoke(QUESTION)
    chunks = list(chat.stream(QUESTION))
    streamed = chunks[0]
    for chunk in chunks[1:]:
        streamed += chunk
    embeds = OpenAIEmbeddings(model="mini", check_embedding_ctx_length=False, **account)
    seen = {
        "whole": [whole.content, whole.usage_metadata],
        "streamed": [streamed.content, streamed.usage_metadata],
        "vector": embeds.embed_query(TEXT),
        "overflow": refusal(lambda: chat.invoke("1 + 1 = 2. " * 2000)),
    }
    print(json.dumps(seen))


def refusal(call) -> dict:
    """The exception: its text, and the names of its classes."""
    try:
        call()
    except Exception as exc:  # noqa: BLE001  what a client raises is what is looked at
        return {"text": str(exc), "kinds": [kind.__name__ for kind in type(exc).__mro__]}
    return {"text": "", "kinds": []}


main(sys.argv[1])
