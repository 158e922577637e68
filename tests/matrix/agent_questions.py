"""The requests of agents' APIs: Anthropic's Messages and OpenAI's Responses."""

import json
from collections.abc import Callable, Mapping
from typing import Final, cast

from tests.matrix.gemini_questions import GEMINI
from tests.matrix.gemini_questions import NO_FORM as NO_GEMINI_FORM
from tests.matrix.gemini_questions import QUESTIONS as GEMINI_QUESTIONS
from tests.matrix.ollama_questions import OLLAMA, OLLAMA_QUESTIONS
from tests.matrix.questions import (
    CITY,
    HAS_NO_FORM,
    HELLO,
    QUESTIONS,
    SURFACES,
    Feature,
    Json,
    Question,
    Said,
    at,
)

AGENT_SURFACES: Final = ("Messages", "Responses")
NOT_EXPRESSED: Final[tuple[Feature, ...]] = ("text", "tokens in", "tokens out", "embeddings")


def message_says(said: Said) -> None:
    assert isinstance(at(said.body, "content", 0, "text"), str)
    assert at(said.body, "stop_reason") in ("end_turn", "max_tokens", "stop_sequence")


def message_streams(said: Said) -> None:
    deltas = [cast("Json", one["delta"]) for one in said.frames if "delta" in one]
    assert "".join(str(delta.get("text") or "") for delta in deltas)
    assert said.frames[-1]["type"] == "message_stop"


def message_calls(said: Said) -> None:
    calls = [one for one in cast("list[Json]", said.body["content"]) if one["type"] == "tool_use"]
    assert at(said.body, "stop_reason") == "tool_use"
    assert calls[0]["name"] == "weather"
    assert "city" in cast("Json", calls[0]["input"])


def message_is_of_the_schema(said: Said) -> None:
    assert json.loads(str(at(said.body, "content", 0, "text")))["city"] in ("Rome", "Oslo")


def parts_of(said: Said) -> list[Json]:
    """The parts of the first message of a response."""
    items = cast("list[Json]", said.body["output"])
    (first, *_) = [one for one in items if one["type"] == "message"]
    return cast("list[Json]", first["content"])


def response_says(said: Said) -> None:
    assert isinstance(parts_of(said)[0]["text"], str)
    assert said.body["status"] in ("completed", "incomplete")


def response_streams(said: Said) -> None:
    assert "".join(str(one["delta"]) for one in said.frames if "delta" in one)
    assert said.frames[-1]["type"] in ("response.completed", "response.incomplete")


def response_calls(said: Said) -> None:
    items = cast("list[Json]", said.body["output"])
    (call, *_) = [one for one in items if one["type"] == "function_call"]
    assert call["name"] == "weather"
    assert "city" in json.loads(str(call["arguments"]))


def response_is_of_the_schema(said: Said) -> None:
    assert json.loads(str(parts_of(said)[0]["text"]))["city"] in ("Rome", "Oslo")


def response_logprobs(said: Said) -> None:
    scored = cast("list[Json]", parts_of(said)[0]["logprobs"])
    assert scored
    assert all(cast("float", one["logprob"]) <= 0 for one in scored)


CALLED: Json = {"type": "function", "name": "weather", "parameters": CITY}
FORM: Json = {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}
RESPONSE: Json = {"input": "go on", "max_output_tokens": 16}
MESSAGE: Json = {"messages": HELLO, "max_tokens": 8}
LONG: Json = {"messages": HELLO, "max_tokens": 1000}

Asked = tuple[tuple[Feature, Json, Callable[[Said], None]], ...]
MESSAGES_ASKED: Final[Asked] = (
    ("chat", MESSAGE, message_says),
    ("stream", {**MESSAGE, "stream": True}, message_streams),
    (
        "tools",
        {
            **LONG,
            "tools": [{"name": "weather", "input_schema": CITY}],
            "tool_choice": {"type": "tool", "name": "weather"},
        },
        message_calls,
    ),
    (
        "structured output",
        {**LONG, "output_config": {"format": {"type": "json_schema", "schema": CITY}}},
        message_is_of_the_schema,
    ),
)
RESPONSES_ASKED: Final[Asked] = (
    ("chat", RESPONSE, response_says),
    ("stream", {**RESPONSE, "stream": True}, response_streams),
    (
        "tools",
        {
            "input": "go on",
            "max_output_tokens": 1000,
            "tools": [CALLED],
            "tool_choice": {"type": "function", "name": "weather"},
        },
        response_calls,
    ),
    (
        "structured output",
        {"input": "go on", "max_output_tokens": 1000, "text": {"format": FORM}},
        response_is_of_the_schema,
    ),
    (
        "log probabilities",
        {**RESPONSE, "include": ["message.output_text.logprobs"], "top_logprobs": 2},
        response_logprobs,
    ),
)

AGENT_QUESTIONS: Final[tuple[Question, ...]] = (
    *(
        Question(surface="Messages", feature=feature, path="/v1/messages", body=body, judge=judge)
        for feature, body, judge in MESSAGES_ASKED
    ),
    *(
        Question(surface="Responses", feature=feature, path="/v1/responses", body=body, judge=judge)
        for feature, body, judge in RESPONSES_ASKED
    ),
)

ALL_SURFACES: Final = ("OpenAI", *AGENT_SURFACES, GEMINI, OLLAMA, *SURFACES[1:])
ALL_QUESTIONS: Final = (*QUESTIONS, *AGENT_QUESTIONS, *GEMINI_QUESTIONS, *OLLAMA_QUESTIONS)
HAS_NO_FORM_ANYWHERE: Final[Mapping[tuple[str, Feature], str]] = {
    **HAS_NO_FORM,
    **{
        (name, feature): "conversations only"
        for name in AGENT_SURFACES
        for feature in NOT_EXPRESSED
    },
    ("Messages", "log probabilities"): "its answers contain none",
    **NO_GEMINI_FORM,
    (OLLAMA, "tokens in"): "its prompts are text",
    (OLLAMA, "tokens out"): "its answers are text",
}
"""Why an API cannot express a feature."""
