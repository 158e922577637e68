"""Bound the bytes of the images of one request."""

from strowger_gateway.schemas.errors import InvalidRequest


class ByteMeter:
    """Counts the bytes of one request's images as they arrive. limit: for all images in total."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def add(self, count: int, where: str) -> None:
        """Raises InvalidRequest for the first byte too many."""
        self.used += count
        if self.used > self.limit:
            raise InvalidRequest(
                f"{where} is too large: the images of a request may have at most {self.limit} "
                "bytes in total",
                param=where,
                code="invalid_image_url",
            )
