"""Units and API keys that operators exclude: nothing they sent is in a report, and it says so."""

import csv
import io
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from click.testing import CliRunner

from strowger_gateway.gateway.cli.main import strowger
from tests.gateway.experiments.recorded_gateway import BEARER, Recorded, behave, config, recorded
from tests.gateway.experiments.recorded_gateway import report as report_of
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

KEYS = """auth:
  admin_key: key-of-the-operator
  mode: keys
  keys: [{name: one, key: secret-of-one-000}, {name: two, key: secret-of-two-000}]"""
ONE, TWO = ({"authorization": f"Bearer secret-of-{name}-000"} for name in ("one", "two"))
Json = dict[str, Any]


async def send(up: Recorded, key: dict[str, str], session: str, value: bool | None = True) -> str:
    """A request and a vote on it; return its variant."""
    body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(timeout=60, base_url=up.running.url) as client:
        headers = {**key, "x-session-id": session}
        answer = await client.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        vote = {
            "request_id": answer.headers["x-gateway-request-id"],
            "metric": "thumbs_up",
            "value": value,
        }
        assert (await client.post("/v1/feedback", json=vote, headers=key)).status_code == 202
    return answer.headers["x-gateway-variant"]


async def change(up: Recorded, action: str, body: Json, name: str = "trial") -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        url = f"{up.running.url}/admin/experiments/{name}/{action}"
        return await client.post(url, json=body, headers=BEARER)


def sizes(report: Json) -> tuple[int, int, int]:
    """Units, requests and votes, of both variants."""
    (votes,) = [one for one in report["metrics"] if one["name"] == "thumbs_up"]
    return (
        sum(arm["units"] for arm in report["arms"]),
        sum(arm["requests"] for arm in report["arms"]),
        sum(one["observations"] for one in votes["variants"]),
    )


async def crowd(up: Recorded) -> None:
    """Key one sends for 12 sessions, key two for 8, of which two are sessions of key one."""
    for number in range(12):
        await send(up, ONE, f"s{number}")
    for number in range(10, 18):
        await send(up, TWO, f"s{number}")
    up.settle()


async def test_an_excluded_key_leaves_every_number_and_is_named(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=KEYS), tmp_path) as up:
            await crowd(up)
            before = await report_of(up)
            given = await change(up, "exclude", {"key": "two", "reason": "a bot"})
            await send(up, TWO, "s99")
            await send(up, ONE, "s17")
            up.settle()
            after = await report_of(up)
            ended = await change(up, "include", {"key": "two"})
            again = await report_of(up)

    assert sizes(before) == (18, 20, 20)
    assert given.json()["exclusions"][0] | {"at": 0} == {
        "kind": "key", "name": "two", "reason": "a bot", "by": "admin key from 127.0.0.1",
        "at": 0, "units": 8, "requests": 10, "shared_units": 2,
    }  # fmt: skip
    assert sizes(after) == (10, 10, 10)
    assert after["notes"][0] == (
        "key two is excluded (a bot): 9 units with 12 requests; other keys sent for 3 of these "
        "units, too"
    )
    assert ended.json() == {"exclusions": []}
    assert sizes(again) == (19, 22, 22)


async def test_one_user_is_excluded_by_name_or_hash(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=KEYS), tmp_path) as up:
            await crowd(up)
            by_name = await change(up, "exclude", {"user": "s10"})
            unit = by_name.json()["exclusions"][0]["name"]
            without = await report_of(up)
            await change(up, "include", {"unit": unit})
            whole = await report_of(up)

    assert (sizes(without), sizes(whole)) == ((17, 18, 18), (18, 20, 20))
    assert without["notes"][0] == f"unit {unit} is excluded: 2 requests"


async def test_what_cannot_be_excluded_is_said(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        async with recorded(config(remote.base_url, other=KEYS), tmp_path) as up:
            await crowd(up)
            answers = [
                await change(up, "exclude", {"key": "three"}),
                await change(up, "exclude", {"user": "s1", "key": "two"}),
                await change(up, "exclude", {"kye": "two"}),
                await change(up, "include", {"key": "two"}),
                await change(up, "exclude", {"key": "two"}, "trail"),
                await change(up, "exclude", {"unit": "a\x00b"}),
            ]

    found = [(one.status_code, one.json()["error"]["message"]) for one in answers]
    assert [status for status, _ in found] == [404, 400, 400, 404, 404, 400]
    codes = [one.json()["error"]["code"] for one in answers if one.status_code == 404]
    assert codes == ["not_in_experiment", "exclusion_not_found", "experiment_not_found"]
    assert "has sent no request of experiment 'trial'" in found[0][1]
    assert found[1][1] == "give one of unit, user and key"
    assert "is not excluded" in found[3][1]
    assert 'did you mean "trial"' in found[4][1]
    assert "no name has control characters" in found[5][1]


async def test_the_command_excludes_from_a_removed_experiment_and_the_export_marks_it(
    tmp_path: Path,
) -> None:
    def run(*words: str) -> tuple[int, str]:
        given = ["experiments", *words, "--config", str(file)]
        found = CliRunner().invoke(strowger, given)
        return found.exit_code, found.output

    async with provider(behave) as remote:
        text = config(remote.base_url, other=KEYS)
        async with recorded(text, tmp_path) as up:
            await crowd(up)
    file = tmp_path / "later.yaml"
    gone = text[: text.index("experiments:")] + KEYS
    file.write_text(f"{gone}\nstore: {{url: 'sqlite:///{tmp_path}/strowger.db'}}\n")

    excluded = await anyio.to_thread.run_sync(run, "exclude", "trial", "--key", "two")
    unknown = await anyio.to_thread.run_sync(run, "exclude", "trial", "--user", "nobody")
    both = await anyio.to_thread.run_sync(run, "exclude", "trial", "--user", "a", "--key", "b")
    shown = await anyio.to_thread.run_sync(run, "report", "trial")
    rows = csv.DictReader(io.StringIO(run("export", "trial")[1]))

    assert excluded == (
        0,
        "trial: key two is excluded: 8 units with 10 requests; other keys sent for 2 of these "
        "units, too\n",
    )
    assert (unknown[0], both[0]) == (1, 2)
    assert "has sent no request of trial" in unknown[1]
    assert "Note: key two is excluded: 8 units with 10 requests" in shown[1]
    marked = [row["excluded"] for row in rows if row["metric"] == "error"]
    assert (marked.count("1"), marked.count("0")) == (8, 10)


async def test_exclusions_are_in_the_audit_log(tmp_path: Path) -> None:
    async with provider(behave) as remote:
        text = config(remote.base_url, other=KEYS)
        async with recorded(text, tmp_path) as up:
            await crowd(up)
    file = tmp_path / "config.yaml"
    file.write_text(f"{text}\nstore: {{url: 'sqlite:///{tmp_path}/strowger.db'}}\n")

    for words in (
        ("exclude", "trial", "--key", "two", "--reason", "a bot"),
        ("include", "trial", "--key", "two"),
        ("include", "trial", "--key", "two"),
    ):
        CliRunner().invoke(strowger, ["experiments", *words, "--config", str(file)])

    with closing(sqlite3.connect(tmp_path / "strowger.db")) as store:
        sql = "SELECT action, target, reason, detail FROM audit_rows ORDER BY seq"
        found = store.execute(sql).fetchall()
    assert [row[:3] for row in found] == [
        ("experiment.exclude", "trial", "a bot"),
        ("experiment.include", "trial", ""),
    ]
    assert all('"key":"two"' in detail for *_, detail in found)
