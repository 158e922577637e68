"""The order of turns that a model's chat template takes, where others do not care.

Mistral's templates want an answer between a tool's result and the user's next message, and some
want user and assistant to alternate. An interrupted agent, a reminder or an image of a result makes
another order, which stays in the conversation.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import with_content
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import CALLS, LATER_SYSTEM, NEIGHBOURS, TOOL_MEDIA
from strowger_gateway.schemas.messages import Message, Part, TextPart, ToolCall
from strowger_gateway.schemas.requests import ChatRequest, Request

BRIDGE: Final = "OK."
"""The answer between a result and the user."""

_MISTRAL: Final = re.compile(
    r"mistral|mixtral|ministral|devstral|codestral|magistral|pixtral|voxtral", re.IGNORECASE
)
_RESULTS: Final = frozenset({"tool", "function"})
SPEAKERS: Final = frozenset({"user", "assistant"})
_FACTS: Final = NEIGHBOURS | LATER_SYSTEM | TOOL_MEDIA | CALLS
"""Rules that run before this one make messages of the user, too."""


def is_mistral(model: str) -> bool:
    """Return whether Mistral makes the model."""
    return _MISTRAL.search(model) is not None


def _bridged(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    messages: list[Message] = []
    for one in request.messages:
        if messages and messages[-1].role in _RESULTS and one.role == "user":
            messages.append(Message(role="assistant", content=BRIDGE))
        messages.append(one)
    if len(messages) == len(request.messages):
        return None
    return Repaired(request=replace(request, messages=tuple(messages)), changed=("messages[]",))


def answer_after_result(source: str, models: Callable[[str], bool] = every_model) -> Repair:
    """Return the rule for models that take no message of the user directly after a result."""
    return Repair(
        name="answer_after_result",
        about=f"puts the answer {BRIDGE!r} between a tool's result and the user's message",
        source=source,
        facts=CALLS,
        apply=_bridged,
        example=ChatRequest(
            "m",
            (
                Message(role="user", content="What is the weather?"),
                Message(
                    role="assistant",
                    tool_calls=(ToolCall(id="call00001", name="weather", arguments="{}"),),
                ),
                Message(role="tool", tool_call_id="call00001", content="Sunny."),
                Message(role="user", content="And tomorrow?"),
            ),
        ),
        example_model="mistral-large",
        models=models,
        light=True,
    )


MISTRAL_ORDER: Final = answer_after_result(
    "https://github.com/NousResearch/hermes-agent/issues/20154", is_mistral
)
"""Mistral's models, at every server."""


def _joined(messages: Sequence[Message], roles: Collection[str]) -> Iterator[Message]:
    before: Message | None = None
    for one in messages:
        if before is not None and one.role in roles and _is_same(before, one):
            before = _both(before, one)
            continue
        if before is not None:
            yield before
        before = one
    if before is not None:
        yield before


def _is_same(before: Message, one: Message) -> bool:
    return before.role == one.role and not before.tool_calls and before.name == one.name


def _both(before: Message, one: Message) -> Message:
    """Return two messages as one; what is only in the first one's JSON is lost."""
    thoughts = before.thoughts + one.thoughts
    found = with_content(one, _content(before.content, one.content))
    return replace(found, thoughts=thoughts) if thoughts != one.thoughts else found


def _content(
    first: str | tuple[Part, ...] | None, second: str | tuple[Part, ...] | None
) -> str | tuple[Part, ...] | None:
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return (*_parts(first), *_parts(second))


def _parts(content: str | tuple[Part, ...]) -> tuple[Part, ...]:
    return (TextPart(text=content),) if isinstance(content, str) else content


def alternating(source: str, roles: Collection[str] = SPEAKERS) -> Repair:
    """Return the rule for a vendor that takes no two messages of one of the roles in a row."""

    def apply(request: Request, _: Aim) -> Repaired | None:
        if not isinstance(request, ChatRequest):
            return None
        messages = tuple(_joined(request.messages, roles))
        if len(messages) == len(request.messages):
            return None
        return Repaired(request=replace(request, messages=messages), changed=("messages[]",))

    return Repair(
        name="alternating",
        about="joins messages of one speaker that follow each other",
        source=source,
        facts=_FACTS,
        apply=apply,
        example=ChatRequest(
            "m",
            (
                Message(role="user", content="Hello."),
                Message(role="assistant", content="Hello!"),
                Message(role="assistant", content="How are you?"),
                Message(role="user", content="Well."),
            ),
        ),
        light=True,
    )
