"""Rerank by every client of the packages: prints the order of documents that each one returns.

    python rerankers.py URL KEY MODEL

URL: the gateway's, without a path. Prints one JSON object: the indices of the best two documents,
by client; what a client raised, if it failed.
"""

# pyright: basic, reportMissingImports=false

import json
import sys
from collections.abc import Callable, Mapping

import cohere
import voyageai
from langchain_cohere import CohereRerank
from langchain_core.documents import Document
from langchain_voyageai import VoyageAIRerank
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.postprocessor.cohere_rerank import CohereRerank as LlamaCohereRerank
from llama_index.postprocessor.jinaai_rerank import JinaRerank
from llama_index.postprocessor.voyageai_rerank import VoyageAIRerank as LlamaVoyageRerank

QUERY = "automatic telephone exchange"
DOCUMENTS = [
    "An exchange of goods.",
    "The automatic telephone exchange of Almon Strowger.",
    "Assam grows tea.",
    "A telephone exchange with operators.",
]
TOP = 2


def nodes() -> list[NodeWithScore]:
    return [NodeWithScore(node=TextNode(text=one), score=0.5) for one in DOCUMENTS]


def place_of(text: str) -> int:
    return DOCUMENTS.index(text)


def clients(url: str, key: str, model: str) -> Mapping[str, Callable[[], list[int]]]:
    """Each reranks with the same query, documents and limit."""
    pages = [Document(page_content=one) for one in DOCUMENTS]
    query = QueryBundle(query_str=QUERY)

    def cohere_2() -> list[int]:
        client = cohere.ClientV2(key, base_url=url)
        answer = client.rerank(model=model, query=QUERY, documents=DOCUMENTS, top_n=TOP)
        assert answer.meta is not None
        assert answer.meta.billed_units is not None
        return [one.index for one in answer.results]

    def cohere_1() -> list[int]:
        client = cohere.Client(key, base_url=url)
        answer = client.rerank(
            model=model, query=QUERY, documents=DOCUMENTS, top_n=TOP, return_documents=True
        )
        assert [one.document and one.document.text for one in answer.results] == [
            DOCUMENTS[one.index] for one in answer.results
        ]
        return [one.index for one in answer.results]

    def voyage() -> list[int]:
        client = voyageai.Client(api_key=key, base_url=f"{url}/v1")
        answer = client.rerank(QUERY, DOCUMENTS, model=model, top_k=TOP)
        assert answer.total_tokens > 0
        assert [one.document for one in answer.results] == [
            DOCUMENTS[one.index] for one in answer.results
        ]
        return [one.index for one in answer.results]

    def voyage_all() -> list[int]:
        client = voyageai.Client(api_key=key, base_url=f"{url}/v1")
        return [one.index for one in client.rerank(QUERY, DOCUMENTS, model=model).results][:TOP]

    def langchain_cohere() -> list[int]:
        client = cohere.ClientV2(key, base_url=url)
        reranker = CohereRerank(model=model, top_n=TOP, client=client, cohere_api_key=key)
        return [place_of(one.page_content) for one in reranker.compress_documents(pages, QUERY)]

    def langchain_voyage() -> list[int]:
        reranker = VoyageAIRerank(model=model, voyage_api_key=key, top_k=TOP)
        reranker.client = voyageai.Client(api_key=key, base_url=f"{url}/v1")
        return [place_of(one.page_content) for one in reranker.compress_documents(pages, QUERY)]

    def llama_cohere() -> list[int]:
        reranker = LlamaCohereRerank(model=model, api_key=key, top_n=TOP, base_url=url)
        return [place_of(one.text) for one in reranker.postprocess_nodes(nodes(), query)]

    def llama_jina() -> list[int]:
        reranker = JinaRerank(model=model, api_key=key, top_n=TOP, base_url=f"{url}/v1")
        return [place_of(one.text) for one in reranker.postprocess_nodes(nodes(), query)]

    def llama_voyage() -> list[int]:
        reranker = LlamaVoyageRerank(model=model, api_key=key, top_n=TOP)
        reranker._client = voyageai.Client(api_key=key, base_url=f"{url}/v1")  # it takes no address
        return [place_of(one.text) for one in reranker.postprocess_nodes(nodes(), query)]

    return {
        "cohere-2": cohere_2,
        "cohere-1": cohere_1,
        "voyage": voyage,
        "voyage-all": voyage_all,
        "langchain-cohere": langchain_cohere,
        "langchain-voyage": langchain_voyage,
        "llama-index-cohere": llama_cohere,
        "llama-index-jina": llama_jina,
        "llama-index-voyage": llama_voyage,
    }


def main(url: str, key: str, model: str) -> None:
    found: dict[str, object] = {}
    for name, rerank in clients(url, key, model).items():
        try:
            found[name] = rerank()
        except Exception as exc:  # noqa: BLE001  each client has errors of its own
            found[name] = f"{type(exc).__name__}: {exc}"
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
