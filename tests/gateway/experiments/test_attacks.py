"""Attacks on a verdict, over HTTP: what a report says afterwards, and what operators can do.

No verdict changes without a note that says why it may be wrong.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import httpx
import pytest
from msgspec import Struct

from tests.gateway.experiments.recorded_gateway import (
    BEARER,
    Recorded,
    behave,
    config,
    recorded,
    report,
)
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

OTHER = """auth:
  admin_key: key-of-the-operator
  mode: keys
  keys: [{name: one, key: secret-of-one-000}, {name: two, key: secret-of-two-000}]
metrics:
  - {name: thumbs_up, type: boolean}
  - {name: edits, type: number, range: [0, 10000], higher_is: worse}"""
ONE, TWO = ({"authorization": f"Bearer secret-of-{name}-000"} for name in ("one", "two"))
HONEST = 160
Json = dict[str, Any]


class Voted(Struct, frozen=True, kw_only=True):
    request_id: str
    variant: str


class Attacked(Struct, frozen=True, kw_only=True, eq=False):
    """A gateway with an experiment, and a client of it."""

    up: Recorded
    client: httpx.AsyncClient

    async def send(
        self,
        session: str,
        value: Callable[[str], object],
        *,
        key: dict[str, str] = ONE,
        metric: str = "thumbs_up",
    ) -> Voted:
        """A request and a vote on it. value: from the variant, as the client knows it."""
        body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
        headers = {**key, "x-session-id": session}
        answer = await self.client.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200
        variant = answer.headers.get("x-gateway-variant", "")
        found = Voted(request_id=answer.headers["x-gateway-request-id"], variant=variant)
        assert await self.vote(found.request_id, value(variant), key=key, metric=metric) == 202
        return found

    async def vote(
        self,
        request_id: str,
        value: object,
        *,
        key: dict[str, str] = ONE,
        metric: str = "thumbs_up",
    ) -> int:
        body = {"request_id": request_id, "metric": metric, "value": value}
        return (await self.client.post("/v1/feedback", json=body, headers=key)).status_code

    async def operate(self, action: str, body: Json | None = None) -> None:
        url = f"/admin/experiments/trial/{action}"
        answer = await self.client.post(url, json=body or {}, headers=BEARER)
        assert answer.status_code == 200, answer.text

    async def report(self) -> Json:
        self.up.settle()
        return await report(self.up)


@asynccontextmanager
async def attacked(folder: Path, more: str = "") -> AsyncGenerator[Attacked]:
    async with provider(behave) as remote:
        text = config(remote.base_url, more=f"    planned: 400\n{more}", other=OTHER)
        async with (
            recorded(text, folder) as up,
            httpx.AsyncClient(timeout=60, base_url=up.running.url) as client,
        ):
            yield Attacked(up=up, client=client)


def liked(session: str, part: float) -> bool:
    """Whether a user of this name likes an answer: `part` of them do, whatever the variant."""
    return crc32(session.encode()) % 1_000 < 1_000 * part


async def honest(gateway: Attacked) -> list[Voted]:
    """Users who vote once each, and are content in 40 % in both variants."""
    return [
        await gateway.send(f"s{number}", lambda _, number=number: liked(f"s{number}", 0.4))
        for number in range(HONEST)
    ]


def of(found: Json, metric: str) -> Json:
    (one,) = [one for one in found["metrics"] if one["name"] == metric]
    return one["variants"][1]


def notes(found: Json) -> list[str]:
    """All notes of a report."""
    rows = [row for metric in found["metrics"] for row in metric["variants"]]
    return [*found["notes"], *(note for row in rows for note in row["notes"])]


def saying(found: Json, words: str) -> Sequence[str]:
    return [note for note in notes(found) if words in note]


async def test_one_user_with_most_votes_switches_nothing_off_and_decides_nothing(
    tmp_path: Path,
) -> None:
    async with attacked(tmp_path) as gateway:
        await honest(gateway)
        before = await gateway.report()
        variant = (await gateway.send("giant", lambda _: True)).variant
        for _ in range(239):
            await gateway.send("giant", lambda _: True)
        after = await gateway.report()
        (note,) = [one for one in saying(after, "a single unit") if one.startswith("thumbs_up")]
        unit = note.partition("single unit, ")[2].partition(";")[0]
        await gateway.operate("exclude", {"unit": unit, "reason": "a bot"})
        cured = await gateway.report()

    assert (before["kind"], after["kind"]) == ("undecided", "undecided")
    for metric in ("thumbs_up", "error", "latency_ms"):
        assert of(after, metric)["low"] is not None
    moved = of(after, "thumbs_up")["difference"] - of(before, "thumbs_up")["difference"]
    assert abs(moved) < 1 / 50
    assert f"of {variant}'s votes are from a single unit" in note
    assert saying(after, f"unit {unit} sent 240 and counts as ")
    assert of(cured, "thumbs_up") == of(before, "thumbs_up")


async def test_a_key_that_invents_users_and_votes_by_the_header_is_named(tmp_path: Path) -> None:
    async with attacked(tmp_path) as gateway:
        await honest(gateway)
        before = await gateway.report()
        for number in range(170):
            await gateway.send(
                f"invented-{number}", lambda variant: variant == "treatment", key=TWO
            )
        after = await gateway.report()
        await gateway.operate("exclude", {"key": "two"})
        cured = await gateway.report()

    assert (before["kind"], saying(before, "key")) == ("undecided", [])
    assert (after["kind"], after["mismatch"]) == ("better", False)
    (note,) = saying(after, "key two: ")
    assert "which the split does not show" in note
    assert "strowger experiments exclude trial --key two" in note
    assert {one["key"] for one in after["keys"] if one["variant"] == "treatment"} == {"one", "two"}
    assert cured["kind"] == "undecided"
    assert of(cured, "thumbs_up") == of(before, "thumbs_up")
    assert saying(cured, "key two is excluded: 170 units with 170 requests")


async def test_hidden_variants_leave_such_a_key_nothing_to_vote_by(tmp_path: Path) -> None:
    async with attacked(tmp_path, "    show_variant: false") as gateway:
        sent = [
            await gateway.send(f"u{number}", lambda variant: variant == "treatment", key=TWO)
            for number in range(60)
        ]
        found = await gateway.report()

    assert {one.variant for one in sent} == {""}
    assert of(found, "thumbs_up")["mean"] == 0


async def test_votes_that_are_overturned_after_a_pause_are_counted_in_a_note(
    tmp_path: Path,
) -> None:
    async with attacked(tmp_path) as gateway:
        sent = await honest(gateway)
        before = await gateway.report()
        await gateway.operate("pause")
        treated = [one for one in sent if one.variant == "treatment"]
        for one in treated:
            await gateway.vote(one.request_id, True)
        paused = await gateway.report()
        await gateway.operate("resume")
        resumed = await gateway.report()

    changed = sum(not liked(f"s{number}", 0.4) for number, one in enumerate(sent) if one in treated)
    assert before["notes"] == []
    assert before["kind"] == "undecided"
    for found in (paused, resumed):
        assert found["kind"] == "better"
        assert saying(found, f"after a pause began, {changed} votes were changed and 0 votes were")


async def test_a_range_that_is_declared_too_wide_is_narrowed_and_said(tmp_path: Path) -> None:
    async with attacked(tmp_path) as gateway:
        for number in range(HONEST):
            await gateway.send(f"s{number}", lambda _, number=number: number % 8, metric="edits")
        before = await gateway.report()
        await gateway.send("wild", lambda _: 9_000, metric="edits")
        after = await gateway.report()

    (edits,) = [one for one in before["metrics"] if one["name"] == "edits"]
    assert (edits["range"]["limited"], edits["range"]["limit"]) == (True, 20)
    assert edits["range"]["cost"] > 0.9
    narrow, wide = (of(one, "edits") for one in (before, after))
    assert narrow["high"] - narrow["low"] < 5
    assert wide["low"] < 0 < wide["high"]
    assert wide["high"] - wide["low"] > 100


REFUSED = [
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1e308", b"-1", b"2", b'"true"', b"[true]",
    b"null", b"9" * 400, b"1", b"0.5",
]  # fmt: skip


@pytest.mark.parametrize("value", REFUSED)
async def test_values_that_no_vote_has_are_refused(
    tmp_path_factory: pytest.TempPathFactory, value: bytes
) -> None:
    async with attacked(tmp_path_factory.mktemp("store")) as gateway:
        sent = await gateway.send("s1", lambda _: True)
        body = b'{"request_id": "%b", "metric": "thumbs_up", "value": %b}'
        content = body % (sent.request_id.encode(), value)
        answer = await gateway.client.post("/v1/feedback", content=content, headers=ONE)
        found = await gateway.report()

    assert answer.status_code == 400
    (votes,) = [one for one in found["metrics"] if one["name"] == "thumbs_up"]
    assert sum(one["observations"] for one in votes["variants"]) == 1


async def test_ids_of_others_and_invented_ones_never_count(tmp_path: Path) -> None:
    async with attacked(tmp_path) as gateway:
        young = await gateway.send("s1", lambda _: True)
        accepted = await gateway.vote(young.request_id, False, key=TWO)
        invented = await gateway.vote("0" * 8 + "-0000-7000-8000-" + "0" * 12, False, key=TWO)
        gateway.up.settle()
        refused = await gateway.vote(young.request_id, False, key=TWO)
        found = await gateway.report()

    assert (accepted, invented, refused) == (202, 404, 404)
    (votes,) = [one for one in found["metrics"] if one["name"] == "thumbs_up"]
    assert [one["mean"] for one in votes["variants"] if one["observations"]] == [1.0]


async def test_of_many_votes_on_one_answer_the_last_counts_also_within_a_body(
    tmp_path: Path,
) -> None:
    """JSON parsers take the last of two equal names; the value still has to meet its contract."""
    async with attacked(tmp_path) as gateway:
        sent = await gateway.send("s1", lambda _: True)
        for _ in range(50):
            await gateway.vote(sent.request_id, True)
        body = '{"request_id": "%s", "metric": "thumbs_up", "value": true, "value": false}'
        twice = await gateway.client.post(
            "/v1/feedback", content=body % sent.request_id, headers=ONE
        )
        found = await gateway.report()

    assert twice.status_code == 202
    (votes,) = [one for one in found["metrics"] if one["name"] == "thumbs_up"]
    counted = [one for one in votes["variants"] if one["observations"]]
    assert [(one["observations"], one["mean"]) for one in counted] == [(1, 0.0)]
