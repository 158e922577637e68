"""Turns of the model that say nothing, which most vendors refuse.

An agent keeps the turns that it cancelled. A client of the Messages API returns a turn that was cut
off while the model thought: what it thought goes with the turn, since it led to nothing.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from strowger_gateway.adapters.form_repairs.answer_fields import has_content_beside
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import BLANK, PARTS
from strowger_gateway.schemas.messages import Message, TextPart, Thought
from strowger_gateway.schemas.requests import ChatRequest, Request

_Silent = Callable[[Message], bool]


def _without(is_silent: _Silent) -> Callable[[Request, Aim], Repaired | None]:
    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        begun = request.messages[-1:] if request.begun else ()
        past = request.messages[: len(request.messages) - len(begun)]
        kept = (*[one for one in past if not (one.role == "assistant" and is_silent(one))], *begun)
        if not kept or len(kept) == len(request.messages):
            return None
        return Repaired(request=replace(request, messages=kept), left_out=("messages[]",))

    return apply


def _is_empty(one: Message) -> bool:
    silent = _says_nothing(one) and not one.thoughts and not one.reasoning
    return silent and not has_content_beside(one)


def _says_nothing(one: Message) -> bool:
    return one.content is None and not one.tool_calls


def _is_blank(one: Message) -> bool:
    if one.tool_calls:
        return False
    if isinstance(one.content, tuple):
        return all(isinstance(part, TextPart) and not part.text.strip() for part in one.content)
    return not (one.content or "").strip()


def _turns(*past: Message) -> ChatRequest:
    first, last = (Message(role="user", content=text) for text in ("Hello.", "Are you there?"))
    return ChatRequest("m", (first, *past, last))


EMPTY_TURNS: Final = Repair(
    name="silent_turn",
    about="leaves out turns of the model without text, calls and reasoning",
    source="https://github.com/docker/docker-agent/issues/63",
    facts=BLANK,
    apply=_without(_is_empty),
    example=_turns(Message(role="assistant")),
    light=True,
)
"""Every backend's."""

SILENT_TURNS: Final = Repair(
    name="silent_turn",
    about="leaves out turns of the model without text and calls",
    source="https://github.com/docker/docker-agent/issues/63",
    facts=BLANK,
    apply=_without(_says_nothing),
    example=_turns(Message(role="assistant", thoughts=(Thought(text="Let me think."),))),
    light=True,
)
"""Of a dialect in which a turn is its text or its calls."""


def blank_turns(source: str) -> Repair:
    """Return the rule for a vendor that refuses blank texts of the model, too."""
    return Repair(
        name="silent_turn",
        about="leaves out turns of the model without calls and without any text but white space",
        source=source,
        facts=BLANK | PARTS,
        apply=_without(_is_blank),
        example=_turns(Message(role="assistant", content=(TextPart(text=" "),))),
        light=True,
    )
