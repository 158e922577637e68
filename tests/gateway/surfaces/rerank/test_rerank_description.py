"""The API description says what reranking, scores and classes answer."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest
from jsonschema import Draft202012Validator

from tests.gateway.surfaces.rerank.setting import DOCUMENTS, QUERY, Json, Setting, rerank_setting

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with rerank_setting(tmp_path_factory.mktemp("run")) as one:
        yield one


async def test_every_answer_is_as_described(setting: Setting) -> None:
    document = (await setting.client.get("/openapi.json")).json()
    ranked: Json = {"model": "vllm", "query": QUERY, "documents": DOCUMENTS}
    calls: list[tuple[str, Json]] = [
        ("/v1/rerank", ranked),
        ("/v1/rerank", {**ranked, "top_k": 2}),
        ("/v1/rerank", {**ranked, "top_n": "x"}),
        ("/v2/rerank", ranked),
        ("/rerank", {"query": QUERY, "texts": DOCUMENTS}),
        ("/v1/score", {"model": "vllm", "text_1": "a", "text_2": "b"}),
        ("/v1/classify", {"model": "vllm", "input": "good"}),
        ("/classify", {"model": "tei", "input": "good"}),
        ("/v1/pooling", {"model": "vllm", "input": "good"}),
        ("/pooling", {"model": "vllm", "input": ["good"], "encoding_format": "base64"}),
        ("/predict", {"inputs": "good"}),
        ("/predict", {"inputs": [["good"], ["bad"]]}),
    ]
    for path, body in calls:
        answer = await setting.ask(path, body)

        described = document["paths"][path]["post"]["responses"][str(answer.status_code)]
        schema = cast("Json", described["content"]["application/json"]["schema"])
        whole = {**schema, "components": document["components"]}
        Draft202012Validator(whole).validate(answer.json())  # pyright: ignore[reportUnknownMemberType]  # its stubs
