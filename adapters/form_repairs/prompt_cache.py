"""Marks of prompt caches for clients that send none, at vendors that cache only what is marked.

Claude reads a prompt from its cache at a tenth of the price, but only up to marks in the request,
and most clients know none. An agent's loop sends each prompt again a moment later with a result at
its end, so three marks suffice: behind the instructions, behind what the request before had, and at
the end. Writing costs a quarter more than no cache, so a request that may never be continued
has none.
https://platform.claude.com/docs/en/build-with-claude/prompt-caching
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.form_repairs.cache_limits import MARK, has_marks
from strowger_gateway.adapters.repairs.rewriting import json_of, with_content, with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import CALLS
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    Part,
    TextPart,
    Tool,
    ToolCall,
)
from strowger_gateway.schemas.requests import ChatRequest, Request

PromptCache = Literal["auto", "always", "off"]
"""auto: in loops of tools. always: in all requests that are long enough. off: in none."""

LEAST: Final = 4096
"""Characters of a prompt below which no mark is set, about 1,024 tokens: the vendor caches nothing
shorter, and of some models nothing below four times that."""

MARKS: Final = "messages[].content[].cache_control"
"""Where marks are, as clients write them."""

_MARK: Final = {MARK: {"type": "ephemeral"}}
_SYSTEM: Final = frozenset({"system", "developer"})
_ASKS: Final = frozenset({"user", "tool"})


def prompt_cache(mode: PromptCache, models: Callable[[str], bool]) -> tuple[Repair, ...]:
    """Return the rule for a backend; none for the mode `off`. models: those that read marks."""
    if mode == "off":
        return ()
    return (replace(PROMPT_CACHE, models=models, facts=CALLS if mode == "auto" else 0),)


def _marked(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or _is_short(request):
        return None
    if MARK in request.extra or has_marks(request):
        return None
    foreign = request.original is not None
    messages, tools = list(request.messages), list(request.tools or ())
    for at in _places(messages):
        messages[at] = _marked_message(messages[at], foreign=foreign)
    if tools and not any(one.role in _SYSTEM for one in messages):
        tools[-1] = _marked_tool(tools[-1], foreign=foreign)
    changes: dict[str, object] = {"messages": tuple(messages), "nested": True}
    if tools:
        changes["tools"] = tuple(tools)
    sent = replace(request, **changes)
    return Repaired(request=sent, changed=(MARKS,)) if has_marks(sent) else None


def _is_short(request: ChatRequest) -> bool:
    """Return whether there is certainly too little to cache."""
    length = 0
    for one in request.messages:
        content = one.content or ()
        if isinstance(content, str):
            length += len(content)
        else:
            length += sum([_length(part) for part in content])
        length += sum(len(call.arguments) for call in one.tool_calls)
        if length >= LEAST:
            return False
    for tool in request.tools or ():
        if isinstance(tool, FunctionTool):
            length += len(tool.description or "") + len(bytes(tool.parameters or b""))
    return length < LEAST


def _length(part: Part) -> int:
    """Return the length of a text; what else there may be counts as long enough."""
    return len(part.text) if isinstance(part, TextPart) else LEAST


def _places(messages: Sequence[Message]) -> list[int]:
    """Return the last instruction, the end of the request before this one, and the end."""
    systems = [at for at, one in enumerate(messages) if one.role in _SYSTEM]
    asked = [at for at, one in enumerate(messages) if one.role in _ASKS]
    answered = [at for at, one in enumerate(messages) if one.role == "assistant"]
    before = [at for at in asked if answered and at < answered[-1]]
    return sorted({*systems[-1:], *before[-1:], *asked[-1:]})


def _marked_message(one: Message, *, foreign: bool) -> Message:
    """Mark the last part, if it is a text or an image. foreign: not in OpenAI's dialect."""
    content = one.content
    if isinstance(content, str):
        content = (TextPart(text=content),)
    if not content:
        return one
    last = content[-1]
    if not isinstance(last, TextPart | ImagePart) or _is_blank(last):
        return one
    return with_content(one, (*content[:-1], _marked_part(last, foreign=foreign)))


def _is_blank(part: TextPart | ImagePart) -> bool:
    return isinstance(part, TextPart) and not part.text.strip()


def _marked_part(one: TextPart | ImagePart, *, foreign: bool) -> Part:
    if isinstance(one.raw, Raw):
        return replace(one, raw=with_members(one.raw, _MARK))
    if foreign:
        known = one.marks if isinstance(one.marks, Raw) else _EMPTY
        return replace(one, marks=with_members(known, _MARK))
    if isinstance(one, TextPart):
        return replace(one, raw=json_of({"type": "text", "text": one.text, **_MARK}))
    return replace(one, raw=json_of({"type": "image_url", "image_url": {"url": one.url}, **_MARK}))


def _marked_tool(one: Tool, *, foreign: bool) -> Tool:
    if not isinstance(one, FunctionTool):
        return one
    if isinstance(one.raw, Raw):
        return replace(one, raw=with_members(one.raw, _MARK))
    if not foreign:
        return one
    known = one.marks if isinstance(one.marks, Raw) else _EMPTY
    return replace(one, marks=with_members(known, _MARK))


_EMPTY: Final = Raw(b"{}")
_CALL: Final = ToolCall(id="call_1", name="look_up", arguments="{}")

PROMPT_CACHE: Final = Repair(
    name="prompt_cache",
    about="marks what the vendor caches, if the client marks nothing (`models[].prompt_cache`)",
    source="https://platform.claude.com/docs/en/build-with-claude/prompt-caching",
    facts=CALLS,
    apply=_marked,
    example=ChatRequest(
        "m",
        (
            Message(role="system", content="Be brief. " * 500),
            Message(role="user", content="Look it up."),
            Message(role="assistant", tool_calls=(_CALL,)),
            Message(role="tool", tool_call_id="call_1", content="It rains."),
        ),
        tools=(FunctionTool(name="look_up"),),
    ),
    example_model="claude-sonnet-4-5",
    light=True,
)
"""The rule of a backend in the mode `auto`."""
