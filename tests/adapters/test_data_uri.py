"""A JPEG sent as `image/jpg` reaches vendors under its registered name."""

import pytest

from strowger_gateway.adapters.registry import Registry
from strowger_gateway.adapters.testing import contract_endpoint
from strowger_gateway.schemas.messages import ImagePart, Message
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling


@pytest.mark.parametrize("name", ["anthropic", "gemini"])
def test_a_jpeg_has_its_registered_name(name: str) -> None:
    adapter = Registry(()).build(name, contract_endpoint("https://vendor.test"))
    image = ImagePart(url="data:image/jpg;base64,/9j/4AA=")
    request = ChatRequest(
        model="m",
        messages=(Message(role="user", content=(image,)),),
        sampling=Sampling(max_tokens=5),
    )

    body = adapter.encode(request, "m").body

    assert b"image/jpeg" in body
    assert b"image/jpg" not in body
