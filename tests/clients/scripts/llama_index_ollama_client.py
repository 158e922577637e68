"""llama-index-llms-ollama against a gateway: python FILE URL. Prints what it saw as JSON."""

# pyright: basic, reportMissingImports=false

import json
import sys

from llama_index.core.llms import ChatMessage
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.llms.ollama import Ollama

QUESTION, TEXT = "What is 17 + 25?", "the quick brown fox"


def main(url: str) -> None:
    model = Ollama(model="tiny", base_url=url, temperature=0, request_timeout=60)
    asked = [ChatMessage(role="user", content=QUESTION)]
    whole = model.chat(asked)
    streamed = [one.delta or "" for one in model.stream_chat(asked)]
    embeds = OllamaEmbedding(model_name="mini", base_url=url)
    seen = {
        "whole": whole.message.content,
        "streamed": "".join(streamed),
        "completed": model.complete(QUESTION).text,
        "context": model.metadata.context_window,
        "vector": embeds.get_query_embedding(TEXT),
    }
    print(json.dumps(seen))


main(sys.argv[1])
