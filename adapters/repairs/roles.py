"""Roles that a server does not know, and system messages that are not the first message."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import each_message, rewritten
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import DEVELOPER, HEADS, LATER_SYSTEM
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Request
from strowger_gateway.schemas.system_messages import with_joined_head, with_later_in_place


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


def _changed(
    request: Request, change: Callable[[Sequence[Message]], Sequence[Message]], path: str
) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    messages = change(request.messages)
    if messages is request.messages:
        return None
    return Repaired(request=replace(request, messages=tuple(messages)), changed=(path,))


def later_system(
    source: str,
    models: Callable[[str], bool] = every_model,
    takes_placed: Callable[[str], bool] | None = None,
) -> Repair:
    """Return the rule for a vendor whose system prompt is one field or message at the beginning.

    source: where the vendor says that it has no other. models: those that have none.
    takes_placed: models that take one between the user's turn and the answer.
    """

    def apply(request: Request, aim: Aim) -> Repaired | None:
        placed = takes_placed is not None and takes_placed(aim.model)
        change = partial(with_later_in_place, placed=placed)
        return _changed(request, change, "messages[].role")

    return Repair(
        name="later_system",
        about="sends a later system message as a user text in `<system>` marks, in its place",
        source=source,
        facts=LATER_SYSTEM,
        apply=apply,
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


def one_system(source: str, models: Callable[[str], bool] = every_model) -> Repair:
    """Return the rule for a server whose templates take one system message."""
    return Repair(
        name="one_system",
        about="joins the system messages at the beginning into one",
        source=source,
        facts=HEADS,
        apply=lambda request, _: _changed(request, with_joined_head, "messages[]"),
        example=ChatRequest(
            "m",
            (
                Message(role="system", content="Be brief."),
                Message(role="system", content="Be polite."),
                Message(role="user", content="Hello"),
            ),
        ),
        models=models,
        light=True,
    )


_TEMPLATES: Final = "https://github.com/ggml-org/llama.cpp/issues/27367"
_QWEN: Final = re.compile(r"qwen-?(?:3[.-][5-9]|[4-9])", re.IGNORECASE)


def _is_strict(model: str) -> bool:
    return _QWEN.search(model) is not None


ONE_SYSTEM: Final = (one_system(_TEMPLATES), later_system(_TEMPLATES))
"""Model servers, of whose template nothing is known: every template takes this."""

QWEN_SYSTEM: Final = (one_system(_TEMPLATES, _is_strict), later_system(_TEMPLATES, _is_strict))
"""Servers of many models, of which Qwen's are known to take nothing else."""
