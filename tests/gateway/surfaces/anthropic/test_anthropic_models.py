"""The list of models for Anthropic's own client."""

from pathlib import Path

import anthropic
import httpx
import pytest

from tests.gateway.surfaces.anthropic.claude import BEHIND_CLAUDE, claude_in_front_of
from tests.stand_ins.provider import answers

pytestmark = pytest.mark.anyio

NAMES = [f"m{number:02}" for number in range(30)]
MANY = BEHIND_CLAUDE + "".join(
    f"  - {{{{name: {name}, backends: [{{{{provider: claude, model: c}}}}]}}}}\n" for name in NAMES
)


async def test_every_model_is_listed_page_by_page(tmp_path: Path) -> None:
    async with claude_in_front_of(answers, MANY, tmp_path) as setting:
        first = await setting.client.models.list()
        every = [one.id async for one in setting.client.models.list()]
        (last,) = (await setting.client.models.list(before_id="m00", limit=1)).data

    assert len(first.data) == 20
    assert first.has_more
    assert every == ["chat", *NAMES]
    assert last.id == "chat"
    assert {one.type for one in first.data} == {"model"}


async def test_one_model_is_described_and_an_unknown_one_is_not_found(tmp_path: Path) -> None:
    async with claude_in_front_of(answers, BEHIND_CLAUDE, tmp_path) as setting:
        found = await setting.client.models.retrieve("chat")
        with pytest.raises(anthropic.NotFoundError) as caught:
            await setting.client.models.retrieve("none")

    assert (found.id, found.display_name, found.lifecycle) == ("chat", "chat", "active")
    assert found.created_at.year > 2000
    assert caught.value.type == "not_found_error"


async def test_openais_clients_get_their_own_list(tmp_path: Path) -> None:
    async with claude_in_front_of(answers, BEHIND_CLAUDE, tmp_path) as setting:
        async with httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client:
            plain = (await client.get("/v1/models")).json()

    assert plain["object"] == "list"
    assert [one["id"] for one in plain["data"]] == ["chat"]
