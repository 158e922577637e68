"""For each rule of Anthropic, what breaks it: members that differ from those of `ALLOWED`."""

from collections.abc import Mapping
from typing import Final

from tests.oracle.reading import Json

USER: Final[Json] = {"role": "user", "content": "hi"}
CALL: Final[Json] = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
RESULT: Final[Json] = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "19"}
TOOL: Final[Json] = {"name": "look", "input_schema": {"type": "object"}}
THINKING: Final[Json] = {"type": "enabled", "budget_tokens": 1024}
MARK: Final[Json] = {"cache_control": {"type": "ephemeral"}}

ALLOWED: Final[Json] = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 2000,
    "system": "Be kind.",
    "messages": [
        USER,
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, CALL]},
        {"role": "user", "content": [RESULT, {"type": "text", "text": "And?"}]},
    ],
    "tools": [TOOL],
}


def assistant(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


def text(said: str, **more: object) -> Json:
    return {"type": "text", "text": said, **more}


def called(call: Json = CALL, *answer: Json) -> Json:
    return {"messages": [USER, assistant(call), user(*(answer or (RESULT,)))]}


SYSTEM: Final[Json] = {"role": "system", "content": "Be brief."}
OPUS_48: Final[Json] = {"model": "claude-opus-4-8"}
ENDS_IN_AN_ANSWER: Final[Json] = {"messages": [USER, {"role": "assistant", "content": "19 "}]}

NO_ALTERNATIVES: Final[list[object]] = []

REFUSED: Final[Mapping[str, Json]] = {
    "anthropic-first-role": {"messages": [{"role": "assistant", "content": "hi"}, USER]},
    "anthropic-later-system": {"messages": [USER, SYSTEM]},
    "anthropic-system-place": {"messages": [USER, assistant(text("Hi.")), SYSTEM, USER], **OPUS_48},
    "anthropic-calls-answered": {"messages": [USER, assistant(CALL), USER]},
    "anthropic-results-called": {"messages": [user(RESULT)]},
    "anthropic-single-results": called(CALL, RESULT, RESULT),
    "anthropic-results-first": called(CALL, text("Here."), RESULT),
    "anthropic-call-ids": called({**CALL, "id": "a.b:0"}, {**RESULT, "tool_use_id": "a.b:0"}),
    "anthropic-tool-names": {"tools": [TOOL, {**TOOL, "name": "a.b"}]},
    "anthropic-unique-tools": {"tools": [TOOL, TOOL]},
    "anthropic-blank-text": {"messages": [user(text(" \n"))]},
    "anthropic-empty-message": {"messages": [USER, assistant(), USER]},
    "anthropic-prefill-space": ENDS_IN_AN_ANSWER,
    "anthropic-no-prefill": {**ENDS_IN_AN_ANSWER, **OPUS_48},
    "anthropic-thinking-budget": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
    "anthropic-thinking-sampling": {"thinking": THINKING, "temperature": 0.5},
    "anthropic-thinking-choice": {"thinking": THINKING, "tool_choice": {"type": "any"}},
    "anthropic-thinking-loop": {"thinking": THINKING},
    "anthropic-thinking-proof": {
        "messages": [
            USER,
            assistant(
                {"type": "thinking", "thinking": "Hm.", "signature": "google-gemini-v1:AA"},
                text("Yes."),
            ),
            USER,
        ]
    },
    "anthropic-ranges": {"temperature": 1.5},
    "anthropic-temperature-or-top-p": {"temperature": 0.5, "top_p": 0.9},
    "anthropic-no-sampling": {"temperature": 0.5, **OPUS_48},
    "anthropic-thinking-kind": {"thinking": {"type": "adaptive"}},
    "anthropic-cache-marks": {"messages": [user(*[text("a", **MARK)] * 5)]},
    "anthropic-marked-content": {"system": [text("", **MARK)]},
    "anthropic-input-schema": {
        "tools": [{**TOOL, "input_schema": {"type": "object", "anyOf": NO_ALTERNATIVES}}]
    },
    "anthropic-choice-tools": {"messages": [USER], "tools": [], "tool_choice": {"type": "auto"}},
    "anthropic-named-tool": {"tool_choice": {"type": "tool", "name": "other"}},
    "anthropic-tools-defined": {"tools": []},
    "anthropic-strict-schema": {
        "output_config": {
            "format": {
                "type": "json_schema",
                "schema": {
                    "type": "object",
                    "properties": {"n": {"type": "integer", "minimum": 1}},
                    "additionalProperties": False,
                },
            }
        }
    },
    "anthropic-user-id": {"metadata": {"user_id": "u" * 257}},
    "anthropic-blank-stop": {"stop_sequences": ["\n"]},
}
