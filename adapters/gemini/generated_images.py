"""Images that Gemini makes, in the form in which OpenAI-compatible clients know them, and back.

They are `images` of the answer's message, as OpenRouter defined it: parts of type `image_url` with
the bytes in a `data:` URI. Handed back, they are parts of the model's turn again, to be edited.
https://openrouter.ai/docs/features/multimodal/image-generation
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from adapters.gemini.parts import Body, part_of
from adapters.openai.wire import UNREADABLE
from schemas.messages import ImagePart, Message

IMAGES: Final = "images"


class _Inline(Struct, frozen=True, kw_only=True, rename="camel"):
    mime_type: str = ""
    data: str = ""


class _Url(Struct, frozen=True, kw_only=True):
    url: str


class Image(Struct, frozen=True, kw_only=True):
    """index: its place among the message's."""

    type: str = "image_url"
    image_url: _Url
    index: int = 0


class _Handed(Struct, frozen=True, kw_only=True):
    images: tuple[Image, ...] = ()


_inline = msgspec.json.Decoder(_Inline).decode
_handed = msgspec.json.Decoder(_Handed).decode


def image_from(inline: Raw, index: int) -> Image | None:
    """`None` for bytes that are no image, and for what cannot be read."""
    try:
        blob = _inline(inline)
    except UNREADABLE:
        return None
    if not blob.mime_type.startswith("image/"):
        return None
    return image_of(blob.mime_type, blob.data, index)


def image_of(media_type: str, data: str, index: int) -> Image:
    """data: base64. index: the image's place among the message's."""
    return Image(image_url=_Url(url=f"data:{media_type};base64,{data}"), index=index)


def handed_back(one: Message, field: str) -> list[Body]:
    """The images of an earlier answer; [] where there are none that can be read.

    Raises InvalidRequest, under the message's path `field`, for an image without its bytes.
    """
    if isinstance(one.raw, UnsetType) or b'"images"' not in bytes(one.raw):
        return []
    try:
        images = _handed(one.raw).images
    except UNREADABLE:
        return []
    return [
        part_of(ImagePart(url=image.image_url.url), f"{field}.{IMAGES}[{place}]")
        for place, image in enumerate(images)
    ]
