"""The requests of Gemini's API, in the features of the matrix."""

import json
from typing import Final, cast

from tests.matrix.questions import CITY, Feature, Json, Question, Said, at, has_a_vector, says

GEMINI: Final = "Gemini"
NO_FORM: Final[dict[tuple[str, Feature], str]] = {
    (GEMINI, "text"): "conversations only",
    (GEMINI, "tokens in"): "its prompts are text",
    (GEMINI, "tokens out"): "its answers are text",
}

_PATH: Final = "/v1beta/models/{model}:"
_CONTENTS: Final = [{"role": "user", "parts": [{"text": "go on"}]}]
_SHORT: Final = {"maxOutputTokens": 8, "temperature": 0}
_PARTS: Final = ("candidates", 0, "content", "parts")


def _streams(said: Said) -> None:
    parts = [cast("list[Json]", at(one, *_PARTS)) for one in said.frames]
    assert "".join(str(part.get("text", "")) for one in parts for part in one)
    assert at(said.frames[-1], "candidates", 0, "finishReason") in ("STOP", "MAX_TOKENS")


def _calls(said: Said) -> None:
    parts = cast("list[Json]", at(said.body, *_PARTS))
    calls = [one["functionCall"] for one in parts if "functionCall" in one]
    assert {at(one, "name") for one in calls} == {"weather"}
    assert all("city" in cast("Json", at(one, "args")) for one in calls)


def _is_of_the_schema(said: Said) -> None:
    parts = cast("list[Json]", at(said.body, *_PARTS))
    written = json.loads("".join(str(one["text"]) for one in parts if not one.get("thought")))
    assert written["city"] in ("Rome", "Oslo")


def _scores(said: Said) -> None:
    scored = at(said.body, "candidates", 0, "logprobsResult", "chosenCandidates")
    tokens = cast("list[Json]", scored)
    assert tokens
    assert all(cast("float", one["logProbability"]) <= 0 for one in tokens)


def _embeds(said: Said) -> None:
    data = [{"embedding": at(said.body, "embedding", "values")}]
    has_a_vector(Said(frames=({"data": data},)))


QUESTIONS: Final[tuple[Question, ...]] = (
    Question(
        surface=GEMINI,
        feature="chat",
        path=f"{_PATH}generateContent",
        body={"contents": _CONTENTS, "generationConfig": _SHORT},
        judge=says(*_PARTS, 0, "text"),
    ),
    Question(
        surface=GEMINI,
        feature="stream",
        path=f"{_PATH}streamGenerateContent?alt=sse",
        body={"contents": _CONTENTS, "generationConfig": _SHORT},
        judge=_streams,
    ),
    Question(
        surface=GEMINI,
        feature="tools",
        path=f"{_PATH}generateContent",
        body={
            "contents": _CONTENTS,
            "generationConfig": {"maxOutputTokens": 1000},
            "tools": [
                {"functionDeclarations": [{"name": "weather", "parametersJsonSchema": CITY}]}
            ],
            "toolConfig": {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["weather"]}
            },
        },
        judge=_calls,
    ),
    Question(
        surface=GEMINI,
        feature="structured output",
        path=f"{_PATH}generateContent",
        body={
            "contents": _CONTENTS,
            "generationConfig": {
                "maxOutputTokens": 1000,
                "responseMimeType": "application/json",
                "responseJsonSchema": CITY,
            },
        },
        judge=_is_of_the_schema,
    ),
    Question(
        surface=GEMINI,
        feature="log probabilities",
        path=f"{_PATH}generateContent",
        body={
            "contents": _CONTENTS,
            "generationConfig": {**_SHORT, "responseLogprobs": True, "logprobs": 2},
        },
        judge=_scores,
    ),
    Question(
        surface=GEMINI,
        feature="embeddings",
        path=f"{_PATH}embedContent",
        body={"content": {"parts": [{"text": "the quick brown fox"}]}},
        judge=_embeds,
        embeds=True,
    ),
)
