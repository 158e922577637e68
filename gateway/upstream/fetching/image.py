"""What is fetched, and what is asked for it; whoever only might ask loads no HTTP client."""

from typing import Protocol

from msgspec import Struct


class Image(Struct, frozen=True, kw_only=True):
    """media_type: `image/…`."""

    media_type: str
    data: bytes


class Images(Protocol):
    """Where images are had. max_bytes: of all images of a request together."""

    max_bytes: int

    async def image(self, url: str, where: str, limit: int) -> Image:
        """What is at the URL.

        where: the URL's path in the request. limit: bytes.
        Raises InvalidRequest that says why it cannot be had.
        """
        ...
