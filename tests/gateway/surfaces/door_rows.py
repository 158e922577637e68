"""The doors. A new one is a row here; `test_controls_of_doors.py` holds each to every control."""

import json
from typing import Final, cast

from tests.gateway.surfaces.door import Door, Json, at, events, pieces, text_at, with_field
from tests.stand_ins.provider import Answer, Received, answers


def _turn(text: str) -> list[Json]:
    return [{"role": "user", "content": text}]


def _messages(model: str, text: str) -> Json:
    return {"model": model, "messages": _turn(text)}


def _prompt(model: str, text: str) -> Json:
    return {"model": model, "prompt": text}


def _input(model: str, text: str) -> Json:
    return {"model": model, "input": text}


def _anthropics(model: str, text: str) -> Json:
    return {**_messages(model, text), "max_tokens": 50}


def _metadata(body: Json, user: str) -> Json:
    return {**body, "metadata": {"user_id": user}}


def _responses(text: str) -> str:
    deltas = [one for one in events(text) if one["type"] == "response.output_text.delta"]
    return "".join(str(one["delta"]) for one in deltas)


def _vector(body: Json) -> str:
    found = cast("list[object]", at(body, "data") or at(body, "embeddings"))
    return str(at(found, 0, "embedding") or found[0])


def _contents(model: str, text: str) -> Json:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def _embedded(model: str, text: str) -> Json:
    return {"content": {"parts": [{"text": text}]}}


def _listed(text: str) -> str:
    found = cast("list[object]", json.loads(text))
    return "".join(str(at(one, *_PARTS) or "") for one in found)


def _ranked(model: str, text: str) -> Json:
    return {"model": model, "query": "what is said?", "documents": [text, "nothing"]}


def _ranked_by_tei(model: str, text: str) -> Json:
    return {"model": model, "query": "what is said?", "texts": [text, "nothing"]}


def _compared(model: str, text: str) -> Json:
    return {"model": model, "text_1": "what is said?", "text_2": text}


async def _pools(request: Received, answer: Answer) -> None:
    """vLLM's answers to what reads texts and writes none."""
    usage = {"prompt_tokens": 9, "total_tokens": 9, "completion_tokens": 0}
    about = {"id": "t-1", "object": "list", "created": 1_700_000_000, "model": "m", "usage": usage}
    if request.path.endswith("/rerank"):
        texts = cast("list[str]", request.json["documents"])
        results = [
            {"index": place, "document": {"text": text}, "relevance_score": 0.5 - place / 10}
            for place, text in enumerate(texts)
        ]
        await answer.json({"id": "t-1", "model": "m", "usage": usage, "results": results})
    elif request.path.endswith("/score"):
        await answer.json({**about, "data": [{"index": 0, "object": "score", "score": 0.5}]})
    elif request.path.endswith("/pooling"):
        data = [{"index": 0, "object": "pooling", "data": [[0.25, 0.5]]}]
        await answer.json({**about, "data": data})
    else:
        found = {"index": 0, "label": "good", "probs": [0.25, 0.75], "num_classes": 2}
        await answer.json({**about, "data": [found]})


def _judged(model: str, text: str) -> Json:
    return {"model": model, "input": [text, "and a second text of some more words than one"]}


async def _moderates(request: Received, answer: Answer) -> None:
    """OpenAI's answer, which counts no tokens."""
    result = {
        "flagged": False,
        "categories": {"violence": False},
        "category_scores": {"violence": 0.01},
        "category_applied_input_types": {"violence": ["text"]},
    }
    texts = cast("list[str]", request.json["input"])
    await answer.json({"id": "modr-1", "model": "m", "results": [result] * len(texts)})


_PARTS: Final = ("candidates", 0, "content", "parts", 0, "text")
_GEMINIS: Final = "/v1beta/models/{model}"
_WHOLE: Final[Json] = {"stream": False}
_OPENAIS = text_at("error", "message")
_OLLAMAS = text_at("error")

DOORS: Final = (
    Door(
        name="chat",
        path="/v1/chat/completions",
        surface="openai",
        body=_messages,
        user=with_field("user"),
        said=text_at("choices", 0, "message", "content"),
        heard=pieces("choices", 0, "delta", "content"),
        error=_OPENAIS,
    ),
    Door(
        name="messages",
        path="/v1/messages",
        surface="anthropic",
        body=_anthropics,
        user=_metadata,
        said=text_at("content", 0, "text"),
        heard=pieces("delta", "text"),
        error=_OPENAIS,
    ),
    Door(
        name="responses",
        path="/v1/responses",
        surface="responses",
        body=_input,
        user=with_field("user"),
        said=text_at("output", 0, "content", 0, "text"),
        heard=_responses,
        error=_OPENAIS,
    ),
    Door(
        name="embeddings",
        path="/v1/embeddings",
        surface="openai",
        task="embeddings",
        body=_input,
        user=with_field("user"),
        said=_vector,
        error=_OPENAIS,
        backend=answers,
        speaks=False,
    ),
    Door(
        name="ollama-chat",
        path="/api/chat",
        surface="ollama",
        body=_messages,
        said=text_at("message", "content"),
        heard=pieces("message", "content"),
        stream={},
        whole=_WHOLE,
        error=_OLLAMAS,
    ),
    Door(
        name="ollama-generate",
        path="/api/generate",
        surface="ollama",
        body=_prompt,
        said=text_at("response"),
        heard=pieces("response"),
        stream={},
        whole=_WHOLE,
        error=_OLLAMAS,
    ),
    Door(
        name="ollama-embed",
        path="/api/embed",
        surface="ollama",
        task="embeddings",
        body=_input,
        said=_vector,
        error=_OLLAMAS,
        backend=answers,
        speaks=False,
    ),
    Door(
        name="gemini",
        path=f"{_GEMINIS}:generateContent",
        streams_at=f"{_GEMINIS}:streamGenerateContent?alt=sse",
        surface="gemini",
        body=_contents,
        said=text_at(*_PARTS),
        heard=pieces(*_PARTS),
        stream={},
        error=_OPENAIS,
    ),
    Door(
        name="gemini-list",
        path=f"{_GEMINIS}:generateContent",
        streams_at=f"{_GEMINIS}:streamGenerateContent",
        surface="gemini",
        body=_contents,
        said=text_at(*_PARTS),
        heard=_listed,
        stream={},
        error=_OPENAIS,
    ),
    Door(
        name="gemini-embed",
        path=f"{_GEMINIS}:embedContent",
        surface="gemini",
        task="embeddings",
        body=_embedded,
        said=lambda body: str(at(body, "embedding", "values")),
        error=_OPENAIS,
        backend=answers,
        speaks=False,
    ),
    Door(
        name="rerank",
        path="/v1/rerank",
        surface="rerank",
        task="rerank",
        body=_ranked,
        said=lambda body: str(at(body, "results", 0, "relevance_score")),
        error=_OPENAIS,
        adapter="vllm",
        backend=_pools,
        speaks=False,
    ),
    Door(
        name="rerank-cohere",
        path="/v2/rerank",
        surface="rerank",
        task="rerank",
        body=_ranked,
        said=lambda body: str(at(body, "results", 0, "relevance_score")),
        error=text_at("message"),
        adapter="vllm",
        backend=_pools,
        speaks=False,
    ),
    Door(
        name="rerank-tei",
        path="/rerank",
        surface="rerank",
        task="rerank",
        body=_ranked_by_tei,
        said=lambda body: str(at(body, 0, "score")),
        error=_OPENAIS,
        adapter="vllm",
        backend=_pools,
        speaks=False,
    ),
    Door(
        name="score",
        path="/v1/score",
        surface="pooling",
        task="score",
        body=_compared,
        said=lambda body: str(at(body, "data", 0, "score")),
        error=_OPENAIS,
        adapter="vllm",
        backend=_pools,
        speaks=False,
    ),
    Door(
        name="classify",
        path="/v1/classify",
        surface="pooling",
        task="classify",
        body=_input,
        said=lambda body: str(at(body, "data", 0, "label")),
        error=_OPENAIS,
        adapter="vllm",
        backend=_pools,
        speaks=False,
    ),
    Door(
        name="pooling",
        path="/v1/pooling",
        surface="pooling",
        task="pool",
        body=_input,
        said=lambda body: str(at(body, "data", 0, "data", 0, 0)),
        error=_OPENAIS,
        adapter="vllm",
        backend=_pools,
        speaks=False,
    ),
    Door(
        name="moderations",
        path="/v1/moderations",
        surface="moderation",
        task="moderate",
        body=_judged,
        said=lambda body: str(at(body, "results", 0, "flagged")),
        error=_OPENAIS,
        backend=_moderates,
        speaks=False,
    ),
    Door(
        name="compact",
        path="/v1/responses/compact",
        surface="responses",
        body=_input,
        said=lambda body: str(at(body, "output", -1, "encrypted_content")),
        error=_OPENAIS,
        speaks=False,
        cached=False,
    ),
)
