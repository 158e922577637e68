"""Images that a model generates, in the form in which OpenAI-compatible clients get them.

They are `images` of the answer's message, a field that OpenRouter defined: parts of type
`image_url` with the bytes in a `data:` URI.
https://openrouter.ai/docs/features/multimodal/image-generation
"""

from typing import Final

from msgspec import Struct

IMAGES: Final = "images"


class _Url(Struct, frozen=True, kw_only=True):
    url: str


class Image(Struct, frozen=True, kw_only=True):
    """index: its index among the message's images."""

    type: str = "image_url"
    image_url: _Url
    index: int = 0


def image_of(media_type: str, data: str, index: int) -> Image:
    """data: base64. index: the image's index among the message's images."""
    return Image(image_url=_Url(url=f"data:{media_type};base64,{data}"), index=index)
