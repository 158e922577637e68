"""Requests in the shape that Claude's coding tool sends, written from public documentation.

https://code.claude.com/docs/en/llm-gateway, https://platform.claude.com/docs/en/api/messages and
issues of gateways that name fields. The texts are our own.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from tests.gateway.backends.vendors.dialect import Call, Json, Said

PIXEL: Final = "iVBORw0KGgo="
SESSION: Final = "6d0c6c0a-8f5e-4a53-9f0a-0d9a5f5f9b11"
MARK: Final[Json] = {"type": "ephemeral"}
HOUR: Final[Json] = {"type": "ephemeral", "ttl": "1h"}

HEADERS: Final[Mapping[str, str]] = {
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,"
    "context-management-2025-06-27,extended-cache-ttl-2025-04-11",
    "anthropic-dangerous-direct-browser-access": "true",
    "x-app": "cli",
    "x-claude-code-session-id": SESSION,
    "x-stainless-lang": "js",
    "x-stainless-timeout": "600",
    "user-agent": "claude-cli/2.1.300 (external, cli)",
}

SYSTEM: Final[Sequence[Json]] = (
    {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.300; cc_entrypoint=cli;"},
    {"type": "text", "text": "You help with code in a terminal.", "cache_control": HOUR},
    {"type": "text", "text": "# Rules\n- Read before you edit. Zürich 🌍", "cache_control": HOUR},
)


def tool(name: str, *, required: Sequence[str], more: Json | None = None, **fields: Json) -> Json:
    schema: Json = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": fields,
        "required": [*required],
        "additionalProperties": False,
    }
    return {
        "name": name,
        "description": f"{name}: what it does, and when not to use it.",
        "input_schema": schema,
        **(more or {}),
    }


TEXT: Final[Json] = {"type": "string", "description": "A text"}
COUNT: Final[Json] = {"type": "integer", "minimum": 0, "maximum": 9007199254740991}
FLAG: Final[Json] = {"type": "boolean", "default": False}
TODOS: Final[Json] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "content": {"type": "string", "minLength": 1},
            "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
        },
        "required": ["content", "status"],
        "additionalProperties": False,
    },
}
ANSWERS: Final[Json] = {
    "type": "object",
    "propertyNames": {"type": "string"},
    "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "null"}]},
}

TOOLS: Final[Sequence[Json]] = (
    tool("Read", required=["file_path"], file_path=TEXT, offset=COUNT, limit=COUNT),
    tool(
        "Edit",
        required=["file_path", "old_string", "new_string"],
        file_path=TEXT,
        old_string=TEXT,
        new_string=TEXT,
        replace_all=FLAG,
        more={"eager_input_streaming": True},
    ),
    tool(
        "Write",
        required=["file_path", "content"],
        file_path=TEXT,
        content=TEXT,
        more={"eager_input_streaming": True},
    ),
    tool("Bash", required=["command"], command=TEXT, timeout=COUNT, run_in_background=FLAG),
    tool("Glob", required=["pattern"], pattern=TEXT, path=TEXT),
    tool("Grep", required=["pattern"], pattern=TEXT, **{"-n": FLAG, "-C": COUNT}),
    tool("Task", required=["description", "prompt"], description=TEXT, prompt=TEXT),
    tool("TodoWrite", required=["todos"], todos=TODOS),
    tool("AskUserQuestion", required=["answers"], answers=ANSWERS),
    tool("EnterPlanMode", required=[]),
    tool("mcp__tickets__get_ticket", required=["id"], id={"type": ["string", "null"]}),
    tool(
        "mcp__a-server-with-a-long-name__a_tool_with_a_long_name",
        required=[],
        filter={"anyOf": [{"type": "string"}, {"type": "array", "items": TEXT}]},
    ),
)

USER: Final[Sequence[Json]] = (
    {"type": "text", "text": "<system-reminder>\nThe folder is /src.\n</system-reminder>"},
    {"type": "text", "text": "Why does the test fail?", "cache_control": HOUR},
)

COMMON: Final[Json] = {
    "max_tokens": 32000,
    "system": SYSTEM,
    "tools": TOOLS,
    "metadata": {"user_id": f'{{"device_id":"d","account_uuid":"","session_id":"{SESSION}"}}'},
    "messages": [{"role": "user", "content": USER}],
}

NO_INPUT: Final[Json] = {}
FIRST: Final = Said(
    text=("I look ", "at both."),
    thought="The test and the code.",
    proof="cHJvb2Y=",
    calls=(
        Call(id="abcdefgh1", name="Read", arguments={"file_path": "/src/a.py"}, proof="cHJvb2Y="),
        Call(id="abcdefgh2", name="Bash", arguments={"command": "pytest -x"}),
    ),
)
SECOND: Final = Said(
    text=(),
    thought="One character.",
    proof="cHJvb2Y=",
    calls=(
        Call(
            id="abcdefgh3",
            name="Edit",
            arguments={"file_path": "/src/a.py", "old_string": "==", "new_string": "<="},
            proof="cHJvb2Y=",
        ),
    ),
)
LAST: Final = Said(text=("It passes ", "now."))

RESULTS: Final[Sequence[Sequence[Json]]] = (
    (
        {
            "tool_use_id": "abcdefgh1",
            "type": "tool_result",
            "content": [
                {"type": "text", "text": "1\tassert a == b"},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                },
            ],
        },
        {
            "tool_use_id": "abcdefgh2",
            "type": "tool_result",
            "content": "Exit code 1\nAssertionError",
            "is_error": True,
            "cache_control": HOUR,
        },
    ),
    (
        {
            "tool_use_id": "abcdefgh3",
            "type": "tool_result",
            "content": "The file has been updated.",
            "cache_control": HOUR,
        },
        {"type": "text", "text": "<system-reminder>\nDo not mention this.\n</system-reminder>"},
    ),
)


class Conversation(Struct, frozen=True, kw_only=True):
    """body: of the first request. said: the answers. results: of the user, after each but the last.

    thinks: its thoughts and their proofs must come back.
    """

    body: Json
    said: Sequence[Said]
    results: Sequence[Sequence[Json]] = ()
    thinks: bool = False


LOOP: Final = (FIRST, SECOND, LAST)
KEEP: Final[Json] = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
TITLE: Final[Json] = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
    "additionalProperties": False,
}

CONVERSATIONS: Final[Mapping[str, Conversation]] = {
    "adaptive thinking": Conversation(
        body={
            **COMMON,
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"},
            "context_management": KEEP,
        },
        said=LOOP,
        results=RESULTS,
        thinks=True,
    ),
    "a budget": Conversation(
        body={
            **COMMON,
            "temperature": 1,
            "thinking": {"type": "enabled", "budget_tokens": 31999},
            "context_management": KEEP,
        },
        said=LOOP,
        results=RESULTS,
        thinks=True,
    ),
    "no thinking": Conversation(
        body={**COMMON, "temperature": 1, "thinking": {"type": "disabled"}},
        said=[Said(text=one.text, calls=one.calls) for one in LOOP],
        results=RESULTS,
    ),
    "marks for all": Conversation(
        body={**COMMON, "cache_control": MARK, "tool_choice": {"type": "auto"}},
        said=[Said(text=one.text, calls=one.calls) for one in LOOP],
        results=RESULTS,
    ),
    "a title in the background": Conversation(
        body={
            "max_tokens": 32000,
            "system": [SYSTEM[0], {"type": "text", "text": "Write a title as JSON."}],
            "tools": [],
            "temperature": 1,
            "metadata": COMMON["metadata"],
            "output_config": {"format": {"type": "json_schema", "schema": TITLE}},
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Fix the test"}]}],
        },
        said=[Said(text=('{"title":', '"Failing test"}'))],
    ),
    "a question of quota": Conversation(
        body={
            "max_tokens": 1,
            "metadata": COMMON["metadata"],
            "messages": [{"role": "user", "content": "quota"}],
        },
        said=[Said(text=("H",))],
    ),
    "a prefilled answer": Conversation(
        body={
            "max_tokens": 512,
            "temperature": 0,
            "system": "Is this a new topic? Answer with JSON.",
            "messages": [
                {"role": "user", "content": "Fix the test"},
                {"role": "assistant", "content": "{"},
            ],
        },
        said=[Said(text=('"new":', " true}"))],
    ),
}
