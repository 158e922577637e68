"""Images that Gemini generates, to clients and back.

Images that the client sends back become parts of the model's turn again, so that the model can edit
them.
"""

import msgspec
from msgspec import Raw, Struct, UnsetType

from strowger_gateway.adapters.gemini.parts import Body, part_of
from strowger_gateway.adapters.generated_images import IMAGES, Image, image_of
from strowger_gateway.adapters.json_objects import UNREADABLE
from strowger_gateway.schemas.messages import ImagePart, Message


class _Inline(Struct, frozen=True, kw_only=True, rename="camel"):
    mime_type: str = ""
    data: str = ""


class _SentBack(Struct, frozen=True, kw_only=True):
    images: tuple[Image, ...] = ()


_inline = msgspec.json.Decoder(_Inline).decode
_read_sent_back = msgspec.json.Decoder(_SentBack).decode


def image_from(inline: Raw, index: int) -> Image | None:
    """Return `None` for bytes that are not an image, and for unreadable ones."""
    try:
        blob = _inline(inline)
    except UNREADABLE:
        return None
    if not blob.mime_type.startswith("image/"):
        return None
    return image_of(blob.mime_type, blob.data, index)


def sent_back(one: Message, field: str) -> list[Body]:
    """Return the images of an earlier answer; [] if none are readable.

    field: the message's path. Raises InvalidRequest, naming it, if an image lacks its bytes.
    """
    if isinstance(one.raw, UnsetType) or b'"images"' not in bytes(one.raw):
        return []
    try:
        images = _read_sent_back(one.raw).images
    except UNREADABLE:
        return []
    return [
        part_of(ImagePart(url=image.image_url.url), f"{field}.{IMAGES}[{place}]")
        for place, image in enumerate(images)
    ]
