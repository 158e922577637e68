"""A database that is away or slow costs an answer its place in the store, and nothing else."""

import asyncio
import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.responses import Response

from strowger_gateway.schemas.secret import Secret
from tests.gateway.content.stored_responses.archives import archived, ask, error_of
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

PATIENT_S = 0.5
IMPATIENT = f"responses: {{store: on, timeout_s: {PATIENT_S}}}"


async def test_an_answer_without_a_database_is_complete_and_says_that_it_is_not_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = Secret(f"sqlite:///{tmp_path}/missing/store.db")
    async with archived(tmp_path, url=nowhere) as up:
        with caplog.at_level(logging.WARNING, "strowger.responses"):
            whole = await up.ann.responses.with_raw_response.create(model="chat", input="hi")
            streamed = await ask(up.ann, stream=True)

        assert whole.headers["x-gateway-dropped-params"] == "store"
        for answer in (whole.parse(), streamed):
            assert answer.status == "completed"
            assert answer.output_text in {"1 messages", "1messages"}
            assert answer.model_dump()["store"] is False
        assert up.archive.counts["unavailable"] == 2
        assert len([one for one in caplog.messages if "not stored" in one]) == 1
        with pytest.raises(openai.InternalServerError) as caught:
            await up.ann.responses.retrieve(streamed.id)
        status, error = error_of(caught.value)
        assert (status, error["code"]) == (503, "store_unavailable")
        assert str(tmp_path) not in str(error)
        with pytest.raises(openai.InternalServerError):
            await ask(up.ann, previous_response_id=streamed.id)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_waits_for_a_slow_database_only_for_the_time_limit(
    tmp_path: Path, *, stream: bool
) -> None:
    """What the database completes afterwards is deleted again, because the answer denied it."""
    async with archived(tmp_path, IMPATIENT) as up:
        async with asyncio.timeout(60):
            while (await ask(up.ann)).model_dump()["store"] is False:
                pass
        took_s: list[float] = []
        late: list[Response] = []
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for _ in range(4):
                began = time.monotonic()
                late.append(await ask(up.ann, stream=stream))
                took_s.append(time.monotonic() - began)
            other.execute("ROLLBACK")

        assert [one.model_dump()["store"] for one in late] == [False] * 4
        assert took_s[0] >= PATIENT_S
        assert min(took_s) < PATIENT_S, "one that hangs is enough, however busy the machine is"
        assert up.archive.counts["timeout"] >= 4
        async with asyncio.timeout(60):
            while (await ask(up.ann)).model_dump()["store"] is False:  # noqa: ASYNC110  a thread of SQLite's
                await asyncio.sleep(0.05)
            while up.rows() != 2:  # noqa: ASYNC110  deleted with the next transaction
                await asyncio.sleep(0.05)
        with pytest.raises(openai.NotFoundError):
            await up.ann.responses.retrieve(late[0].id)


async def test_a_stream_whose_client_leaves_is_not_stored(tmp_path: Path) -> None:
    async def slow(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("one ")
        await answer.gone.wait()

    async with archived(tmp_path) as up:
        up.remote.behaviour = slow
        events = await up.ann.responses.create(model="chat", input="hi", stream=True)
        async for event in events:
            if event.type == "response.output_text.delta":
                break
        await events.close()
        await up.remote.until(lambda: up.remote.hung_up == 1)

        assert up.rows() == 0


async def test_a_client_that_leaves_while_the_database_hangs_is_no_error(tmp_path: Path) -> None:
    async with archived(tmp_path, "responses: {store: on, timeout_s: 60}") as up:
        await ask(up.ann)
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            events = await up.ann.responses.create(model="chat", input="hi", stream=True)
            async for event in events:
                if event.type == "response.output_item.done":
                    break
            await events.close()
            async with asyncio.timeout(60):
                while len(up.gateway.access_lines()) < 2:  # noqa: ASYNC110  nothing reports it
                    await asyncio.sleep(0.02)
            other.execute("ROLLBACK")
        last = up.gateway.access_lines()[-1]
        async with asyncio.timeout(60):
            while up.rows() != 2:  # noqa: ASYNC110  a thread of SQLite's
                await asyncio.sleep(0.05)

        assert (last.status, last.error) == (499, "client_closed_request")
        assert (
            "strowger_internal_errors_total{"
            not in (await up.gateway.state.processes.metrics_text())[0].decode()
        )


async def test_a_failed_answer_is_not_stored(tmp_path: Path) -> None:
    async def breaks(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("one ")
        answer.reset()

    async with archived(tmp_path) as up:
        up.remote.behaviour = breaks
        with pytest.raises(openai.APIError):
            await ask(up.ann, stream=True)

        assert up.rows() == 0


async def test_requests_that_end_together_are_stored_together(tmp_path: Path) -> None:
    async with archived(tmp_path) as up:
        answers = await asyncio.gather(*[ask(up.ann) for _ in range(40)])

        found = await asyncio.gather(*[up.ann.responses.retrieve(one.id) for one in answers])
        assert found == answers
        assert up.rows() == 40


async def test_a_websocket_is_refused_by_name(tmp_path: Path) -> None:
    offer = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-version": "13",
    }
    async with (
        archived(tmp_path) as up,
        httpx.AsyncClient(base_url=up.gateway.url, timeout=60) as client,
    ):
        answer = await client.get("/v1/responses", headers=offer)
        plain = await client.get("/v1/responses")

    assert (answer.status_code, plain.status_code) == (426, 405)
    assert answer.json()["error"]["code"] == "upgrade_refused"
    assert answer.headers["upgrade"] == "HTTP/1.1"
