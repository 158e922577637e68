"""What is fetched, and what is asked for it; whoever only might ask loads no HTTP client."""

from typing import Protocol

from msgspec import Struct

from gateway.upstream.image_fetching.budget import ByteMeter, FairSlots


class Image(Struct, frozen=True, kw_only=True):
    """media_type: `image/…`."""

    media_type: str
    data: bytes


class ImageSource(Protocol):
    """Where images are had.

    max_bytes:   of all images of a request together.
    connections: of one request at once.
    lines:       connections of all requests; memory: bytes of all requests' images.
    """

    max_bytes: int
    connections: int
    lines: FairSlots
    memory: FairSlots

    async def image(self, url: str, where: str, meter: ByteMeter) -> Image:
        """What is at the URL.

        where: the URL's path in the request. meter: counts what comes.
        Raises InvalidRequest that says why it cannot be had.
        """
        ...
