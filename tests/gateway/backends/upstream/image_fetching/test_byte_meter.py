"""The bytes of a request's images are bounded in total."""

import pytest

from strowger_gateway.gateway.backends.upstream.image_fetching.byte_meter import ByteMeter
from strowger_gateway.schemas.errors import InvalidRequest


def test_the_first_byte_too_many_is_refused() -> None:
    meter = ByteMeter(10)
    meter.add(6, "a")

    with pytest.raises(
        InvalidRequest, match="b is too large: the images of a request may have at most 10"
    ):
        meter.add(5, "b")
