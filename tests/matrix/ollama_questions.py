"""The requests of Ollama's API."""

import json
from collections.abc import Callable
from typing import Final, cast

from tests.matrix.questions import CITY, HELLO, TOOLS, Feature, Json, Question, Said, at, says

OLLAMA: Final = "Ollama"

_OPTIONS: Final = {"num_predict": 8, "temperature": 0}
_LONG: Final = {"num_predict": 1000, "temperature": 0}
_TURN: Final[Json] = {"messages": HELLO, "options": _OPTIONS, "stream": False}


def ollama_says(said: Said) -> None:
    assert isinstance(at(said.body, "message", "content"), str)
    assert said.body["done"] is True
    assert said.body["done_reason"] in ("stop", "length")


def ollama_streams(said: Said) -> None:
    *pieces, last = said.frames
    assert "".join(str(at(one, "message", "content")) for one in pieces)
    assert last["done"] is True
    assert cast("int", last["eval_duration"]) > 0


def ollama_may_call(said: Said) -> None:
    """The API cannot force a call: the model that makes none answers."""
    message = cast("Json", said.body["message"])
    calls = cast("list[Json]", message.get("tool_calls", []))
    assert calls or message["content"]
    assert all(isinstance(at(one, "function", "arguments"), dict) for one in calls)


def ollama_is_of_the_schema(said: Said) -> None:
    written = json.loads(str(at(said.body, "message", "content")))
    assert written["city"] in ("Rome", "Oslo")


def ollama_logprobs(said: Said) -> None:
    scored = cast("list[Json]", said.body["logprobs"])
    assert scored
    assert all(cast("float", one["logprob"]) <= 0 for one in scored)


def ollama_has_a_vector(said: Said) -> None:
    vector = cast("list[float]", at(said.body, "embeddings", 0))
    assert vector
    assert all(isinstance(one, int | float) for one in vector)


_CHATS: Final[tuple[tuple[Feature, Json, Callable[[Said], None]], ...]] = (
    ("chat", _TURN, ollama_says),
    ("stream", {**_TURN, "stream": True}, ollama_streams),
    ("tools", {**_TURN, "tools": TOOLS, "options": _LONG}, ollama_may_call),
    ("structured output", {**_TURN, "format": CITY, "options": _LONG}, ollama_is_of_the_schema),
    ("log probabilities", {**_TURN, "logprobs": True, "top_logprobs": 2}, ollama_logprobs),
)
OLLAMA_QUESTIONS: Final[tuple[Question, ...]] = (
    *(
        Question(surface=OLLAMA, feature=feature, path="/api/chat", body=body, judge=judge)
        for feature, body, judge in _CHATS
    ),
    Question(
        surface=OLLAMA,
        feature="text",
        path="/api/generate",
        body={"prompt": "go on", "raw": True, "stream": False, "options": _OPTIONS},
        judge=says("response"),
    ),
    Question(
        surface=OLLAMA,
        feature="embeddings",
        path="/api/embed",
        body={"input": "the quick brown fox"},
        judge=ollama_has_a_vector,
        embeds=True,
    ),
)
