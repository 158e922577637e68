"""For each rule of Gemini, what breaks it: members that differ from those of `ALLOWED`."""

from collections.abc import Mapping
from typing import Final

from tests.oracle.reading import Json

ASKS: Final[Json] = {"role": "user", "parts": [{"text": "hi"}]}
CALL: Final[Json] = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "AAAA"}
RESULT: Final[Json] = {"functionResponse": {"name": "look", "response": {"output": "19"}}}
ANSWERS: Final[Json] = {"role": "model", "parts": [CALL]}


def declares(**one: object) -> Json:
    return {"tools": [{"functionDeclarations": [{"name": "look", **one}]}]}


def says(*turns: Json) -> Json:
    return {"contents": list(turns)}


ALLOWED: Final[Json] = {
    "model": "gemini-3-flash-preview",
    "systemInstruction": {"parts": [{"text": "Be kind."}]},
    "contents": [ASKS, ANSWERS, {"role": "user", "parts": [RESULT]}],
    **declares(parameters={"type": "OBJECT", "properties": {"at": {"type": "STRING"}}}),
    "generationConfig": {"temperature": 1, "maxOutputTokens": 9},
}

REFUSED: Final[Mapping[str, Json]] = {
    "gemini-contents": says(),
    "gemini-roles": says({"role": "assistant", "parts": [{"text": "hi"}]}),
    "gemini-parts": says({"role": "user", "parts": [{"text": ""}]}),
    "gemini-call-turns": says(ANSWERS, {"role": "user", "parts": [RESULT]}),
    "gemini-result-count": says(ASKS, ANSWERS, ASKS),
    "gemini-results-called": says({"role": "user", "parts": [RESULT]}),
    "gemini-function-names": declares(name="1 look"),
    "gemini-unique-functions": {
        "tools": [{"functionDeclarations": [{"name": "look"}, {"name": "look"}]}]
    },
    "gemini-signatures": says(
        ASKS,
        {"role": "model", "parts": [{"functionCall": {"name": "look"}}]},
        {"role": "user", "parts": [RESULT]},
    ),
    "gemini-parameters": declares(parameters={"type": "OBJECT", "additionalProperties": False}),
    "gemini-array-items": declares(
        parameters={"type": "OBJECT", "properties": {"a": {"type": "ARRAY"}}}
    ),
    "gemini-enums": declares(
        parameters={"type": "OBJECT", "properties": {"a": {"type": "STRING", "enum": [""]}}}
    ),
    "gemini-ranges": {"generationConfig": {"stopSequences": ["a", "b", "c", "d", "e", "f"]}},
    "gemini-schema-type": {"generationConfig": {"responseJsonSchema": {"type": "object"}}},
    "gemini-allowed-names": {
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["other"]}}
    },
}
