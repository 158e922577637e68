"""Rules of a conversation's turns: what Claude refuses in them, at Anthropic and at Bedrock.

Interrupted agents leave turns that are empty, or that consist of thinking, and the whole history is
sent again with every later turn, so that one such turn ends the conversation.
"""

from typing import Final

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.adapters.anthropic.asked_thinking import asked
from strowger_gateway.adapters.anthropic.claude_models import (
    always_thinks,
    claude,
    may_be_claude,
    takes_prefill,
)
from strowger_gateway.adapters.anthropic.kept_turns import kept_turns
from strowger_gateway.adapters.form_repairs.arguments import call_arguments
from strowger_gateway.adapters.form_repairs.presence import (
    blank_text,
    no_prefill,
    trailing_space,
    user_first,
)
from strowger_gateway.adapters.repairs.rewriting import each_message, with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.adapters.repairs.thoughts import without_thoughts
from strowger_gateway.adapters.tool_repairs.failed_results import failed_results
from strowger_gateway.schemas.content_facts import LAST_ANSWER, THOUGHTS
from strowger_gateway.schemas.fields import REASONING
from strowger_gateway.schemas.messages import CLAUDE, Message, TextPart, Thought
from strowger_gateway.schemas.requests import ChatRequest, Original, Request

_MARK: Final = "cache_control"
_OPUS: Final = "claude-opus-4-5"
_HELLO: Final = Message(role="user", content="Hello")
_PROVEN: Final = (Thought(text="Hm.", signature="c2ln", format=CLAUDE),)


def _thinks(one: Message) -> bool:
    return bool(one.thoughts or one.reasoning)


def _says_more(one: Message) -> bool:
    """Return whether a turn has more than thinking."""
    if one.tool_calls:
        return True
    if isinstance(one.content, tuple):
        return any(not isinstance(part, TextPart) or part.text.strip() for part in one.content)
    return bool(one.content and one.content.strip())


def _without_lone(one: Message) -> Message:
    lone = one.role == "assistant" and _thinks(one) and not _says_more(one)
    return without_thoughts(one) if lone else one


def _lone_thinking(request: Request, _: Aim) -> Repaired | None:
    found = each_message(request, _without_lone) if isinstance(request, ChatRequest) else None
    return None if found is None else Repaired(request=found, left_out=(REASONING,))


def _last_thinking(request: Request, aim: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest) or not request.messages:
        return None
    *before, last = request.messages
    if last.role != "assistant" or not _thinks(last):
        return None
    if asked(request).thinks or always_thinks(aim.model):
        return None
    sent = replace(request, messages=(*before, without_thoughts(last)))
    return Repaired(request=sent, left_out=(REASONING,))


class _Content(Struct, frozen=True, kw_only=True):
    content: str | tuple[Raw, ...] = ""


class _Block(Struct, frozen=True, kw_only=True):
    type: str = ""
    cache_control: Raw | UnsetType = UNSET


_content: Final = msgspec.json.Decoder(_Content).decode
_block: Final = msgspec.json.Decoder(_Block).decode


def _marks_thinking(turn: Raw) -> bool:
    """Return whether a turn of a client of the Messages API marks its thinking for the cache."""
    if _MARK.encode() not in bytes(turn):
        return False
    try:
        content = _content(turn).content
        blocks = [_block(one) for one in content if isinstance(one, Raw)]
    except (DecodeError, RecursionError):
        return False
    return any(one.cache_control is not UNSET and "thinking" in one.type for one in blocks)


def _marked_thinking(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    messages = list(request.messages)
    for place, turn in kept_turns(request).items():
        marks = messages[place].marks
        if isinstance(marks, Raw) and messages[place].thoughts and _marks_thinking(turn.raw):
            messages[place] = replace(messages[place], marks=with_members(marks, {_MARK: UNSET}))
    if all(new is old for new, old in zip(messages, request.messages, strict=True)):
        return None
    return Repaired(
        request=replace(request, messages=tuple(messages)), left_out=(f"messages[].{_MARK}",)
    )


_MARKED: Final = (
    _HELLO,
    Message(
        role="assistant",
        content="Hi.",
        thoughts=_PROVEN,
        marks=Raw(b'{"cache_control":{"type":"ephemeral"}}'),
    ),
    Message(role="user", content="Go on."),
)
_TURNS: Final = Raw(
    b'[{"role":"user","content":"Hello"},{"role":"assistant","content":[{"type":"thinking",'
    b'"thinking":"Hm.","signature":"c2ln","cache_control":{"type":"ephemeral"}},'
    b'{"type":"text","text":"Hi."}]},{"role":"user","content":"Go on."}]'
)

MARKED_THINKING: Final = Repair(
    name="marked_thinking",
    about="leaves out marks of prompt caches on thinking",
    source="https://github.com/anthropics/claude-code/issues/50082",
    facts=THOUGHTS,
    apply=_marked_thinking,
    example=ChatRequest(
        "m",
        _MARKED,
        nested=True,
        original=Original(
            dialect="anthropic",
            fields={"messages": _TURNS},
            read=ChatRequest("m", _MARKED),
            turns=(1, 1, 1),
        ),
    ),
    example_model=_OPUS,
    loss="hint",
    light=True,
)

LONE_THINKING: Final = Repair(
    name="lone_thinking",
    about="leaves out the thinking of a turn that has nothing else",
    source="https://github.com/tailcallhq/forgecode/issues/3071",
    facts=THOUGHTS,
    apply=_lone_thinking,
    example=ChatRequest("m", (_HELLO, Message(role="assistant", thoughts=_PROVEN), _HELLO)),
    example_model=_OPUS,
    loss="hint",
    models=may_be_claude,
    light=True,
)

LAST_THINKING: Final = Repair(
    name="last_thinking",
    about="leaves out the thinking of a begun answer that the model continues without thinking",
    source="https://github.com/tailcallhq/forgecode/issues/1853",
    facts=LAST_ANSWER,
    apply=_last_thinking,
    example=ChatRequest("m", (_HELLO, Message(role="assistant", content="Yes,", thoughts=_PROVEN))),
    example_model=_OPUS,
    loss="hint",
    models=may_be_claude,
    light=True,
)


def _ends_with_user(model: str) -> bool:
    return claude(model) is not None and not takes_prefill(model)


TURN_REPAIRS: Final = (
    LONE_THINKING,
    call_arguments("https://docs.anthropic.com/en/api/messages#body-messages"),
    *failed_results("https://github.com/jlevy/markform/issues/153"),
    blank_text("https://github.com/anthropics/claude-code/issues/23440", with_calls=True),
    user_first("https://github.com/lobehub/lobehub/issues/1601"),
    no_prefill(
        "https://github.com/smallmain/vscode-unify-chat-provider/issues/249",
        _ends_with_user,
        "claude-opus-4-6",
    ),
    LAST_THINKING,
    trailing_space(
        "https://github.com/tailcallhq/forgecode/issues/1872", may_be_claude, "claude-opus-4-5"
    ),
)
"""In the order in which they run."""
