"""The media type of an image, where a vendor compares it with the image's bytes.

Clients name every screenshot a PNG, and tools that convert images keep the name.
"""

from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.adapters.repairs.rewriting import each_message, with_content, with_members
from strowger_gateway.adapters.repairs.rule import Aim, Repair, Repaired
from strowger_gateway.schemas.content_facts import IMAGES
from strowger_gateway.schemas.messages import ImagePart, Message, Part
from strowger_gateway.schemas.requests import ChatRequest, Request

_SIGNATURES: Final = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
)
"""How the base64 of an image begins. https://www.w3.org/TR/png-3/#5PNG-file-signature and others"""

_RIFF, _WEBP = "UklGR", "RUJQ"
"""`RIFF`, and the last three letters of `WEBP`, which begin at the ninth byte.
https://developers.google.com/speed/webp/docs/riff_container"""

_WEBP_AT: Final = 12


def _typed(request: Request, _: Aim) -> Repaired | None:
    if not isinstance(request, ChatRequest):
        return None
    found = each_message(request, _message)
    if found is None:
        return None
    return Repaired(request=found, changed=("messages[].content[].image_url.url",))


def _message(one: Message) -> Message:
    if not isinstance(one.content, tuple):
        return one
    parts = tuple([_part(part) for part in one.content])
    if all(new is old for new, old in zip(parts, one.content, strict=True)):
        return one
    return with_content(one, parts)


def _part(part: Part) -> Part:
    if not isinstance(part, ImagePart) or part.remote:
        return part
    head, comma, data = part.url.partition(",")
    named, _, parameters = head[len("data:") :].partition(";")
    kind = _kind(data)
    if not comma or not kind or kind == named.strip().lower():
        return part
    url = f"data:{kind};{parameters or 'base64'},{data}"
    raw = part.raw
    if raw is not UNSET:
        image = {"url": url} if part.detail is UNSET else {"url": url, "detail": part.detail}
        raw = with_members(raw, {"image_url": image})
    return replace(part, url=url, raw=raw)


def _kind(data: str) -> str:
    """Return the media type by the first bytes; "" if they are of no type that vendors read."""
    begins = data[:24].strip()
    for signature, kind in _SIGNATURES:
        if begins.startswith(signature):
            return kind
    webp = begins.startswith(_RIFF) and begins.startswith(_WEBP, _WEBP_AT)
    return "image/webp" if webp else ""


def image_types(source: str) -> Repair:
    """Return the rule for a vendor that refuses an image under another type's name."""
    return Repair(
        name="image_type",
        about="names an image's media type by its bytes",
        source=source,
        facts=IMAGES,
        apply=_typed,
        example=ChatRequest(
            "m",
            (
                Message(
                    role="user", content=(ImagePart(url="data:image/png;base64,/9j/4AAQSkZJRg=="),)
                ),
            ),
        ),
    )
