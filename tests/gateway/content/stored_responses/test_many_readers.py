"""Requests to stored responses count like others, and one key's never delay another key's."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import openai
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.response_rows import ResponseRows, StoredChain, StoredTurn
from tests.gateway.content.stored_responses.archives import ON, Archived, archived, ask

pytestmark = pytest.mark.anyio

LONG = "x" * 50_000


async def chain(up: Archived, length: int, text: str = LONG) -> list[str]:
    """Store a conversation of ann's with so many responses; return their ids."""
    first = await ask(up.ann)
    row = up.store.stored_responses.find("ann", first.id)
    assert row is not None
    ids = [f"resp_{uuid4()}" for _ in range(length)]
    rows = [
        replace(
            row,
            id=id,
            previous=before,
            root=ids[0],
            input=f'[{{"role":"user","content":"{text}"}}]',
            output=f'[{{"id":"msg_{id[5:]}_0","type":"message","role":"assistant"}}]',
            item_bytes=len(text) + 120,
            bytes=len(text) + 200,
        )
        for before, id in zip(["", *ids], ids, strict=False)
    ]
    assert up.store.stored_responses.add(rows, 1 << 40) == [True] * length
    return ids


class Reads(ResponseRows):
    """Counts what is read of conversations, and blocks that while `open` is not set."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.seen = 0
        self.open = threading.Event()
        self.open.set()

    @contextmanager
    def chain(self, key: str, id: str) -> Generator[StoredChain | None]:
        with super().chain(key, id) as found:
            yield found and _Counted(found, self)

    async def until_blocked(self) -> None:
        while not self.seen:  # noqa: ASYNC110  a thread
            await asyncio.sleep(0.01)


class _Counted(StoredChain):
    def __init__(self, found: StoredChain, reads: Reads) -> None:
        self.ids, self.sizes = found.ids, found.sizes
        self._found = found
        self._reads = reads

    def read(self, place: int) -> StoredTurn:
        self._reads.seen += 1
        assert self._reads.open.wait(60)
        return self._found.read(place)


@asynccontextmanager
async def counting(folder: Path, settings: str = ON) -> AsyncGenerator[tuple[Archived, Reads]]:
    made: list[Reads] = []

    def rows_in(database: Database) -> Reads:
        made.append(Reads(database))
        return made[0]

    async with archived(folder, settings, rows_in=rows_in) as up:
        yield up, made[0]


@asynccontextmanager
async def client(up: Archived, key: str = "ann") -> AsyncGenerator[httpx.AsyncClient]:
    headers = {"authorization": f"Bearer key-of-{key}-1"}
    async with httpx.AsyncClient(base_url=up.gateway.url, headers=headers, timeout=60) as found:
        yield found


async def get(up: Archived, path: str, times: int = 1) -> Sequence[httpx.Response]:
    async with client(up) as http:
        return await asyncio.gather(*[http.get(f"/v1/responses/{path}") for _ in range(times)])


async def test_a_page_reads_only_the_responses_whose_items_it_has(
    tmp_path: Path,
) -> None:
    async with counting(tmp_path) as (up, reads):
        ids = await chain(up, 40)
        (answer,) = await get(up, f"{ids[-1]}/input_items?limit=1")
        first, reads.seen = reads.seen, 0
        (later,) = await get(up, f"{ids[-1]}/input_items?limit=1&after=msg_{ids[3][5:]}_0")

    assert [one["id"] for one in answer.json()["data"]] == [f"msg_{ids[-1][5:]}_in_0"]
    assert answer.json()["has_more"] is True
    assert [one["id"] for one in later.json()["data"]] == [f"msg_{ids[3][5:]}_in_0"]
    assert first <= 2
    assert reads.seen <= 3


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_all_pages_together_are_the_list(tmp_path: Path, order: str, limit: int) -> None:
    """Also of items that have an id of their client's, which names no response."""
    async with archived(tmp_path) as up:
        first = await ask(up.ann, input=[{"type": "message", "role": "user", "content": "a"}] * 3)
        own = {"id": "msg_of_the_client", "type": "message", "role": "user", "content": "b"}
        second = await ask(up.ann, input=[own], previous_response_id=first.id)
        third = await ask(up.ann, input="d", previous_response_id=second.id)
        last = await ask(up.ann, input="c", previous_response_id=third.id)

        found = up.ann.responses.input_items.list(last.id, limit=limit, order=order)  # pyright: ignore
        ids = [one.id async for one in found]

    wanted = [f"msg_{first.id[5:]}_in_{number}" for number in range(3)]
    wanted += [first.output[0].id, "msg_of_the_client", second.output[0].id]
    wanted += [f"msg_{third.id[5:]}_in_0", third.output[0].id]
    wanted += [f"msg_{last.id[5:]}_in_0"]
    assert ids == (wanted if order == "asc" else wanted[::-1])


async def test_a_page_of_large_items_ends_early_and_says_so(tmp_path: Path) -> None:
    async with archived(tmp_path) as up:
        ids = await chain(up, 4, "x" * 2_500_000)
        pages = up.ann.responses.input_items.list(ids[-1], limit=100)
        (answer,) = await get(up, f"{ids[-1]}/input_items?limit=100")
        every = [one.id async for one in pages]

    assert len(answer.content) < 5_000_000
    assert answer.json()["has_more"] is True
    assert len(every) == 7


async def test_an_unknown_item_is_named_without_reading_more_than_a_body_holds(
    tmp_path: Path,
) -> None:
    async with counting(tmp_path, f"{ON}\nserver: {{max_body_bytes: 200000}}") as (up, reads):
        ids = await chain(up, 20)
        (answer,) = await get(up, f"{ids[-1]}/input_items?after=msg_unknown")

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "after"
    assert reads.seen <= 4


async def test_reads_of_one_key_leave_a_thread_to_others(
    tmp_path: Path,
) -> None:
    """Not even a database that hangs for one key is an outage for another."""
    async with counting(tmp_path, "responses: {store: on, timeout_s: 30}") as (up, reads):
        ids = await chain(up, 2)
        mine = await ask(up.ben, input="one")
        reads.open.clear()
        flood = asyncio.create_task(get(up, f"{ids[-1]}/input_items", 40))
        await reads.until_blocked()
        more = await ask(up.ben, input="two", previous_response_id=mine.id)
        kept = await up.ben.responses.retrieve(mine.id)
        reads.open.set()
        answers = await flood

    assert (more.status, kept.id) == ("completed", mine.id)
    assert {one.status_code for one in answers} == {200}


async def test_a_key_has_no_more_requests_to_stored_responses_than_its_share(
    tmp_path: Path,
) -> None:
    settings = f"{ON}\nserver: {{max_in_flight: 10}}"
    async with counting(tmp_path, settings) as (up, reads):
        ids = await chain(up, 1)
        reads.open.clear()
        flood = asyncio.create_task(get(up, f"{ids[-1]}/input_items", 8))
        while up.gateway.state.admission.in_flight < 5:  # noqa: ASYNC110  a thread
            await asyncio.sleep(0.01)
        other = await ask(up.ben)
        reads.open.set()
        statuses = [one.status_code for one in await flood]
        after = up.gateway.state.admission.in_flight

    assert other.status == "completed"
    assert sorted(statuses) == [200] * 5 + [429] * 3
    assert after == 0


async def test_requests_to_stored_responses_count_under_the_limits_of_their_key(
    tmp_path: Path,
) -> None:
    limits = "limits: [{name: rate, who: {key: ann}, requests: 4, concurrent: 2}]"
    async with archived(tmp_path, f"{ON}\n{limits}") as up, client(up) as http:
        stored = await ask(up.ann)
        path = f"/v1/responses/{stored.id}"
        read = await http.get(path)
        listed = await http.get(f"{path}/input_items")
        gone = await http.delete(path)
        refused = await http.get(path)
        with pytest.raises(openai.RateLimitError):
            await ask(up.ann)
        other = await ask(up.ben)

    assert [one.status_code for one in (read, listed, gone, refused)] == [200, 200, 200, 429]
    assert read.headers["x-ratelimit-remaining-requests"] == "2"
    assert refused.json()["error"]["code"] == "limit_exceeded"
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert int(refused.headers["retry-after"]) > 0
    assert other.status == "completed"


async def test_a_limit_of_tokens_that_is_used_up_lets_stored_responses_be_read(
    tmp_path: Path,
) -> None:
    limits = "limits: [{name: rate, who: {key: ann}, tokens: 15}]"
    async with archived(tmp_path, f"{ON}\n{limits}") as up, client(up) as http:
        stored = await ask(up.ann, max_output_tokens=1)
        await ask(up.ann, max_output_tokens=1)  # 20 tokens now, of 15
        with pytest.raises(openai.RateLimitError):
            await ask(up.ann, max_output_tokens=1)
        read = await http.get(f"/v1/responses/{stored.id}")
        gone = await http.delete(f"/v1/responses/{stored.id}")

    assert [one.status_code for one in (read, gone)] == [200, 200]


async def test_requests_to_stored_responses_have_an_access_line_and_a_metric(
    tmp_path: Path,
) -> None:
    async with archived(tmp_path) as up:
        stored = await ask(up.ann)
        await up.ann.responses.retrieve(stored.id)
        with pytest.raises(openai.NotFoundError):
            await up.ben.responses.retrieve(stored.id)
        lines = [one for one in up.gateway.access_lines() if one.method]
        metrics = (await up.gateway.state.processes.metrics_text())[0].decode()

    seen = [(one.surface, one.method, one.path, one.key, one.status) for one in lines]
    path = f"/v1/responses/{stored.id}"
    assert seen == [
        ("responses", "GET", path, "ann", 200),
        ("responses", "GET", path, "ben", 404),
    ]
    labels = 'backend="",model="",status="404",surface="responses"'
    assert f"strowger_requests_total{{{labels}}} 1.0" in metrics


async def test_answers_use_the_memory_of_their_key(tmp_path: Path) -> None:
    settings = f"{ON}\nserver: {{max_body_bytes: 400000, max_buffered_bytes: 400000}}"
    async with archived(tmp_path, settings) as up:
        ids = await chain(up, 4, "x" * 90_000)
        (few,) = await get(up, f"{ids[-1]}/input_items?limit=2")
        (many,) = await get(up, f"{ids[-1]}/input_items?limit=7")
        buffered = up.gateway.state.shares.buffered

    assert (few.status_code, many.status_code) == (200, 429)
    assert "max_buffered_bytes" in many.json()["error"]["message"]
    assert buffered == 0


async def test_a_delete_that_waits_for_the_database_delays_no_read(tmp_path: Path) -> None:
    async with archived(tmp_path, "responses: {store: on, timeout_s: 30}") as up:
        mine, others = await ask(up.ann), await ask(up.ben)
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as lock:
            lock.execute("BEGIN IMMEDIATE")
            gone = [asyncio.create_task(up.ann.responses.delete(mine.id)) for _ in range(6)]
            found = await up.ben.responses.retrieve(others.id)
            lock.execute("ROLLBACK")
        ends = await asyncio.gather(*gone, return_exceptions=True)

    assert found.id == others.id
    assert len([one for one in ends if one is None]) == 1
    assert {type(one) for one in ends if one is not None} == {openai.NotFoundError}
