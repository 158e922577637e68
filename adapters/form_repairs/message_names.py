"""Names of messages, where a vendor takes some of them.

Agent frameworks name messages as people are called. OpenAI refuses a name with a space or an
accent, and xAI all names but those of users.
"""

import re
from collections.abc import Callable
from typing import Final

from msgspec import UNSET

from strowger_gateway.adapters.repairs.rewriting import each_message, rewritten
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired, every_model
from strowger_gateway.schemas.content_facts import NAMES
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, Request

LONGEST: Final = 64

_OTHER: Final = re.compile("[^a-zA-Z0-9_-]+")


def _named(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _with_name)
    return None if found is None else Repaired(request=found, changed=("messages[].name",))


def _with_name(one: Message) -> Message:
    if not one.name or one.role in ("tool", "function"):
        return one
    name = _OTHER.sub("_", one.name)[:LONGEST]
    if name == one.name:
        return one
    sent = name if name.strip("_") else UNSET
    return rewritten(one, {"name": sent}, name=sent)


def message_names(source: str, models: Callable[[str], bool] = every_model) -> Repair:
    """Return the rule for a vendor with OpenAI's alphabet."""
    return Repair(
        name="message_name_form",
        about="writes names of messages with letters of ASCII, digits, `_` and `-`",
        source=source,
        facts=NAMES,
        apply=_named,
        example=ChatRequest("m", (Message(role="user", content="Hello", name="Ann Bee"),)),
        models=models,
        loss="hint",
        light=True,
    )


def _of_users(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _unless_user)
    return None if found is None else Repaired(request=found, left_out=("messages[].name",))


def _unless_user(one: Message) -> Message:
    if one.name is UNSET or one.role in ("user", "tool", "function"):
        return one
    return rewritten(one, {"name": UNSET}, name=UNSET)


NAMES_OF_USERS: Final = Repair(
    name="message_name",
    about="leaves out the names of messages that are not the user's",
    source="https://github.com/BerriAI/litellm/issues/9720",
    facts=NAMES,
    apply=_of_users,
    example=ChatRequest("m", (Message(role="system", content="Be kind.", name="host"),)),
    loss="hint",
    light=True,
)
"""xAI's."""
