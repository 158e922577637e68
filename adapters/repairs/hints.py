"""What a message says about itself that a backend may ignore: a name, the detail of an image."""

from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import (
    each_message,
    rewritten,
    with_content,
    with_members,
)
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import IMAGES, NAMES
from strowger_gateway.schemas.messages import ImagePart, Message, Part
from strowger_gateway.schemas.requests import ChatRequest, Request


def _unnamed(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _without_name)
    return None if found is None else Repaired(request=found, left_out=("messages[].name",))


def _without_name(one: Message) -> Message:
    if one.name is UNSET or one.role in ("tool", "function"):
        return one
    return rewritten(one, {"name": UNSET}, name=UNSET)


MESSAGE_NAMES: Final = Repair(
    name="message_name",
    about="leaves out the names of messages",
    source="https://github.com/BerriAI/litellm/pull/2399",
    facts=NAMES,
    apply=_unnamed,
    example=ChatRequest("m", (Message(role="user", content="Hello", name="user"),)),
    loss="hint",
    light=True,
)
"""Agent frameworks name each message, if only `user`; most APIs know no names."""


def _without_details(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _without_detail)
    if found is None:
        return None
    return Repaired(request=found, left_out=("messages[].content[].image_url.detail",))


def _without_detail(one: Message) -> Message:
    if not isinstance(one.content, tuple):
        return one
    parts = tuple([_plain(part) for part in one.content])
    if all(new is old for new, old in zip(parts, one.content, strict=True)):
        return one
    return with_content(one, parts)


def _plain(part: Part) -> Part:
    if not isinstance(part, ImagePart) or part.detail in (UNSET, "auto"):
        return part
    raw = part.raw
    if raw is not UNSET:
        raw = with_members(raw, {"image_url": {"url": part.url}})
    return replace(part, detail=UNSET, raw=raw)


IMAGE_DETAIL: Final = Repair(
    name="image_detail",
    about="leaves out an image's `detail`",
    source="https://platform.openai.com/docs/guides/images-vision#specify-image-input-detail-level",
    facts=IMAGES,
    apply=_without_details,
    example=ChatRequest(
        "m",
        (
            Message(
                role="user",
                content=(ImagePart(url="data:image/png;base64,iVBORw0KGgo=", detail="high"),),
            ),
        ),
    ),
    loss="hint",
)
"""How closely a model looks at an image, which only OpenAI's API lets a client choose."""
