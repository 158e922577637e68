"""What an end user has used and has left: in the API, by the commands, and in explanations."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from hashlib import sha256
from pathlib import Path
from time import monotonic_ns
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho
from strowger_gateway.gateway.governance.end_users.process_side import EndUsersSide
from strowger_gateway.gateway.governance.limits.ledger import Hold
from strowger_gateway.gateway.governance.limits.scope import Whose
from strowger_gateway.gateway.governance.limits.standing import LimitPlace, places_of
from tests.gateway.cli.command_line import run
from tests.gateway.experiments.recorded_gateway import Recorded, recorded
from tests.gateway.governance.end_users.test_end_user_limits import HELLO
from tests.gateway.governance.limits.test_leases import Office
from tests.gateway.governance.limits.test_limited_requests import says_hello
from tests.stand_ins.provider import provider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("within_one_period")]

KEY = "key-of-the-operator"
BEARER = {"authorization": f"Bearer {KEY}"}
ANN = sha256(b"ann").hexdigest()[:32]
CONFIG = """
providers: [{{name: a, adapter: openai, base_url: {url}, api_key: k}}]
prices: [{{match: a/*, input: 1, output: 10}}]
models:
  - {{name: chat, backends: [{{provider: a, model: good}}]}}
  - {{name: cheap, backends: [{{provider: a, model: cheap}}]}}
auth:
  mode: keys
  admin_key: key-of-the-operator
  keys:
    - {{name: web, key: key-of-web-00000, team: blue}}
    - {{name: batch, key: key-of-batch-000}}
    - {{name: poor, key: key-of-poor-0000}}
    - {{name: frugal, key: key-of-frugal-00}}
    - {{name: crowd, key: key-of-crowd-000}}
teams: [{{name: blue}}]
end_users: {{sources: [header:x-user, user, safety_identifier], max_per_key: 3}}
limits:
  - {{name: people, who: {{any: true}}, each: end_user, requests: 4, tokens: 90, per: hour}}
  - {{name: of-team, who: {{team: blue}}, requests: 1_000, concurrent: 10}}
  - {{name: of-batch, who: {{key: batch}}, requests: 5, models: [cheap]}}
budgets:
  - {{name: ann-pays, who: {{key: poor}}, each: end_user, usd: 0.0003, per: day}}
  - name: moves
    who: {{key: frugal}}
    each: end_user
    usd: 0.0003
    on_exceeded: {{use_model: cheap}}
store: {{url: 'sqlite:///strowger.db'}}
"""


class Operated:
    """A gateway, and the operator's client. config: the file of the same gateway."""

    def __init__(self, up: Recorded, client: httpx.AsyncClient, config: Path) -> None:
        self.up = up
        self.client = client
        self.config = config

    async def send(self, key: str, user: str, **more: object) -> httpx.Response:
        secret = f"key-of-{key}-00000000"[:16]
        return await self.client.post(
            "/v1/chat/completions",
            headers={"authorization": f"Bearer {secret}"},
            json={**HELLO, "user": user, **more},
        )

    async def limits(self, **query: str) -> list[dict[str, Any]]:
        answer = await self.client.get("/admin/limits", params=query, headers=BEARER)
        assert answer.status_code == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        return list(answer.json()["limits"])

    async def explain(self, key: str, headers: dict[str, str] | None = None, **more: object) -> Any:
        answer = await self.client.post(
            "/admin/explain",
            params={"key": key},
            headers=BEARER | (headers or {}),
            json={**HELLO, **more},
        )
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
async def one(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Operated]:
    folder = tmp_path_factory.mktemp("gateway")
    async with provider() as remote:
        remote.behaviour = says_hello
        text = CONFIG.format(url=remote.base_url)
        async with (
            recorded(text, folder) as up,
            httpx.AsyncClient(base_url=up.running.url, timeout=60) as client,
        ):
            (folder / "config.yaml").write_text(text)
            yield Operated(up, client, folder / "config.yaml")


async def test_the_limits_of_an_end_user_are_shown_as_those_of_a_key(one: Operated) -> None:
    """An answer uses 10 tokens. Who has sent nothing has everything, and gets no account by it."""
    for _ in range(2):
        assert (await one.send("web", "ann")).status_code == 200
    before = len(one.up.running.state.side(EndUsersSide).finder.table)
    ann = await one.limits(key="web", end_user="ann")
    ben = await one.limits(key="web", end_user="ben")
    key = await one.limits(key="web")
    everything = await one.limits()
    table = await asyncio.to_thread(
        run, "limits", "--key", "web", "--end-user", "ann", "--url", one.up.running.url,
        "--admin-key", KEY,
    )  # fmt: skip
    printed = await asyncio.to_thread(
        run, "limits", "--key", "web", "--end-user", "ann", "--url", one.up.running.url,
        "--admin-key", KEY, "--json",
    )  # fmt: skip
    page = await one.client.get("/admin/view/limits?key=web&end_user=ann", headers=BEARER)

    by_people = [row for row in ann if row["limit"] == "people"]
    assert [(row["quantity"], row["used"], row["reserved"], row["left"]) for row in by_people] == [
        ("requests", 2, 0, 2),
        ("tokens", 20, 0, 70),
    ]
    assert {row["subject"] for row in by_people} == {f"web/{ANN}"}
    assert all(3500 < row["resets_s"] <= 3600 and row["room_in_s"] == 0 for row in by_people)
    assert [row["used"] for row in ben if row["limit"] == "people"] == [0, 0]
    assert [(row["quantity"], row["used"]) for row in ann if row["limit"] == "of-team"] == [
        ("requests", 2),
        ("concurrent", 0),
    ]
    assert next(row for row in key if row["limit"] == "people")["subject"] == f"web/{ANN}"
    assert {row["limit"] for row in everything} == {"people", "of-team", "of-batch"}
    assert f"people    web/{ANN}" in table.stdout
    assert json.loads(printed.stdout)["end_user"] == ANN
    assert [row["used"] for row in json.loads(printed.stdout)["limits"]] == [
        row["used"] for row in ann
    ]
    assert f"web/{ANN}" in page.text
    assert len(one.up.running.state.side(EndUsersSide).finder.table) == before


async def test_an_explanation_names_the_limit_that_would_refuse_an_end_user(one: Operated) -> None:
    """Wherever the request names him, and as the gateway then does."""
    for _ in range(4):
        assert (await one.send("batch", "eve")).status_code == 200
    by_field = await one.explain("batch", user="eve")
    by_header = await one.explain("batch", {"x-user": "eve"}, user="ann")
    by_identifier = await one.explain("batch", safety_identifier="eve")
    other = await one.explain("batch", user="ann")
    sent = await one.send("batch", "eve")
    large = await one.explain("batch", user="ann", max_tokens=91)

    for found in (by_field, by_header, by_identifier):
        assert found["refused"]["status"] == sent.status_code == 429
        assert found["refused"]["code"] == sent.json()["error"]["code"] == "limit_exceeded"
        assert "'people' allows 4 requests per hour; retry in" in found["refused"]["message"]
        assert found["end_user"] == sha256(b"eve").hexdigest()[:32]
        assert [row["quantity"] for row in found["limits"] if row["refuses"]] == ["requests"]
    assert other["refused"] is None
    assert [(row["quantity"], row["needs"], row["left"]) for row in other["limits"]] == [
        ("requests", 1, 4),
        ("tokens", 24, 90),
    ]
    assert "this request may use 95; lower max_tokens" in large["refused"]["message"]
    assert large["refused"]["retry_after"] is None


async def test_an_explanation_names_the_budget_of_an_end_user(one: Operated) -> None:
    """Each request reserves 204 millionths of a dollar of 300, and costs 37."""
    for key in ("poor", "frugal"):
        assert [(await one.send(key, "ann")).status_code for _ in range(3)] == [200] * 3
    one.up.settle()
    poor, frugal, ben = [
        await one.explain(key, user=user)
        for key, user in (("poor", "ann"), ("frugal", "ann"), ("poor", "ben"))
    ]
    query = {"key": "poor", "end_user": "ann"}
    shown = await one.client.get("/admin/budgets", params=query, headers=BEARER)
    page = await one.client.get("/admin/view/budgets", params=query, headers=BEARER)
    printed = await asyncio.to_thread(
        run, "budgets", "--config", str(one.config), "--key", "poor", "--end-user", "ann", "--json"
    )

    assert poor["refused"]["code"] == "budget_exceeded"
    assert "'ann-pays' of 0.0003 USD per day has 0.000189 USD left" in poor["refused"]["message"]
    assert budgets_in(poor) == [("ann-pays", 0.000204, 0.000189, True, "")]
    assert frugal["refused"] is None
    assert budgets_in(frugal) == [("moves", 0.000204, 0.000189, False, "cheap")]
    assert budgets_in(ben) == [("ann-pays", 0.000204, 0.0003, False, "")]
    (state,) = shown.json()["budgets"]
    assert (state["budget"], state["subject"]) == ("ann-pays", ANN)
    assert state["spent"] == pytest.approx(0.000111)
    assert json.loads(printed.stdout)["budgets"][0]["spent"] == state["spent"]
    assert ANN in page.text


def budgets_in(found: Any) -> list[tuple[Any, ...]]:
    fields = ("name", "needs", "left", "refuses", "moves_to")
    return [
        tuple(row[name] for name in fields) for row in found["limits"] if row["kind"] == "budget"
    ]


async def test_without_a_gateway_an_explanation_has_what_the_configuration_says(
    one: Operated, tmp_path: Path
) -> None:
    """What is used is not known, so only what never fits is refused."""
    file = tmp_path / "request.json"
    file.write_text(json.dumps({**HELLO, "user": "ann"}))
    words = ("explain", str(file), "--config", str(one.config), "--key", "poor")
    found = await asyncio.to_thread(run, *words)
    file.write_text(json.dumps({**HELLO, "user": "ann", "max_tokens": 60}))
    large = await asyncio.to_thread(run, *words)

    assert (found.exit_code, large.exit_code) == (0, 1)
    assert f"end user   {ANN}" in found.stdout
    assert re.search(rf"people +poor/{ANN} +tokens per hour +24 +\? +90", found.stdout)
    assert re.search(rf"ann-pays +{ANN} +usd per day +0.000204 +\? +0.0003", found.stdout)
    assert re.search(r"ann-pays .* 0.000604 .* refuses", large.stdout)
    assert "rejected with 429 budget_exceeded" in large.stdout


@pytest.mark.parametrize(
    ("query", "param", "words"),
    [
        ({"key": "wbe"}, "key", 'did you mean "web"'),
        ({"end_user": "ann"}, "end_user", "needs key"),
        ({"key": "web", "end_user": "a" * 513}, "end_user", "512 bytes"),
        ({"key": "web", "team": "red"}, "team", "only for callers with tokens"),
        ({"plan": "gold"}, "plan", "needs key"),
    ],
)
async def test_a_question_about_who_is_not_there_names_the_parameter(
    query: dict[str, str], param: str, words: str, one: Operated
) -> None:
    answer = await one.client.get("/admin/limits", params=query, headers=BEARER)

    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert words in error["message"]


async def test_the_page_says_why_a_caller_cannot_be_shown(one: Operated) -> None:
    for part in ("limits", "budgets"):
        page = await one.client.get(f"/admin/view/{part}?key=%3Cb%3E", headers=BEARER)

        assert page.status_code == 400
        assert "no key is named" in page.text
        assert "<b>'" not in page.text


async def test_end_users_without_room_for_their_own_account_are_shown_the_shared_one(
    one: Operated,
) -> None:
    for name in ("u1", "u2", "u3", "u4"):
        assert (await one.send("crowd", name, model="cheap")).status_code == 200
    found = await one.limits(key="crowd", end_user="u5")
    listed = await one.limits(key="crowd")
    explained = await one.explain("crowd", user="u5")

    assert next((row["subject"], row["used"]) for row in found) == ("crowd/others", 1)
    assert explained["end_user"] == "others"
    assert {row["subject"] for row in listed} >= {"crowd/others"}


async def test_what_workers_hold_is_reserved_until_they_use_it() -> None:
    """And a request of which that is in the way finds room: it is given back before."""
    limit = Limit(
        name="l", who=LimitWho(key="web"), each="end_user", requests=640, tokens=1000, per="day"
    )
    office = Office(2, 1, limit)
    accounts = office.workers[0].limits.of(("web", "chat", "chat", "", "", "x", ""))
    assert accounts is not None
    held = await office.workers[0].leases.ask(accounts, 30)
    assert isinstance(held, Hold)
    places = places_of([limit], Whose(key="web", end_user="x"))
    leased = await office.leader.standings(places)
    every = await office.leader.standings(places_of([limit], Whose(key="web")))
    held.settle(10, monotonic_ns())
    while office.workers[0].limits.busy:  # noqa: ASYNC110  no event says so
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.05)
    after = await office.leader.standings(places)
    full = await office.leader.standings([LimitPlace("l", "x", tokens=995)])
    never = await office.leader.standings([LimitPlace("l", "x", tokens=1001)])
    await office.close()

    assert every == leased
    for one, need in zip(leased, (1, 30), strict=True):
        assert one.used + one.reserved + one.left == one.allowed
        assert one.used + one.reserved >= need
        assert one.room_in_s == 0
    assert [(one.used, one.reserved, one.left) for one in after] == [(1, 0, 639), (10, 0, 990)]
    assert full[1].room_in_s is not None
    assert 86_000 < full[1].room_in_s <= 86_400
    assert never[1].room_in_s is None
