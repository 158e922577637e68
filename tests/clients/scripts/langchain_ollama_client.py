"""langchain-ollama against a gateway: python FILE URL. Prints what it saw as JSON."""

# pyright: basic, reportMissingImports=false

import json
import sys

from langchain_ollama import ChatOllama, OllamaEmbeddings

QUESTION, TEXT = "What is 17 + 25?", "the quick brown fox"


def main(url: str) -> None:
    chat = ChatOllama(
        model="tiny", base_url=url, temperature=0, num_ctx=1024, validate_model_on_init=True
    )
    whole = chat.invoke(QUESTION)
    chunks = list(chat.stream(QUESTION))
    streamed = chunks[0]
    for chunk in chunks[1:]:
        streamed += chunk
    embeds = OllamaEmbeddings(model="mini", base_url=url)
    seen = {
        "whole": [whole.content, whole.usage_metadata],
        "streamed": [streamed.content, streamed.usage_metadata],
        "reason": whole.response_metadata["done_reason"],
        "vector": embeds.embed_query(TEXT),
    }
    print(json.dumps(seen))


main(sys.argv[1])
