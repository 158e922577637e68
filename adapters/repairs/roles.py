"""Roles that a server does not know, and system messages in the middle of a conversation."""

from collections.abc import Callable

from msgspec.structs import replace

from adapters.repairs.rewriting import each_message, rebuilt, rewritten
from adapters.repairs.rule import Aim, Repair, Repaired, every_model
from schemas.content_facts import DEVELOPER, LATER_SYSTEM
from schemas.messages import Message, Part, TextPart
from schemas.requests import ChatRequest, Request

_SYSTEM = frozenset({"system", "developer"})


def _system_for_developer(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _as_system)
    return None if found is None else Repaired(request=found, changed=("messages[].role",))


def _as_system(one: Message) -> Message:
    if one.role != "developer":
        return one
    return rewritten(one, {"role": "system"}, role="system")


DEVELOPER_ROLE = Repair(
    name="developer_role",
    about="sends `developer` as `system`, which means the same to every server but OpenAI's",
    source="https://github.com/EKKOLearnAI/hermes-studio/issues/1926",
    facts=DEVELOPER,
    apply=_system_for_developer,
    example=ChatRequest(
        "m",
        (Message(role="developer", content="Be brief."), Message(role="user", content="Hello")),
    ),
    light=True,
)
"""Only OpenAI's own servers know the role `developer`; `system` means the same to all others."""


def _in_place(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    begun = False
    messages: list[Message] = []
    for one in request.messages:
        if one.role not in _SYSTEM:
            begun = True
        elif begun:
            one = _as_user(one)
        messages.append(one)
    if all(new is old for new, old in zip(messages, request.messages, strict=True)):
        return None
    return Repaired(
        request=replace(request, messages=tuple(messages)), changed=("messages[].role",)
    )


def _as_user(one: Message) -> Message:
    """Return the instruction as the user's text, marked as the system's."""
    if not isinstance(one.content, tuple):
        text = f"<system>\n{one.content or ''}\n</system>"
        return rebuilt(one, role="user", content=text)
    parts: tuple[Part, ...] = (
        TextPart(text="<system>"),
        *one.content,
        TextPart(text="</system>"),
    )
    return rebuilt(one, role="user", content=parts)


def later_system(source: str, models: Callable[[str], bool] = every_model) -> Repair:
    """Return the rule for a vendor whose system prompt is one field at the head.

    Moved there, a later message would change the prompt's beginning, which the vendor caches, and
    would apply to the turns before it. It keeps its place as a marked text of the user.
    source: where the vendor says that it has no such messages. models: those that have none.
    """
    return Repair(
        name="later_system",
        about="sends a later system message as a user text in `<system>` marks, in its place",
        source=source,
        facts=LATER_SYSTEM,
        apply=_in_place,
        example=ChatRequest(
            "m",
            (
                Message(role="user", content="one"),
                Message(role="assistant", content="two"),
                Message(role="system", content="Be brief."),
                Message(role="user", content="three"),
            ),
        ),
        models=models,
        light=True,
    )
