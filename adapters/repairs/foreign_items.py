"""What a vendor's own tools leave in a conversation, when it continues at another vendor.

An agent keeps its history. Once one of OpenAI's, Anthropic's or Google's tools has run, each later
turn contains its call, which no other vendor reads. Calls that ran at the vendor are left out: the
answer that follows them stays. Calls that the client itself ran (a shell, a patch) become calls of
functions, and their outputs results, because the conversation goes on from them.
https://platform.openai.com/docs/api-reference/responses/create#responses-create-input
https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec
from msgspec import DecodeError, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import OPAQUE
from strowger_gateway.schemas.messages import Message, OpaquePart, Part, TextPart, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.searches import MADE_HERE

RESPONSES: Final = "openai-responses"
MESSAGES: Final = "anthropic"
GEMINI: Final = "gemini"

OF_VENDORS: Final[Mapping[str, frozenset[str]]] = {
    RESPONSES: frozenset(
        """
        code_interpreter_call compaction computer_call computer_call_output context_compaction
        file_search_call image_generation_call mcp_approval_request mcp_approval_response mcp_call
        mcp_list_tools program program_output tool_search_call tool_search_output web_search_call
        """.split()  # noqa: SIM905  twenty quoted strings are harder to read
    ),
    MESSAGES: frozenset(
        """
        advisor_tool_result bash_code_execution_tool_result code_execution_tool_result compaction
        mcp_tool_result mcp_tool_use server_tool_use text_editor_code_execution_tool_result
        tool_search_tool_result web_fetch_tool_result web_search_tool_result
        """.split()  # noqa: SIM905
    ),
    GEMINI: frozenset({"codeExecutionResult", "executableCode", "toolCall", "toolResponse"}),
}
"""By dialect, the types of what ran at the vendor, or is only readable there."""

RUN_BY_CLIENT: Final[Mapping[str, str]] = {
    "apply_patch_call": "apply_patch",
    "local_shell_call": "local_shell",
    "shell_call": "shell",
}
"""Calls of the Responses API that the client runs, by type, and the name of their function."""

_ANSWERS: Final = frozenset(f"{one}_output" for one in RUN_BY_CLIENT)
_INSIDE: Final = frozenset({"action", "operation", "environment"})

_object: Final = msgspec.json.Decoder(dict[str, Raw])
_text: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.Encoder().encode


def _without_foreign(request: Request, aim: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    messages: list[Message] = []
    left_out = changed = False
    for one in request.messages:
        parts = one.content
        if not isinstance(parts, tuple) or not any(_is_foreign(part, aim) for part in parts):
            messages.append(one)
            continue
        kept = tuple([part for part in parts if not _is_left_out(part, aim)])
        left_out = left_out or len(kept) < len(parts)
        turns = _split(replace(one, content=kept), aim)
        changed = changed or any(_is_run(part, aim) for part in kept)
        messages += [turn for turn in turns if turn.content or turn.tool_calls or turn.thoughts]
    if not left_out and not changed:
        return None
    return Repaired(
        request=replace(request, messages=tuple(messages)),
        changed=("messages[].content[]",) if changed else (),
        left_out=("messages[].content[]",) if left_out else (),
    )


def _is_foreign(part: Part, aim: Aim) -> bool:
    return _is_left_out(part, aim) or _is_run(part, aim)


def _is_left_out(part: Part, aim: Aim) -> bool:
    if not isinstance(part, OpaquePart) or not part.dialect:
        return False
    if part.type not in OF_VENDORS.get(part.dialect, ()):
        return False
    return part.dialect != aim.dialect or MADE_HERE.encode() in bytes(part.raw)


def _is_run(part: Part, aim: Aim) -> bool:
    if not isinstance(part, OpaquePart) or part.dialect != RESPONSES or aim.dialect == RESPONSES:
        return False
    return part.type in RUN_BY_CLIENT or part.type in _ANSWERS


def _split(one: Message, aim: Aim) -> Sequence[Message]:
    """Return the turns that the model's items become: text, calls, their results, text, …"""
    parts = cast("tuple[Part, ...]", one.content)
    if not any(_is_run(part, aim) for part in parts):
        return [replace(one, raw=msgspec.UNSET)]
    turns: list[Message] = []
    texts: list[Part] = []
    calls: list[ToolCall] = []
    results: list[Message] = []

    def end_turn() -> None:
        if texts or calls:
            content = tuple(texts) or None
            turns.append(Message(role="assistant", content=content, tool_calls=tuple(calls)))
        turns.extend(results)
        texts.clear()
        calls.clear()
        results.clear()

    for part in parts:
        if not isinstance(part, OpaquePart) or not _is_run(part, aim):
            if results:
                end_turn()
            texts.append(part)
        elif part.type in RUN_BY_CLIENT:
            if results:
                end_turn()
            calls.append(_call(part))
        else:
            results.append(_result(part))
    end_turn()
    if one.tool_calls:
        last = turns[-1] if turns and turns[-1].role == "assistant" else Message(role="assistant")
        turns = [*(turns[:-1] if last in turns else turns)]
        turns.append(replace(last, tool_calls=last.tool_calls + one.tool_calls))
    if one.thoughts and turns:
        turns[0] = replace(turns[0], thoughts=one.thoughts)
    return turns


def _call(part: OpaquePart) -> ToolCall:
    fields = _read(part.raw)
    given = {name: fields[name] for name in _INSIDE if name in fields}
    return ToolCall(
        id=_id(fields), name=RUN_BY_CLIENT[part.type], arguments=_encode(given).decode()
    )


def _result(part: OpaquePart) -> Message:
    fields = _read(part.raw)
    output = fields.get("output", Raw(b'""'))
    try:
        text = _text.decode(output)
    except DecodeError:
        text = bytes(output).decode("utf-8", "replace")
    return Message(role="tool", tool_call_id=_id(fields), content=(TextPart(text=text),))


def _id(fields: Mapping[str, Raw]) -> str:
    for name in ("call_id", "id"):
        try:
            return _text.decode(fields.get(name, Raw(b"null")))
        except DecodeError:
            continue
    return "call"


def _read(raw: Raw | UnsetType) -> dict[str, Raw]:
    try:
        return _object.decode(raw) if isinstance(raw, Raw) else {}
    except (DecodeError, RecursionError):
        return {}


FOREIGN_ITEMS: Final = Repair(
    name="foreign_items",
    about="leaves out what ran at another vendor; calls that the client ran become function calls",
    source="https://github.com/maximhq/bifrost/issues/4596",
    facts=OPAQUE,
    apply=_without_foreign,
    example=ChatRequest(
        "m",
        (
            Message(role="user", content="Who won?"),
            Message(
                role="assistant",
                content=(
                    OpaquePart(
                        type="web_search_call",
                        raw=Raw(b'{"type":"web_search_call","id":"ws_1"}'),
                        dialect=RESPONSES,
                    ),
                    TextPart(text="The home team."),
                ),
            ),
            Message(role="user", content="By how much?"),
        ),
    ),
    loss="hint",
)
