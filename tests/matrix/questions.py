"""The requests to every backend by client API, and the checks of their responses."""

import json
from collections.abc import Callable, Mapping
from typing import Final, Literal, cast

from msgspec import Struct

Feature = Literal[
    "chat",
    "text",
    "stream",
    "tools",
    "structured output",
    "log probabilities",
    "tokens in",
    "tokens out",
    "embeddings",
]
FEATURES: Final[tuple[Feature, ...]] = (
    "chat",
    "text",
    "stream",
    "tools",
    "structured output",
    "log probabilities",
    "tokens in",
    "tokens out",
    "embeddings",
)
SURFACES: Final = ("OpenAI", "Databricks", "MindIE", "KServe v2")

Json = Mapping[str, object]


class Said(Struct, frozen=True, kw_only=True):
    """A response with status 200: its JSON, or the JSON of each frame of a stream.

    dropped: what x-gateway-dropped-params lists.
    """

    frames: tuple[Json, ...]
    dropped: tuple[str, ...] = ()

    @property
    def body(self) -> Json:
        (only,) = self.frames
        return only


class Question(Struct, frozen=True, kw_only=True):
    """path: may contain {model}. judge: raises AssertionError, or KeyError if a field is missing.

    embeds: use the backend's embedding model.
    """

    surface: str
    feature: Feature
    path: str
    body: Json
    judge: Callable[[Said], None]
    embeds: bool = False


HELLO = [{"role": "user", "content": "go on"}]
CITY: Json = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]
NAMED = {"type": "function", "function": {"name": "weather"}}
FORM = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}
IDS = [5, 6, 7]


def at(value: object, *steps: str | int) -> object:
    """The value at a path of keys and indexes. Raises KeyError or IndexError."""
    for step in steps:
        match step:
            case str():
                value = cast("Json", value)[step]
            case int():
                value = cast("list[object]", value)[step]
    return value


def says(*path: str | int) -> Callable[[Said], None]:
    """Check that there is text at the path."""

    def judge(said: Said) -> None:
        assert at(said.body, *path), f"no text at {path}"
        assert isinstance(at(said.body, *path), str)

    return judge


def chat_logprobs(said: Said) -> None:
    scored = cast("list[Json]", at(said.body, "choices", 0, "logprobs", "content"))
    assert scored
    assert all(cast("float", one["logprob"]) <= 0 for one in scored)


def chat_streams(said: Said) -> None:
    deltas = [cast("Json", at(one, "choices", 0, "delta")) for one in said.frames if one["choices"]]
    assert "".join(str(delta.get("content") or "") for delta in deltas)
    assert at(said.frames[-1], "choices", 0, "finish_reason") in ("stop", "length")


def calls_a_tool(said: Said) -> None:
    assert at(said.body, "choices", 0, "finish_reason") == "tool_calls"
    call = at(said.body, "choices", 0, "message", "tool_calls", 0, "function")
    assert at(call, "name") == "weather"
    assert "city" in json.loads(str(at(call, "arguments")))


def is_of_the_schema(said: Said) -> None:
    written = json.loads(str(at(said.body, "choices", 0, "message", "content")))
    assert written["city"] in ("Rome", "Oslo")


def has_a_vector(said: Said) -> None:
    vector = cast("list[float]", at(said.body, "data", 0, "embedding"))
    assert vector
    assert all(isinstance(one, int | float) for one in vector)


def counts_its_prompt(said: Said) -> None:
    says("choices", 0, "text")(said)
    assert at(said.body, "usage", "prompt_tokens")


def mindie_text(said: Said) -> None:
    assert said.body["generated_text"] or "answer.text" in said.dropped
    assert at(said.body, "details", "finish_reason") in ("eos_token", "stop_sequence", "length")


def mindie_ids(said: Said) -> None:
    ids = cast("list[int]", at(said.body, "details", "generated_token_ids"))
    assert all(isinstance(one, int) for one in ids)
    assert ids


def mindie_streams(said: Said) -> None:
    *pieces, last = said.frames
    text = "".join(str(at(one, "token", "text")) for one in pieces)
    assert pieces[0]["prefill_time"] is not None
    assert str(last["generated_text"]).startswith(text)
    assert last["generated_text"] or "answer.text" in said.dropped
    assert all(isinstance(at(one, "token", "id"), int) for one in said.frames)
    assert at(last, "details", "finish_reason") in ("eos_token", "stop_sequence", "length")


def tensor(said: Said, name: str) -> Json:
    return next(one for one in cast("list[Json]", said.body["outputs"]) if one["name"] == name)


def kserve_ids(said: Said) -> None:
    ids = tensor(said, "output_ids")
    assert ids["datatype"] == "INT32"
    assert ids["data"]


def kserve_logprobs(said: Said) -> None:
    values = cast("list[float]", tensor(said, "output_log_probs")["data"])
    assert values
    assert all(value <= 0 for value in values)


def kserve_streams(said: Said) -> None:
    assert "".join(str(frame["text_output"]) for frame in said.frames)


CHAT: Json = {"messages": HELLO, "max_tokens": 8, "temperature": 0}
TEXT: Json = {"prompt": "go on", "max_tokens": 8, "temperature": 0}
CHAT_ASKED: tuple[tuple[Feature, Json, Callable[[Said], None]], ...] = (
    ("chat", CHAT, says("choices", 0, "message", "content")),
    ("stream", {**CHAT, "stream": True}, chat_streams),
    (
        "tools",
        {"messages": HELLO, "tools": TOOLS, "tool_choice": NAMED, "max_tokens": 1000},
        calls_a_tool,
    ),
    (
        "structured output",
        {"messages": HELLO, "response_format": FORM, "max_tokens": 1000},
        is_of_the_schema,
    ),
    ("log probabilities", {**CHAT, "logprobs": True, "top_logprobs": 2}, chat_logprobs),
)
INVOCATIONS = "/serving-endpoints/{model}/invocations"
INPUTS: Json = {
    "inputs": [
        {"name": "input_ids", "shape": [1, 3], "datatype": "INT32", "data": IDS},
        {"name": "request_output_len", "shape": [1, 1], "datatype": "INT32", "data": [8]},
    ]
}
SCORED: Json = {
    "inputs": [
        *cast("list[Json]", INPUTS["inputs"]),
        {"name": "return_log_probs", "shape": [1], "datatype": "BOOL", "data": [True]},
    ]
}
TOKENS: Json = {"input_id": IDS, "parameters": {"max_new_tokens": 8, "details": True}}
GENERATE: Json = {"text_input": "go on", "max_tokens": 8}

QUESTIONS: Final[tuple[Question, ...]] = (
    *(
        Question(
            surface="OpenAI", feature=feature, path="/v1/chat/completions", body=body, judge=judge
        )
        for feature, body, judge in CHAT_ASKED
    ),
    Question(
        surface="OpenAI",
        feature="text",
        path="/v1/completions",
        body=TEXT,
        judge=says("choices", 0, "text"),
    ),
    Question(
        surface="OpenAI",
        feature="tokens in",
        path="/v1/completions",
        body={**TEXT, "prompt": IDS},
        judge=counts_its_prompt,
    ),
    Question(
        surface="OpenAI",
        feature="embeddings",
        path="/v1/embeddings",
        body={"input": "the quick brown fox"},
        judge=has_a_vector,
        embeds=True,
    ),
    *(
        Question(surface="Databricks", feature=feature, path=INVOCATIONS, body=body, judge=judge)
        for feature, body, judge in CHAT_ASKED
    ),
    Question(
        surface="Databricks",
        feature="text",
        path=INVOCATIONS,
        body=TEXT,
        judge=says("choices", 0, "text"),
    ),
    Question(
        surface="Databricks",
        feature="embeddings",
        path=INVOCATIONS,
        body={"input": "the quick brown fox"},
        judge=has_a_vector,
        embeds=True,
    ),
    Question(
        surface="MindIE",
        feature="stream",
        path="/v1/models/{model}/infer_token",
        body={**TOKENS, "stream": True},
        judge=mindie_streams,
    ),
    Question(
        surface="MindIE",
        feature="tokens in",
        path="/v1/models/{model}/infer_token",
        body=TOKENS,
        judge=mindie_text,
    ),
    Question(
        surface="MindIE",
        feature="tokens out",
        path="/v1/models/{model}/infer_token",
        body=TOKENS,
        judge=mindie_ids,
    ),
    Question(
        surface="KServe v2",
        feature="text",
        path="/v2/models/{model}/generate",
        body=GENERATE,
        judge=says("text_output"),
    ),
    Question(
        surface="KServe v2",
        feature="stream",
        path="/v2/models/{model}/generate_stream",
        body={**GENERATE, "stream": True},
        judge=kserve_streams,
    ),
    Question(
        surface="KServe v2",
        feature="log probabilities",
        path="/v2/models/{model}/infer",
        body=SCORED,
        judge=kserve_logprobs,
    ),
    Question(
        surface="KServe v2",
        feature="tokens in",
        path="/v2/models/{model}/infer",
        body=INPUTS,
        judge=kserve_ids,
    ),
    Question(
        surface="KServe v2",
        feature="tokens out",
        path="/v2/models/{model}/infer",
        body=INPUTS,
        judge=kserve_ids,
    ),
)

HAS_NO_FORM: Final[Mapping[tuple[str, Feature], str]] = {
    ("OpenAI", "tokens out"): "its answers are text",
    ("Databricks", "tokens in"): "its prompts are text",
    ("Databricks", "tokens out"): "its answers are text",
    ("MindIE", "chat"): "use the OpenAI API for chat",
    ("MindIE", "text"): "use the OpenAI API for text",
    ("MindIE", "tools"): "tokens only",
    ("MindIE", "structured output"): "tokens only",
    ("MindIE", "log probabilities"): "its answers contain none",
    ("MindIE", "embeddings"): "tokens only",
    ("KServe v2", "chat"): "the text routes accept plain text",
    ("KServe v2", "tools"): "no tensor for them",
    ("KServe v2", "structured output"): "no tensor for it",
    ("KServe v2", "embeddings"): "TensorRT-LLM's API only generates",
}
"""Why a dialect cannot express a feature."""
