"""Interface of image fetching, separate so that its users need not load an HTTP client."""

from typing import Protocol

from msgspec import Struct

from strowger_gateway.gateway.backends.upstream.image_fetching.byte_meter import ByteMeter
from strowger_gateway.gateway.platform.fair_slots import FairSlots


class Image(Struct, frozen=True, kw_only=True):
    """media_type: `image/…`."""

    media_type: str
    data: bytes


class ImageSource(Protocol):
    """Source of images.

    max_bytes:   of all images of a request in total.
    connections: of one request at a time.
    lines:       connections of all requests; memory: bytes of all requests' images.
    """

    max_bytes: int
    connections: int
    lines: FairSlots
    memory: FairSlots

    async def image(self, url: str, where: str, meter: ByteMeter) -> Image:
        """Fetch the image at the URL.

        where: path of the URL in the request. meter: counts the bytes that arrive.
        Raises InvalidRequest with the reason if it cannot be fetched.
        """
        ...
