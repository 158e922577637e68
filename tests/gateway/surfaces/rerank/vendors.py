"""Rerankers of eleven vendors on one loopback server, each stricter than its vendor.

A body with a field that the vendor does not have, or with too many documents, is refused in the
vendor's own form. Every vendor scores alike: `score_of`. A query of the word `fail` fails, and one
that begins with `answer ` is answered with the rest of it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from msgspec import Struct

from tests.stand_ins.provider import Answer, Received

Json = dict[str, object]
Write = Callable[[Json, list[tuple[int, float]]], object]


def score_of(query: str, document: str) -> float:
    """Return the share of the query's words that the document has."""
    words = query.lower().split()
    return round(sum(word in document.lower() for word in words) / max(len(words), 1), 4)


class Vendor(Struct, frozen=True, kw_only=True):
    """required, allowed: fields of a body. documents: the name of theirs. top: of the limit.

    write: makes the answer of (index, score), the best first. most: documents of one request.
    """

    required: frozenset[str]
    allowed: frozenset[str]
    write: Write
    documents: str = "documents"
    top: str = "top_n"
    most: int = 1000


def _results(found: Sequence[tuple[int, float]]) -> list[Json]:
    return [{"index": place, "relevance_score": score} for place, score in found]


def _cohere(_: Json, found: list[tuple[int, float]]) -> object:
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return {"id": "co-1", "results": _results(found), "meta": meta}


def _jina(body: Json, found: list[tuple[int, float]]) -> object:
    usage = {"total_tokens": 40}
    return {"model": body["model"], "object": "list", "usage": usage, "results": _results(found)}


def _voyage(body: Json, found: list[tuple[int, float]]) -> object:
    usage = {"total_tokens": 40}
    return {"object": "list", "data": _results(found), "model": body["model"], "usage": usage}


def _siliconflow(_: Json, found: list[tuple[int, float]]) -> object:
    units = {"input_tokens": 40, "output_tokens": 0, "search_units": 0, "classifications": 0}
    meta = {"billed_units": units, "tokens": {"input_tokens": 40, "output_tokens": 0}}
    return {"id": "sf-1", "results": _results(found), "meta": meta}


def _together(body: Json, found: list[tuple[int, float]]) -> object:
    usage = {"prompt_tokens": 40, "completion_tokens": 0, "total_tokens": 40}
    return {
        "object": "rerank",
        "id": "to-1",
        "model": body["model"],
        "results": _results(found),
        "usage": usage,
    }


def _vllm(body: Json, found: list[tuple[int, float]]) -> object:
    documents = cast("list[str]", body["documents"])
    results = [
        {"index": place, "document": {"text": documents[place]}, "relevance_score": score}
        for place, score in found
    ]
    usage = {"total_tokens": 40}
    return {"id": "rerank-1", "model": body["model"], "usage": usage, "results": results}


def _listed(_: Json, found: list[tuple[int, float]]) -> object:
    return [{"index": place, "score": score} for place, score in found]


def _sglang(body: Json, found: list[tuple[int, float]]) -> object:
    documents = cast("list[str]", body["documents"])
    return [
        {"score": score, "document": documents[place], "index": place, "meta_info": None}
        for place, score in found
    ]


def _nested(_: Json, found: list[tuple[int, float]]) -> object:
    usage = {"total_tokens": 40}
    return {"output": {"results": _results(found)}, "usage": usage, "request_id": "ds-1"}


_NAMED = frozenset({"model", "query", "documents"})

VENDORS: Mapping[str, Vendor] = {
    "/cohere/v2/rerank": Vendor(
        required=_NAMED,
        allowed=frozenset({"top_n", "max_tokens_per_doc", "priority"}),
        write=_cohere,
    ),
    "/providers/cohere/v2/rerank": Vendor(
        required=_NAMED, allowed=frozenset({"top_n", "max_tokens_per_doc"}), write=_cohere
    ),
    "/jina/v1/rerank": Vendor(
        required=_NAMED, allowed=frozenset({"top_n", "return_documents"}), write=_jina
    ),
    "/voyage/v1/rerank": Vendor(
        required=_NAMED,
        allowed=frozenset({"top_k", "return_documents", "truncation"}),
        write=_voyage,
        top="top_k",
    ),
    "/siliconflow/v1/rerank": Vendor(
        required=_NAMED,
        allowed=frozenset(
            {
                "top_n",
                "return_documents",
                "instruction",
                "max_chunks_per_doc",
                "overlap_tokens",
            }
        ),
        write=_siliconflow,
    ),
    "/together/v1/rerank": Vendor(
        required=_NAMED, allowed=frozenset({"top_n", "return_documents"}), write=_together
    ),
    "/vllm/rerank": Vendor(
        required=_NAMED,
        allowed=frozenset({"top_n", "truncate_prompt_tokens", "use_activation", "priority"}),
        write=_vllm,
    ),
    "/sglang/v1/rerank": Vendor(required=_NAMED, allowed=frozenset({"instruct"}), write=_sglang),
    "/tei/rerank": Vendor(
        required=frozenset({"query", "texts"}),
        allowed=frozenset({"raw_scores", "return_text", "truncate", "truncation_direction"}),
        write=_listed,
        documents="texts",
        most=32,
    ),
    "/llama/v1/rerank": Vendor(required=_NAMED, allowed=frozenset({"top_n"}), write=_jina),
    "/compatible-api/v1/reranks": Vendor(
        required=_NAMED, allowed=frozenset({"top_n", "instruct"}), write=_jina, most=500
    ),
}
"""By path, those whose body has the query and the documents."""

DEEPINFRA = "/v1/inference/rr/model"
DASHSCOPE = "/api/v1/services/rerank/text-rerank/text-rerank"


async def rerankers(request: Received, answer: Answer) -> None:
    """See Behaviour."""
    body = request.json
    text = body.get("query") or body.get("text_1") or body.get("input") or ""
    first = cast("object", text[0] if isinstance(text, list) else text)
    if isinstance(first, str) and first.startswith("answer "):
        await answer.body(first.removeprefix("answer ").encode(), "application/json")
        return
    if request.path.startswith("/model/"):
        await _bedrock(body, answer)
        return
    if request.path == DEEPINFRA:
        await _by_pairs(body, answer)
        return
    if request.path == DASHSCOPE:
        await _dashscope(body, answer)
        return
    if request.path == "/vllm/score":
        await _scores(body, answer)
        return
    if request.path == "/vllm/classify":
        await _classes(body, answer)
        return
    if request.path == "/lmdeploy/pooling":
        await _rewarded(body, answer)
        return
    if request.path == "/vllm/pooling":
        await _pooled(body, answer)
        return
    if request.path == "/tei/predict":
        await _predict(body, answer)
        return
    vendor = VENDORS.get(request.path)
    if vendor is None:
        await answer.json({"detail": "Not Found"}, 404)
        return
    await _ranked(vendor, body, answer)


async def _ranked(vendor: Vendor, body: Json, answer: Answer) -> None:
    unknown = body.keys() - vendor.required - vendor.allowed
    missing = vendor.required - body.keys()
    if unknown or missing:
        problem = f"unknown {sorted(unknown)}, missing {sorted(missing)}"
        await answer.json({"message": problem, "detail": problem}, 422)
        return
    query, documents = cast("str", body["query"]), cast("list[str]", body[vendor.documents])
    assert all(type(one) is str for one in (query, *documents))
    if len(documents) > vendor.most:
        await answer.json({"error": "batch size", "error_type": "Validation"}, 413)
        return
    if query == "fail":
        await answer.json({"message": "the model has crashed"}, 500)
        return
    found = [(place, score_of(query, one)) for place, one in enumerate(documents)]
    found.sort(key=lambda one: -one[1])
    top = body.get(vendor.top)
    if top is not None:
        assert isinstance(top, int)
        assert 0 < top <= len(documents)
        found = found[:top]
    await answer.json(vendor.write(body, found))


async def _by_pairs(body: Json, answer: Answer) -> None:
    assert body.keys() <= {"queries", "documents", "instruction"}
    queries, documents = cast("list[str]", body["queries"]), cast("list[str]", body["documents"])
    if len(queries) != len(documents):
        await answer.json({"detail": "queries and documents must have the same length"}, 422)
        return
    scores = [score_of(one, other) for one, other in zip(queries, documents, strict=True)]
    await answer.json({"scores": scores, "input_tokens": 40, "request_id": "di-1"})


async def _bedrock(body: Json, answer: Answer) -> None:
    assert body["api_version"] == 2
    vendor = Vendor(
        required=frozenset({"query", "documents"}),
        allowed=frozenset({"top_n", "api_version"}),
        write=lambda _, found: {"results": _results(found)},
    )
    await _ranked(vendor, body, answer)


async def _dashscope(body: Json, answer: Answer) -> None:
    assert body.keys() == {"model", "input", "parameters"}
    given, parameters = cast("Json", body["input"]), cast("Json", body["parameters"])
    assert given.keys() == {"query", "documents"}
    assert parameters.keys() <= {"top_n", "return_documents", "instruct"}
    vendor = Vendor(
        required=_NAMED,
        allowed=frozenset({"top_n", "return_documents", "instruct"}),
        write=_nested,
        most=500,
    )
    await _ranked(vendor, {"model": body["model"], **given, **parameters}, answer)


async def _scores(body: Json, answer: Answer) -> None:
    assert body.keys() <= {"model", "text_1", "text_2", "use_activation"}
    first, second = body["text_1"], cast("list[str]", body["text_2"])
    queries = [first] * len(second) if isinstance(first, str) else cast("list[str]", first)
    pairs = zip(queries, second, strict=True)
    data = [
        {"index": place, "object": "score", "score": score_of(one, other)}
        for place, (one, other) in enumerate(pairs)
    ]
    usage = {"prompt_tokens": 40, "total_tokens": 40, "completion_tokens": 0}
    model = body["model"]
    await answer.json(
        {"id": "score-1", "object": "list", "model": model, "data": data, "usage": usage}
    )


def class_of(text: str) -> list[float]:
    """Return the probabilities of `good` and `bad`."""
    return [0.9, 0.1] if "good" in text else [0.25, 0.75]


async def _classes(body: Json, answer: Answer) -> None:
    assert body.keys() <= {"model", "input", "use_activation"}
    data: list[Json] = []
    for place, text in enumerate(cast("list[str]", body["input"])):
        probs = class_of(text)
        label = "good" if probs[0] > probs[1] else "bad"
        data.append({"index": place, "label": label, "probs": probs, "num_classes": 2})
    usage = {"prompt_tokens": 40, "total_tokens": 40, "completion_tokens": 0}
    model = body["model"]
    await answer.json(
        {"id": "classify-1", "object": "list", "model": model, "data": data, "usage": usage}
    )


async def _rewarded(body: Json, answer: Answer) -> None:
    assert body.keys() == {"model", "input"}
    scores = [0.5, 0.25][: len(cast("list[str]", body["input"]))]
    data = [
        {"index": place, "object": "pooling", "data": score} for place, score in enumerate(scores)
    ]
    usage = {"prompt_tokens": 4, "total_tokens": 4, "completion_tokens": 0}
    model = body["model"]
    await answer.json(
        {"id": "1", "object": "list", "created": 1, "model": model, "data": data, "usage": usage}
    )


POOLING = frozenset(
    {
        *("model", "input", "messages", "task", "dimensions", "encoding_format", "embed_dtype"),
        *("endianness", "use_activation", "user", "truncate_prompt_tokens", "chat_template"),
    }
)
"""Fields of vLLM's `PoolingRequest` that the tests send."""


def vector_of(given: object) -> str:
    """Return the JSON of what the model computes of an input: one number as no printer has it."""
    return f"[[{len(str(given))}.0, -1.1920928955078125e-07], [0.10000000149011612, 3e-05]]"


async def _pooled(body: Json, answer: Answer) -> None:
    assert body.keys() <= POOLING
    assert ("input" in body) != ("messages" in body)
    if "input" in body:
        inputs = cast("list[object]", body["input"])
        if isinstance(inputs, str) or isinstance(inputs[0], int):
            inputs = [inputs]
        assert len({type(one) for one in inputs}) == 1
    else:
        inputs = [body["messages"]]
        for message in cast("list[Json]", inputs[0]):
            assert message.keys() <= {"role", "content"}
    task = body.get("task", "token_embed")
    if task not in ("embed", "classify", "token_embed", "token_classify"):
        error = {"message": f"Unsupported task: {task}", "type": "BadRequestError", "code": 400}
        await answer.json({"error": error}, 400)
        return
    base64 = body.get("encoding_format") == "base64"
    vectors = ['"AACAPwAAAMA="' if base64 else vector_of(one) for one in inputs]
    if task == "token_classify" and not base64:
        vectors = ["0.28458935022354126"] * len(inputs)  # of a text of one token
    data = ",".join(
        f'{{"index":{place},"object":"pooling","data":{vector}}}'
        for place, vector in reversed([*enumerate(vectors)])
    )
    usage = '{"prompt_tokens":40,"total_tokens":40,"completion_tokens":0}'
    whole = f'{{"id":"pool-1","object":"list","created":1,"model":"{body["model"]}",'
    await answer.body(f'{whole}"data":[{data}],"usage":{usage}}}'.encode(), "application/json")


async def _predict(body: Json, answer: Answer) -> None:
    assert body.keys() <= {"inputs", "raw_scores", "truncate"}
    found: list[object] = []
    for one in cast("list[list[str]]", body["inputs"]):
        assert len(one) in (1, 2)
        good, bad = class_of(" ".join(one))
        both = [{"score": good, "label": "good"}, {"score": bad, "label": "bad"}]
        found.append(sorted(both, key=lambda each: -cast("float", each["score"])))
    await answer.json(found)
