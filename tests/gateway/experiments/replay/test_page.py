"""The page of replays: runs, the report, and pairs on which people vote without seeing the arms."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.storage.sql.open import open_existing
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import OPERATOR, SOON_S
from tests.gateway.experiments.replay.replaying import (
    ARMS,
    Served,
    new_wins,
    prompts,
    said_to,
    served,
    written,
)
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio


async def anonymous(request: Received, answer: Answer) -> None:
    """Arms whose answers do not name them: the lengths say which one it is."""
    model = str(request.json["model"])
    if model == "judge":
        text = said_to(request)
        shown = re.findall(r"<<<answer ([AB]) [0-9a-f]+\n(.*?)\nanswer", text, re.DOTALL)
        asked = re.findall(r"\[user\] (.*)", text)[-1]
        long = next(letter for letter, one in shown if one.endswith("!"))
        other = "B" if long == "A" else "A"
        await answer.chat(f'{{"reason": "r", "verdict": "{long if new_wins(asked) else other}"}}')
    else:
        await answer.chat(f"on {said_to(request)}" + "!" * (model == "new"))


@pytest.fixture(scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    folder = tmp_path_factory.mktemp("page")
    async with served(folder, anonymous) as one:
        file = written(folder / "prompts.jsonl", prompts(12))
        done = await one.run("replay", "trial", "--from", str(file), *ARMS, "--max-usd", "20")
        assert done.exit_code == 0, done.output
        yield one


async def get(here: Served, path: str, **parameters: str | int) -> httpx.Response:
    async with httpx.AsyncClient(base_url=here.up.url, headers=OPERATOR, timeout=60) as client:
        return await client.get(path, params=parameters)


async def post(here: Served, path: str, json: dict[str, object]) -> httpx.Response:
    async with httpx.AsyncClient(base_url=here.up.url, headers=OPERATOR, timeout=60) as client:
        return await client.post(path, json=json)


async def test_runs_and_their_reports_are_routes_as_well(here: Served) -> None:
    listed = (await get(here, "/admin/replays")).json()
    report = (await get(here, "/admin/replay-report", run="trial")).json()
    unknown = await get(here, "/admin/replay-report", run="other")

    assert [one["run"] for one in listed["replays"]] == ["trial"]
    wins = sum(new_wins(f"question {number}") for number in range(12))
    assert report["win_rate"]["wins"] == wins
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_replay")


async def test_a_pair_is_shown_without_the_names_of_the_arms(here: Served) -> None:
    text = (await get(here, "/admin/view/replay")).text
    pair = text.partition('id="pair"')[2].partition("</section>")[0]
    blind = (await get(here, "/admin/replay-pair", run="trial")).json()["pair"]

    assert "question " in pair
    assert blind["left"] in pair
    assert blind["right"] in pair
    for name in ("old", "new", "control", "treatment"):
        assert not re.search(rf"\b{name}\b", pair), name
    assert set(blind) == {"run", "place", "prompt", "left", "right"}


async def test_means_of_the_arms_are_closed_while_there_is_a_pair_to_vote_on(here: Served) -> None:
    text = (await get(here, "/admin/view/replay", run="trial")).text
    all_seen = (await get(here, "/admin/view/replay", run="trial", after=1_000)).text
    head = '<details class="act"{}><summary>The arms, with figures that may reveal them'

    assert 'id="pair"' in text
    assert head.format("") in text
    assert head.format(" open") in all_seen


async def test_a_vote_reveals_the_arms_and_counts_once(here: Served) -> None:
    sides: list[str] = []
    async with httpx.AsyncClient(base_url=here.up.url, headers=OPERATOR, timeout=60) as client:
        form = {"run": "trial", "place": "0", "side": "tie"}
        sent = await client.post("/admin/view/replay/vote", data=form)
    assert (sent.status_code, sent.headers["location"]) == (303, "/admin/view/replay")
    for _ in range(11):
        pair = (await get(here, "/admin/replay-pair", run="trial")).json()["pair"]
        better = "left" if pair["left"].endswith("!") else "right"
        vote: dict[str, object] = {"run": "trial", "place": pair["place"], "side": better}
        found = await post(here, "/admin/replay-votes", vote)
        shown: dict[str, Any] = found.json()["pair"]
        assert shown["vote"] == "treatment", shown
        assert {shown["left_arm"], shown["right_arm"]} == {"old", "new"}
        assert shown[f"{better}_arm"] == "new"
        again = await post(here, "/admin/replay-votes", vote)
        assert again.status_code == 409
        sides.append(better)
    done = (await get(here, "/admin/replay-pair", run="trial")).json()
    report = (await get(here, "/admin/replay-report", run="trial")).json()
    text = (await get(here, "/admin/view/replay")).text

    assert done == {"pair": None}
    assert set(sides) == {"left", "right"}
    calibration = report["win_rate"]["calibration"]
    assert (report["votes"], calibration["pairs"]) == (12, 12)
    assert calibration["people"]["mean"] == pytest.approx(11.5 / 12)
    assert "You chose new. The judge chose" in text
    assert "No further pair of trial needs your vote" in text


async def test_a_vote_on_what_is_not_there_is_refused(here: Served) -> None:
    vote: dict[str, object] = {"run": "trial", "place": 99, "side": "left"}
    unknown = await post(here, "/admin/replay-votes", vote)
    wrong = await post(here, "/admin/replay-votes", {**vote, "side": "both"})
    without = await post(here, "/admin/replay-votes", {**vote, "run": "other"})

    assert [one.status_code for one in (unknown, wrong, without)] == [404, 400, 404]


@pytest.mark.parametrize("place", [10**7, 2**63, 10**30])
async def test_a_place_beyond_any_run_is_refused(here: Served, place: int) -> None:
    vote = await post(here, "/admin/replay-votes", {"run": "trial", "place": place, "side": "left"})
    pair = await get(here, "/admin/replay-pair", run="trial", after=place)
    view = await get(here, "/admin/view/replay", run="trial", after=place)

    assert [one.status_code for one in (vote, pair, view)] == [400, 400, 400]


async def test_reading_a_pair_and_voting_are_in_the_audit_log(here: Served) -> None:
    text = ""
    async with asyncio.timeout(SOON_S):
        while not ("replay trial 0" in text and "/admin/replay-votes" in text):
            await asyncio.sleep(0.1)
            text = str((await get(here, "/admin/audit", limit=500)).json())

    assert "'payload.read'" in text


async def test_without_the_key_nothing_is_shown(here: Served) -> None:
    async with httpx.AsyncClient(base_url=here.up.url, timeout=60) as client:
        answers = [
            await client.get("/admin/replay-pair", params={"run": "trial"}),
            await client.post("/admin/replay-votes", json={}),
            await client.get("/admin/replays"),
        ]

    assert [one.status_code for one in answers] == [401, 401, 401]


async def test_texts_that_are_deleted_are_not_voted_on(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, anonymous) as here:
        file = written(tmp_path / "prompts.jsonl", prompts(2))
        await here.run("replay", "trial", "--from", str(file), *ARMS, "--max-usd", "20")
        store = open_existing(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
        await asyncio.to_thread(store.prune, 0.0, 0.0, payloads_before=time.time() + 1)
        store.close()
        vote = await post(here, "/admin/replay-votes", {"run": "trial", "place": 0, "side": "left"})
        pair = await get(here, "/admin/replay-pair", run="trial")
        view = await get(here, "/admin/view/replay", run="trial")
        report = await get(here, "/admin/replay-report", run="trial")

    assert (vote.status_code, vote.json()["error"]["message"]) == (
        404,
        "the texts of trial are deleted",
    )
    assert pair.json() == {"pair": None}
    assert "No further pair" in view.text
    assert report.json()["counted"] == 2
