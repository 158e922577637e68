"""A member that one client's JSON carries to a vendor is named where another client's loses it."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest

from tests.adapters.repairs.one_of_each import USER, Json, Rig, dropped, one_of_each

pytestmark = pytest.mark.anyio

KEY = {"authorization": "Bearer key-of-team-a-0123456789"}
EMPTY: Json = {"type": "object", "properties": {}}
SENT: Mapping[str, tuple[str, Json]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [USER],
            "tools": [{"type": "function", "function": {"name": "f"}, "x_new": 1}],
        },
    ),
    "messages": (
        "/v1/messages",
        {
            "max_tokens": 50,
            "messages": [USER],
            "tools": [{"name": "f", "input_schema": EMPTY, "x_new": 1}],
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "input": "hi",
            "store": False,
            "tools": [{"type": "function", "name": "f", "parameters": EMPTY, "x_new": 1}],
        },
    ),
}
"""By the client's API: a request whose tool has a member that nobody knows."""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncGenerator[Rig]:
    """A gateway that has seen no request."""
    async with one_of_each(tmp_path, "anthropic", "openai-responses") as one:
        yield one


async def left_out(rig: Rig, api: str, model: str) -> bool:
    path, body = SENT[api]
    answer = await rig.client.post(path, json={"model": model, **body}, headers=KEY)
    assert answer.status_code == 200, answer.text
    return any("x_new" in name for name in dropped(answer))


@pytest.mark.vendor_refuses("schema", because="a vendor may know what its SDK does not yet")
@pytest.mark.parametrize(
    "order", [("messages", "responses", "chat"), ("chat", "responses", "messages")]
)
@pytest.mark.parametrize(
    ("model", "own"), [("anthropic", "messages"), ("openai-responses", "responses")]
)
async def test_what_is_named_does_not_depend_on_the_clients_before(
    rig: Rig, model: str, own: str, order: tuple[str, ...]
) -> None:
    for api in (own, *order, own):
        assert await left_out(rig, api, model) is (api != own), api
        assert (b"x_new" in rig.vendor.requests[-1].body) is (api == own), api
