"""Votes that come late: after `votes_until`, or after a pause began."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.config.load import load_config
from strowger_gateway.gateway.storage.sql.experiments.export_rows import (
    EpochVariant,
    ExportedVote,
    epoch_rows,
    vote_pages,
)
from strowger_gateway.gateway.storage.sql.rows import FeedbackRow, RequestRow
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.experiments.recorded_gateway import (
    ADMIN,
    BEARER,
    Recorded,
    ask,
    behave,
    config,
    recorded,
    report,
)
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

DAY_S = 86_400.0


async def vote(up: Recorded, request_id: str, value: bool, comment: str = "") -> httpx.Response:
    body = {"request_id": request_id, "metric": "thumbs_up", "value": value, "comment": comment}
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{up.running.url}/v1/feedback", json=body)


async def asked(up: Recorded, age_s: float) -> str:
    """A request that ended so long ago; return its id."""
    answer = await ask(up.running, "s1")
    up.running.state.log.flush()
    up.recorder.rows = [
        replace(row, time=row.time - age_s) if isinstance(row, RequestRow) else row
        for row in up.recorder.rows
    ]
    up.settle()
    return answer.headers["x-gateway-request-id"]


def votes(found: dict[str, Any]) -> list[tuple[int, float | None]]:
    """By variant with votes: how many, and their mean."""
    (metric,) = [one for one in found["metrics"] if one["name"] == "thumbs_up"]
    rows = [(one["observations"], one["mean"]) for one in metric["variants"]]
    return [row for row in rows if row[0]]


async def test_a_vote_after_the_limit_is_refused_and_the_first_one_stays(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, more="    votes_until: 24h", other=ADMIN)
        async with recorded(text, tmp_path) as up:
            request_id = await asked(up, DAY_S - 60)
            early = await vote(up, request_id, True)
            up.settle()
            with up.store.database.writing() as session:
                session.run("UPDATE requests SET time = time - 120")
            late = await vote(up, request_id, False)
            async with httpx.AsyncClient(timeout=60) as client:
                comment = {"request_id": request_id, "comment": "too slow"}
                words = await client.post(f"{up.running.url}/v1/feedback", json=comment)
            up.settle()
            found = await report(up)

    assert (early.status_code, words.status_code) == (200, 200)
    error = late.json()["error"]
    assert (late.status_code, error["code"], error["param"]) == (
        400,
        "vote_too_late",
        "request_id",
    )
    assert "votes on this answer counted until" in error["message"]
    assert votes(found) == [(1, 1.0)]


async def test_a_late_vote_that_was_accepted_unchecked_does_not_count(tmp_path: Path) -> None:
    """While the store was away, the gateway could not know the request."""
    async with provider(behave) as remote:
        text = config(remote.base_url, more="    votes_until: 24h", other=ADMIN)
        async with recorded(text, tmp_path) as up:
            request_id = await asked(up, 2 * DAY_S)
            row = FeedbackRow(
                request_id=request_id,
                time=time.time(),
                key="",
                metric="thumbs_up",
                value=1.0,
                boolean=True,
            )
            before = replace(row, request_id="to come", key="key")
            found = up.store.import_rows("spool", 0, 1, [row, before])
            request = RequestRow(
                surface="openai",
                request_id="to come",
                time=time.time() - 2 * DAY_S,
                status=200,
                ms=1.0,
                key="key",
                experiment="trial",
                epoch=1,
                variant="control",
                unit="late",
            )
            later = up.store.import_rows("spool", 1, 2, [request])
            shown = await report(up)

    assert (found.unwanted, later.unwanted) == (1, 1)
    assert votes(shown) == []


async def test_without_a_limit_an_old_answer_can_be_judged(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=ADMIN), tmp_path) as up:
            request_id = await asked(up, 400 * DAY_S)
            assert (await vote(up, request_id, True)).status_code == 200
            up.settle()
            found = await report(up)

    assert votes(found) == [(1, 1.0)]


def late(epochs: Sequence[EpochVariant], exported: Sequence[ExportedVote]) -> dict[str, int]:
    """By docs/experiments-statistics.md, from the tables of an export."""
    found = {"added": 0, "changed": 0}
    pauses = sorted({(one.epoch, one.began) for one in epochs if one.paused})
    for one in exported:
        began = next((began for number, began in pauses if number > one.epoch), None)
        if began is not None and not one.excluded:
            found["added"] += one.first >= began
            found["changed"] += one.first < began <= one.changed
    return found


@pytest.mark.parametrize("resumed", [False, True])
async def test_votes_after_a_pause_count_and_are_said(tmp_path: Path, resumed: bool) -> None:
    """Five votes on answers from before the pause: two change, one is sent again, one is new."""
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=ADMIN), tmp_path) as up:
            ids = [
                (await ask(up.running, f"s{number}")).headers["x-gateway-request-id"]
                for number in range(5)
            ]
            for request_id in ids[:4]:
                await vote(up, request_id, False)
            up.settle()
            untouched = await report(up)
            async with httpx.AsyncClient(timeout=60) as client:
                url = f"{up.running.url}/admin/experiments/trial"
                await client.post(f"{url}/pause", headers=BEARER)
                for request_id in ids[:2]:
                    await vote(up, request_id, True)
                await vote(up, ids[2], False)
                await vote(up, ids[4], True)
                if resumed:
                    await client.post(f"{url}/resume", headers=BEARER)
                    answer = await ask(up.running, "s9")
                    await vote(up, answer.headers["x-gateway-request-id"], True)
            up.settle()
            found = await report(up)
            with up.store.database.reading() as session:
                epochs = list(epoch_rows(session, "trial"))
                exported = [one for page in vote_pages(session, "trial") for one in page]

    assert found["after_pause"] == late(epochs, exported)
    assert (untouched["notes"], untouched["after_pause"]) == ([], {"added": 0, "changed": 0})
    assert found["after_pause"] == {"added": 1, "changed": 2}
    assert found["notes"] == [
        "after a pause began, 2 votes were changed and 1 vote was added on requests from before "
        "it; `votes_until` limits how late votes count"
    ]


async def test_a_limit_that_is_no_duration_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(config("http://127.0.0.1:9/v1", more="    votes_until: 1 day"))

    with pytest.raises(InvalidConfig, match=r"votes_until: .*30m, 24h or 7d"):
        load_config(file, {})
