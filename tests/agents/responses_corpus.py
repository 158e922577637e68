"""Requests in the shape that codex (Apache-2.0) sends. The texts are our own."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from tests.gateway.backends.vendors.dialect import Call, Json, Said

PIXEL: Final = "iVBORw0KGgo="
THREAD: Final = "01a20a8c-eb98-7562-95df-f77203ca78e0"
HEADERS: Final[Mapping[str, str]] = {
    "x-codex-beta-features": "remote_compaction_v2",
    "x-codex-window-id": f"{THREAD}:0",
    "x-codex-turn-metadata": '{"thread_id":"t","sandbox":"none"}',
    "x-client-request-id": THREAD,
    "session-id": THREAD,
    "thread-id": THREAD,
    "originator": "codex_exec",
    "user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown",
}


def function(name: str, **fields: str) -> Json:
    properties = {one: {"type": kind, "description": one} for one, kind in fields.items()}
    return {
        "type": "function",
        "name": name,
        "description": f"{name}: what it does.",
        "strict": False,
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": [*fields][:1],
            "additionalProperties": False,
        },
    }


GRAMMAR: Final = (
    'start: "*** Begin Patch" LF hunk+ "*** End Patch" LF?\nhunk: /.+/ LF\n%import common.LF'
)
TOOLS: Final[Sequence[Json]] = (
    function("exec_command", cmd="string", workdir="string", yield_time_ms="number"),
    function("write_stdin", session_id="number", chars="string"),
    {
        "type": "custom",
        "name": "apply_patch",
        "description": "Edits files. Do not wrap the patch in JSON.",
        "format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR},
    },
    function("view_image", path="string"),
    {
        "type": "namespace",
        "name": "multi_agent_v1",
        "description": "Helpers.",
        "tools": [function("spawn_agent", message="string"), function("close_agent", id="string")],
    },
    {
        "type": "namespace",
        "name": "mcp__tickets__",
        "description": "Tickets.",
        "tools": [function("get_ticket", id="string")],
    },
)


def message(role: str, *texts: str) -> Json:
    content = [{"type": "input_text", "text": one} for one in texts]
    return {"type": "message", "id": f"msg_{role}{len(texts)}", "role": role, "content": content}


COMMON: Final[Json] = {
    "input": [
        message("developer", "You help with code in a terminal."),
        message("developer", "<skills>\n- none\n</skills>", "<plugins/>"),
        message("user", "<environment_context>\n  <cwd>/src</cwd>\n</environment_context>"),
        message("user", "Why does the test fail? Zürich 🌍"),
    ],
    "tools": TOOLS,
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": THREAD,
    "client_metadata": {"thread_id": THREAD, "x-codex-turn-metadata": "{}"},
}

PATCH: Final = "*** Begin Patch\n*** Update File: a.py\n@@\n-a\n+b\n*** End Patch\n"
FIRST: Final = Said(
    text=("I look ", "at both."),
    thought="The test and the code.",
    proof="cHJvb2Y=",
    calls=(
        Call(id="abcdefgh1", name="exec_command", arguments={"cmd": "ls"}, proof="cHJvb2Y="),
        Call(id="abcdefgh2", name="mcp__tickets__get_ticket", arguments={"id": "7"}),
        Call(id="abcdefgh3", name="view_image", arguments={"path": "/src/a.png"}),
    ),
)
SECOND: Final = Said(
    text=(),
    thought="One character.",
    proof="cHJvb2Y=",
    calls=(Call(id="abcdefgh4", name="apply_patch", arguments={"input": PATCH}, proof="cHJvb2Y="),),
)
LAST: Final = Said(text=("It passes ", "now."))
OUTPUTS: Final[Sequence[Sequence[object]]] = (
    (
        "Process exited with code 0\nOutput:\na.py",
        "no such ticket",
        [{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}],
    ),
    ("Exit code: 0\nSuccess. Updated the following files:\nM a.py",),
)


class Dialogue(Struct, frozen=True, kw_only=True):
    """body: of the first request. said: the answers. outputs: of the calls of each but the last.

    thinks: its thoughts and their proofs must come back.
    """

    body: Json
    said: Sequence[Said]
    outputs: Sequence[Sequence[object]] = ()
    thinks: bool = False


LOOP: Final = (FIRST, SECOND, LAST)
VERDICT: Final[Json] = {
    "type": "object",
    "properties": {"outcome": {"type": "string", "enum": ["allow", "deny"]}},
    "required": ["outcome"],
    "additionalProperties": False,
}

DIALOGUES: Final[Mapping[str, Dialogue]] = {
    "a model that it does not know": Dialogue(
        body={**COMMON, "reasoning": {"summary": "auto"}},
        said=LOOP,
        outputs=OUTPUTS,
        thinks=True,
    ),
    "a model that it knows": Dialogue(
        body={
            **COMMON,
            "instructions": "Be brief.",
            "reasoning": {"effort": "medium", "summary": "auto"},
            "text": {"verbosity": "low"},
        },
        said=LOOP,
        outputs=OUTPUTS,
        thinks=True,
    ),
    "a model that does not reason": Dialogue(
        body={**COMMON, "service_tier": "auto"},
        said=[Said(text=one.text, calls=one.calls) for one in LOOP],
        outputs=OUTPUTS,
    ),
    "a verdict in the background": Dialogue(
        body={
            "instructions": "Judge the command.",
            "input": [message("user", "rm -rf /")],
            "store": False,
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "codex_output_schema",
                    "strict": True,
                    "schema": VERDICT,
                }
            },
        },
        said=[Said(text=('{"outcome":', '"deny"}'))],
    ),
}
