"""Stored responses are deleted when they are too old, or when their key has too much of them."""

import time
from itertools import pairwise
from pathlib import Path

import openai
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql import response_rows
from tests.gateway.content.stored_responses.archives import ON, Archived, archived, ask

pytestmark = pytest.mark.anyio

SMALL = "responses: {store: on, timeout_s: 60, max_bytes_per_key: 1MiB, keep_days: 3}"
LONG = "x" * 200_000
DAY_S = 86_400


async def kept(up: Archived, client: openai.AsyncOpenAI, *ids: str) -> list[bool]:
    found: list[bool] = []
    for id in ids:
        try:
            await client.responses.retrieve(id)
        except openai.NotFoundError:
            found.append(False)
        else:
            found.append(True)
    return found


async def test_what_is_older_than_keep_days_is_deleted(tmp_path: Path) -> None:
    async with archived(tmp_path, SMALL) as up:
        old, new = await ask(up.ann), await ask(up.ann)
        rows = up.store.stored_responses
        row = rows.find("ann", old.id)
        assert row is not None
        rows.remove("ann", [old.id])
        rows.add([replace(row, time=time.time() - 4 * DAY_S)], 1_000_000)

        assert await kept(up, up.ann, old.id, new.id) == [True, True]
        assert up.archive.sweep_once() == 1

        assert await kept(up, up.ann, old.id, new.id) == [False, True]
        assert up.archive.sweep_once() == 0, "another process has done it within the hour"


async def test_the_conversation_that_was_continued_least_recently_makes_room(
    tmp_path: Path,
) -> None:
    async with archived(tmp_path, SMALL) as up:
        other = await ask(up.ben, input=LONG)
        first = await ask(up.ann, input=LONG)
        idle = await ask(up.ann, input=LONG)
        longer = await ask(up.ann, input=LONG, previous_response_id=first.id)
        more = [await ask(up.ann, input=LONG) for _ in range(3)]

        assert await kept(up, up.ann, idle.id) == [False]
        assert await kept(up, up.ann, first.id, longer.id) == [True, True]
        assert await kept(up, up.ann, *[one.id for one in more]) == [True] * 3
        assert await kept(up, up.ben, other.id) == [True], "of another key"


async def test_a_conversation_never_deletes_its_own_beginning(tmp_path: Path) -> None:
    async with archived(tmp_path, SMALL) as up:
        idle = await ask(up.ann, input=LONG)
        last = await ask(up.ann, input=LONG)
        answers = [last]
        for _ in range(5):
            last = await ask(up.ann, input=LONG, previous_response_id=last.id)
            answers.append(last)
            if last.model_dump()["store"] is False:
                break

        assert [one.model_dump()["store"] for one in answers] == [True] * 5 + [False]
        assert await kept(up, up.ann, *[one.id for one in answers]) == [True] * 5 + [False]
        assert await kept(up, up.ann, idle.id) == [False]
        assert (await ask(up.ann)).model_dump()["store"] is True


async def test_a_response_that_is_larger_than_the_limit_is_not_stored(tmp_path: Path) -> None:
    async with archived(tmp_path, SMALL) as up:
        answer = await up.ann.responses.with_raw_response.create(
            model="chat", input="x" * 1_100_000
        )

        assert answer.headers["x-gateway-dropped-params"] == "store"
        assert up.rows() == 0


async def test_a_conversation_with_more_bytes_than_a_body_cannot_be_continued(
    tmp_path: Path,
) -> None:
    limits = "responses: {store: on, timeout_s: 60}\nserver: {max_body_bytes: 300000}"
    async with archived(tmp_path, limits) as up:
        first = await ask(up.ann, input=LONG)
        with pytest.raises(openai.BadRequestError, match=r"server\.max_body_bytes"):
            await ask(up.ann, input=LONG, previous_response_id=first.id)
        short = await ask(up.ann, input="x", previous_response_id=first.id)

    assert short.status == "completed"


async def test_a_conversation_with_too_many_responses_cannot_be_continued(tmp_path: Path) -> None:
    async with archived(tmp_path) as up:
        first = await ask(up.ann)
        row = up.store.stored_responses.find("ann", first.id)
        assert row is not None
        others = (f"{first.id[:-4]}{number:04x}" for number in range(response_rows.MOST_ROWS + 1))
        ids = [first.id, *[id for id in others if id != first.id][: response_rows.MOST_ROWS]]
        rows = [replace(row, id=id, previous=before) for before, id in pairwise(ids)]
        up.store.stored_responses.add(rows, 1 << 30)

        assert len(ids) == response_rows.MOST_ROWS + 1
        await ask(up.ann, previous_response_id=ids[-2])
        with pytest.raises(openai.BadRequestError, match="more than 1000 responses"):
            await ask(up.ann, previous_response_id=ids[-1])


async def test_references_count_each_time(tmp_path: Path) -> None:
    limits = "responses: {store: on, timeout_s: 60}\nserver: {max_body_bytes: 1000000}"
    async with archived(tmp_path, limits) as up:
        first = await ask(up.ann, input=LONG)
        item = {"type": "item_reference", "id": f"msg_{first.id.removeprefix('resp_')}_in_0"}

        await ask(up.ann, input=[item] * 4)
        with pytest.raises(openai.BadRequestError, match=r"server\.max_body_bytes"):
            await ask(up.ann, input=[item] * 5)


TOTAL = "responses: {store: on, timeout_s: 60, max_total_bytes: 1MiB}"


async def test_all_keys_together_have_a_bound_and_the_key_with_the_most_makes_room(
    tmp_path: Path,
) -> None:
    async with archived(tmp_path, TOTAL) as up:
        small = await ask(up.ben, input=LONG)
        many = [await ask(up.ann, input=LONG) for _ in range(6)]
        late = await ask(up.ben, input=LONG)

        assert await kept(up, up.ben, small.id, late.id) == [True, True]
        assert await kept(up, up.ann, *[one.id for one in many]) == [False] * 3 + [True] * 3
        assert up.store.stored_responses.total() <= 1 << 20
        assert up.archive.counts["stored"] == 8


async def test_a_response_for_which_all_keys_have_no_room_is_not_stored_and_named(
    tmp_path: Path,
) -> None:
    async with archived(tmp_path, TOTAL) as up:
        first = await ask(up.ann, input=LONG)
        answer = await up.ben.responses.with_raw_response.create(
            model="chat", input="x" * 1_100_000
        )

        assert answer.headers["x-gateway-dropped-params"] == "store"
        assert await kept(up, up.ann, first.id) == [True]


async def test_responses_leave_the_rest_of_the_disk_to_keys_and_records(tmp_path: Path) -> None:
    """They only replace others then, in the pages of the database that become free."""
    async with archived(tmp_path) as up:
        before = [await ask(up.ann, input=LONG) for _ in range(5)]
    async with archived(tmp_path, f"{ON}\nstore: {{min_free_bytes: {1 << 60}}}") as up:
        size = (tmp_path / "store.db").stat().st_size
        after = [await ask(up.ben, input=LONG[:50_000]) for _ in range(3)]
        grown = (tmp_path / "store.db").stat().st_size - size

        assert await kept(up, up.ben, *[one.id for one in after]) == [True] * 3
        assert await kept(up, up.ann, before[0].id, before[-1].id) == [False, True]
        assert up.store.claim("anything else", 1.0, 1.0)
        assert grown <= 65_536, "the page of what else was written, at most"


async def test_a_disk_without_room_costs_responses_their_place_in_the_store_and_says_so(
    tmp_path: Path,
) -> None:
    async with archived(tmp_path, f"{ON}\nstore: {{min_free_bytes: {1 << 60}}}") as up:
        answer = await up.ann.responses.with_raw_response.create(model="chat", input="hi")

        assert answer.headers["x-gateway-dropped-params"] == "store"
        assert (answer.parse().status, up.archive.counts["full"]) == ("completed", 1)


async def test_callers_whose_responses_are_gone_leave_nothing(tmp_path: Path) -> None:
    async with archived(tmp_path) as up:
        first = await ask(up.ann)
        await ask(up.ben)
        await up.ann.responses.delete(first.id)
        up.archive.sweep_once()

        with up.store.database.reading() as session:
            rows = session.rows(tuple[str], "SELECT key FROM stored_response_keys")
        assert rows == [("ben",)]
