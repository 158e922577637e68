"""A gateway in front of the rerankers of all vendors, for the tests of its surfaces."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
from msgspec import Struct

from tests.gateway.serving import Serving, serving
from tests.gateway.surfaces.rerank.vendors import rerankers
from tests.stand_ins.provider import Provider, provider

Json = dict[str, object]

CONFIG = """
server: {{default_model: tei}}
auth:
  mode: keys
  keys:
    - {{name: all, key: key-of-all-of-them-0001}}
    - {{name: few, key: key-of-few-of-them-0002, models: [jina]}}
    - {{name: thrifty, key: key-of-the-thrifty-03, models: [cohere, jina]}}
    - {{name: watched, key: key-of-the-watched-04}}
    - {{name: poor, key: key-of-the-poor-000006}}
budgets:
  - {{name: small, who: {{key: poor}}, usd: 0.006, per: day}}
limits:
  - {{name: two, who: {{key: thrifty}}, requests: 2}}
guardrails:
  - {{name: secrets, use: patterns, who: {{key: watched}}, mode: mask, settings: {{words: [tea]}}}}
providers:
  - {{name: co, adapter: cohere, base_url: "{url}/cohere", api_key: k}}
  - {{name: ji, adapter: jina, base_url: "{url}/jina/v1", api_key: k}}
  - {{name: vo, adapter: voyage, base_url: "{url}/voyage/v1", api_key: k}}
  - {{name: si, adapter: siliconflow, base_url: "{url}/siliconflow/v1", api_key: k}}
  - {{name: to, adapter: together, base_url: "{url}/together/v1", api_key: k}}
  - {{name: vl, adapter: vllm, base_url: "{url}/vllm/v1"}}
  - {{name: lm, adapter: lmdeploy, base_url: "{url}/lmdeploy/v1"}}
  - {{name: vn, adapter: vllm, base_url: "{url}/nothing/v1"}}
  - {{name: vt, adapter: vllm, base_url: "{url}/vllm/v1", tokenizer: "{tokenizer}"}}
  - {{name: sg, adapter: sglang, base_url: "{url}/sglang/v1"}}
  - {{name: te, adapter: tei, base_url: "{url}/tei"}}
  - {{name: ll, adapter: llama-cpp, base_url: "{url}/llama/v1"}}
  - {{name: de, adapter: deepinfra, base_url: "{url}/v1/openai", api_key: k}}
  - {{name: da, adapter: dashscope, base_url: "{url}/compatible-mode/v1", api_key: k}}
  - {{name: az, adapter: azure, base_url: "{url}/openai/v1", api_key: k}}
  - {{name: be, adapter: bedrock, base_url: "{url}", api_key: k}}
  - {{name: other, adapter: openai, base_url: "{url}/nothing/v1", api_key: k}}
models:
  - {{name: cohere, backends: [{{provider: co, model: rerank-v3.5}}]}}
  - {{name: jina, backends: [{{provider: ji, model: jina-reranker-v2}}], cache: {{ttl_s: 600}}}}
  - {{name: voyage, backends: [{{provider: vo, model: rerank-2.5}}]}}
  - {{name: siliconflow, backends: [{{provider: si, model: Qwen/Qwen3-Reranker-8B}}]}}
  - {{name: together, backends: [{{provider: to, model: rank}}]}}
  - {{name: vllm, backends: [{{provider: vl, model: bge}}]}}
  - {{name: pooled, backends: [{{provider: vl, model: bge-m3}}], cache: {{ttl_s: 600}}}}
  - {{name: rewards, backends: [{{provider: lm, model: rm}}]}}
  - {{name: chats, backends: [{{provider: vn, model: chat}}]}}
  - {{name: tokenized, backends: [{{provider: vt, model: bge}}]}}
  - {{name: sglang, backends: [{{provider: sg, model: bge}}]}}
  - {{name: tei, backends: [{{provider: te, model: bge}}]}}
  - {{name: llama, backends: [{{provider: ll, model: bge}}]}}
  - {{name: deepinfra, backends: [{{provider: de, model: rr/model}}]}}
  - {{name: dashscope, backends: [{{provider: da, model: qwen3-rerank}}]}}
  - {{name: gte, backends: [{{provider: da, model: gte-rerank-v2}}]}}
  - {{name: azure, backends: [{{provider: az, model: cohere-rerank}}]}}
  - {{name: bedrock, backends: [{{provider: be, model: "cohere.rerank-v3-5:0"}}]}}
  - name: vectors
    backends: [{{provider: vl, model: bge-m3}}]
    mirror: {{backend: vt/bge-m3, share: 1}}
  - name: mirrored
    backends: [{{provider: vl, model: bge}}]
    mirror: {{backend: co/rerank-v3.5, share: 1}}
  - {{name: nowhere, backends: [{{provider: other, model: m}}]}}
  - {{name: once, backends: [{{provider: co, model: rerank-v3.5}}], retry: {{attempts: 1}}}}
  - name: cheap
    policy: lowest_cost
    backends: [{{provider: co, model: rerank-v3.5}}, {{provider: ji, model: jina-reranker-v2}}]
  - name: chain
    policy: in_order
    retry: {{attempts: 2, backoff_s: 0.01}}
    backends: [{{provider: vl, model: bge}}, {{provider: ji, model: jina-reranker-v2}}]
prices:
  - {{match: co/*, input: 0, output: 0, search_unit: 2}}
  - {{match: ji/*, input: 0.05, output: 0}}
  - {{match: vl/*, input: 0, output: 0, search_unit: 1}}
  - {{match: te/*, input: 0, output: 0, search_unit: 1}}
"""

TOKENIZER = Path(__file__).parents[4] / "local_engine" / "bundled" / "tiny-chat" / "tokenizer.json"
QUERY = "automatic telephone exchange"
DOCUMENTS = [
    "An exchange of goods.",
    "The automatic telephone exchange of Almon Strowger.",
    "Assam grows tea.",
    "A telephone exchange with operators.",
]
ORDER = [1, 3, 0, 2]


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """The vendors, the gateway, and a client of it that may use all models."""

    vendors: Provider
    gateway: Serving
    client: httpx.AsyncClient

    async def ask(self, path: str, body: Json, *, key: str = "") -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return await self.client.post(path, json=body, headers=headers)

    async def rank(self, model: str, **fields: object) -> Json:
        """Rank the documents, unless `fields` has others. Returns the answer, which is a 200."""
        body = {"model": model, "query": QUERY, "documents": DOCUMENTS, **fields}
        answer = await self.ask("/v1/rerank", body)
        assert answer.status_code == 200, answer.text
        return cast("Json", answer.json())

    def sent(self) -> Json:
        """The last request that a vendor got."""
        return self.vendors.requests[-1].json


@asynccontextmanager
async def rerank_setting(run_dir: Path) -> AsyncGenerator[Setting, None]:
    async with AsyncExitStack() as stack:
        vendors = await stack.enter_async_context(provider(rerankers))
        gateway = await stack.enter_async_context(
            serving(CONFIG.format(url=vendors.origin, tokenizer=TOKENIZER), run_dir)
        )
        headers = {"authorization": "Bearer key-of-all-of-them-0001"}
        client = httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=20)
        await stack.enter_async_context(client)
        yield Setting(vendors=vendors, gateway=gateway, client=client)


def order(answer: Json) -> list[int]:
    return [cast("int", one["index"]) for one in cast("list[Json]", answer["results"])]
