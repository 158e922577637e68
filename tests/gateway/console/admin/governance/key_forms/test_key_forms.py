"""Keys are issued and changed with fields: all that the API can, without a script."""

import json
import re
from collections.abc import AsyncGenerator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from strowger_gateway.gateway.config.schema.budgets import CountUsd, OwnBudget, UseModel
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.console.admin.governance.key_forms.key_fields import (
    changed_fields,
    fields_of,
    read_key,
)
from strowger_gateway.gateway.governance.issued_keys.authority import KeyFields
from strowger_gateway.gateway.governance.issued_keys.view import KeyView
from tests.gateway.console.admin.governance.governed import Governed, governed, use
from tests.gateway.console.admin.governance.pages import text_of
from tests.gateway.console.admin.governance.test_keys_part import signed_in

pytestmark = pytest.mark.anyio


class Desk(Struct, frozen=True, eq=False):
    """A gateway, and a browser that is signed in."""

    up: Governed
    browser: httpx.AsyncClient

    async def shown(self, name: str) -> dict[str, Any]:
        return (await self.up.client.get(f"/admin/keys/{name}")).json()["key"]


@pytest.fixture(scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Desk]:
    folder: Path = tmp_path_factory.mktemp("desk")
    async with governed(folder) as up, signed_in(up) as browser:
        yield Desk(up, browser)


def sent_by(html: str, action: str) -> dict[str, str]:
    """What a browser sends of a form as it is: each field with its value."""
    found = re.search(
        rf'<form method="post" action="{re.escape(action)}">(.*?)</form>', html, re.DOTALL
    )
    assert found is not None, f"no form posts to {action}"
    fields: dict[str, str] = {}
    for tag in re.findall(r"<input [^>]*>", found[1]):
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if attributes.get("type") != "checkbox" or " checked" in tag:
            fields[attributes["name"]] = unescape(attributes.get("value", ""))
    for name, inside in re.findall(
        r'<select name="([\w.]+)"[^>]*>(.*?)</select>', found[1], re.DOTALL
    ):
        values = re.findall(r'<option value="([^"]*)"( selected)?>', inside)
        fields[name] = unescape(next((v for v, chosen in values if chosen), values[0][0]))
    return fields


def error_next_to(html: str, field: str) -> str:
    """The text that the field names as its description."""
    name = re.escape(field)
    marked = rf'name="{name}"[^>]*aria-invalid="true" aria-describedby="e-{name}"'
    assert re.search(marked, html), f"{field} is not marked"
    found = re.search(rf'<span class="problem" id="e-{name}">(.*?)</span>', html)
    assert found is not None
    return unescape(found[1])


async def test_all_fields_are_set_and_shown_again(desk: Desk) -> None:
    form = sent_by((await desk.browser.get("/admin/view/keys")).text, "/admin/view/keys")
    wanted = {
        **form,
        "name": "whole",
        "team": "search",
        "user": "ann",
        "models.0": "chat",
        "models.1": "sm*",
        "tags": "prod, cc-1",
        "not_before": "2026-01-01T00:00",
        "expires": "2096-01-31T12:30",
        "allowed_networks": "10.0.0.0/8, 127.0.0.0/8",
        "max_priority": "2",
        "disabled": "yes",
        "limits.0.requests": "1,000",
        "limits.0.per": "hour",
        "limits.0.wait_s": "1.5",
        "budgets.0.usd": "12.50",
        "budgets.0.alerts": "0.5, 1",
        "budgets.0.use_model": "small",
    }

    made = await desk.browser.post("/admin/view/keys", data=wanted)
    key = await desk.shown("whole")
    page = (await desk.browser.get("/admin/view/keys/whole")).text
    again = sent_by(page, "/admin/view/keys/whole/change")
    same = await desk.browser.post("/admin/view/keys/whole/change", data=again)

    assert made.status_code == 200
    assert (key["team"], key["user"], key["tags"]) == ("search", "ann", ["prod", "cc-1"])
    assert key["models"] == ["chat", "sm*"]
    assert (key["not_before"], key["expires"]) == ("2026-01-01T00:00:00Z", "2096-01-31T12:30:00Z")
    assert (key["max_priority"], key["disabled"]) == (2, True)
    assert key["allowed_networks"] == ["10.0.0.0/8", "127.0.0.0/8"]
    (limit,), (budget,) = key["limits"], key["budgets"]
    assert (limit["requests"], limit["per"], limit["wait_s"]) == (1000, "hour", 1.5)
    assert (budget["usd"], budget["alerts"]) == (12.5, [0.5, 1.0])
    assert budget["on_exceeded"] == {"use_model": "small"}
    assert same.headers["location"].endswith("done=same")
    assert await desk.shown("whole") == key
    assert "/admin/view/audit?action=key&amp;target=whole" in page


async def test_a_changed_budget_replaces_the_old_one_and_an_emptied_row_removes_it(
    desk: Desk,
) -> None:
    made = {"name": "spends", "budgets": [{"usd": 5, "per": "week"}], "limits": [{"requests": 9}]}
    await desk.up.client.post("/admin/keys", json=made)
    path, seen = "/admin/view/keys/spends/change", list[object]()
    for changed in (
        {"budgets.0.usd": "20", "budgets.0.per": "month"},
        {"budgets.0.usd": "", "limits.0.requests": ""},
    ):
        page = (await desk.browser.get("/admin/view/keys/spends")).text
        await desk.browser.post(path, data={**sent_by(page, path), **changed})
        key = await desk.shown("spends")
        seen.append([(one["usd"], one["per"]) for one in key["budgets"]])

    assert seen == [[(20.0, "month")], []]
    assert key["limits"] == []


async def test_a_time_with_fractions_of_seconds_stays_as_it_is(desk: Desk) -> None:
    made = {"name": "fine", "expires": "2096-01-31T12:30:00.123456Z"}
    await desk.up.client.post("/admin/keys", json=made)
    page = (await desk.browser.get("/admin/view/keys/fine")).text
    form = sent_by(page, "/admin/view/keys/fine/change")

    await desk.browser.post("/admin/view/keys/fine/change", data={**form, "user": "ann"})
    key = await desk.shown("fine")

    assert (key["user"], key["expires"]) == ("ann", "2096-01-31T12:30:00.123456Z")


async def test_only_what_is_changed_is_recorded(desk: Desk) -> None:
    desk.up.issue("partly", team="search")
    page = (await desk.browser.get("/admin/view/keys/partly")).text
    form = {**sent_by(page, "/admin/view/keys/partly/change"), "user": "bob", "team": ""}

    await desk.browser.post("/admin/view/keys/partly/change", data=form)
    rows = (await desk.up.client.get("/admin/audit?action=key.change&target=partly")).json()["rows"]
    other = (await desk.up.client.get("/admin/audit?target=part")).json()["rows"]
    log = text_of((await desk.browser.get("/admin/view/audit?target=partly")).text)

    (row,) = rows
    assert [one["field"] for one in row["changes"]] == ["team", "user"]
    assert other == []
    assert "user: (none) → bob" in log


@pytest.mark.parametrize(
    ("sent", "field", "why"),
    [
        ({"models.0": "chatt"}, "models.0", 'did you mean "chat"'),
        ({"expires": "soon"}, "expires", "expected a day"),
        ({"expires": "2001-01-01"}, "expires", "in the past"),
        ({"allowed_networks": "here"}, "allowed_networks", "write a network as"),
        ({"team": "nobody"}, "team", "no team is named"),
        ({"limits.0.requests": "none"}, "limits.0.requests", "expected a whole number"),
        ({"budgets.0.usd": "ten"}, "budgets.0.usd", "expected a number"),
        ({"limits.2.requests": "0"}, "limits.2.requests", "Expected `int` >= 1"),
        ({"limits.0.wait_s": "1"}, "limits.0.requests", "limits nothing"),
        ({"limits.0.models": "chatt", "limits.0.tokens": "1"}, "limits.0.models", "chatt"),
        ({"budgets.0.usd": "-1"}, "budgets.0.usd", "Expected `float` > 0"),
        ({"budgets.1.usd": "1", "budgets.1.tokens": "2"}, "budgets.1.usd", "tokens"),
        ({"budgets.0.usd": "1", "budgets.0.time_zone": "Mars"}, "budgets.0.time_zone", "Mars"),
    ],
)
async def test_an_error_is_next_to_its_field_and_what_was_typed_stays(
    desk: Desk, sent: dict[str, str], field: str, why: str
) -> None:
    answer = await desk.browser.post("/admin/view/keys", data={"name": "refused", **sent})

    assert answer.status_code == 400
    assert why in error_next_to(answer.text, field)
    kept = sent_by(answer.text, "/admin/view/keys")
    assert {name: kept[name] for name in sent if name != "team"} == {
        name: value for name, value in sent.items() if name != "team"
    }
    assert (await desk.up.client.get("/admin/keys/refused")).status_code == 404


async def test_every_wrong_field_is_named_at_once(desk: Desk) -> None:
    sent = {"name": "refused", "expires": "soon", "limits.0.requests": "x", "budgets.0.usd": "y"}

    answer = await desk.browser.post("/admin/view/keys", data=sent)

    for field in ("expires", "limits.0.requests", "budgets.0.usd"):
        assert error_next_to(answer.text, field)


async def test_a_button_adds_a_row_and_changes_nothing(desk: Desk) -> None:
    sent = {"name": "grown", "limits.0.requests": "5", "limits.1.requests": "6", "more": "limits"}

    answer = await desk.browser.post("/admin/view/keys", data=sent)
    rows = re.findall(r'name="limits\.(\d+)\.requests" value="(\d*)"', answer.text)

    assert answer.status_code == 200
    assert rows == [("0", "5"), ("1", "6"), ("2", ""), ("3", "")]
    assert 'id="act-issue" open' in answer.text
    assert (await desk.up.client.get("/admin/keys/grown")).status_code == 404


async def test_several_keys_are_issued_with_the_same_fields(desk: Desk) -> None:
    sent = {"names": "many-1\nmany-2\nmany-3", "team": "search", "limits.0.requests": "9"}

    page = (await desk.browser.post("/admin/view/keys", data=sent)).text
    secrets = re.findall(r"(many-\d) (sk-strw-[0-9A-Za-z]{49})", page)
    keys = [await desk.shown(f"many-{number}") for number in (1, 2, 3)]

    assert [name for name, _ in secrets] == ["many-1", "many-2", "many-3"]
    assert len({secret for _, secret in secrets}) == 3
    assert len({json.dumps([one["team"], one["limits"]]) for one in keys}) == 1


async def test_of_several_keys_none_is_issued_if_one_may_not_be(desk: Desk) -> None:
    desk.up.issue("taken")
    lists: list[list[str]] = [
        ["fresh", "taken"],
        ["fresh", "fresh"],
        ["fresh", "no name"],
        ["fresh", "of-the-file"],
        [],
        [f"fresh-{number}" for number in range(101)],
    ]
    answers = [
        await desk.up.client.post("/admin/keys/batch", json={"names": names}) for names in lists
    ]

    assert [one.status_code for one in answers] == [409, 400, 400, 409, 400, 400]
    assert "'taken'" in answers[0].json()["error"]["message"]
    assert (await desk.up.client.get("/admin/keys/fresh")).status_code == 404


async def test_the_api_issues_several_keys(desk: Desk) -> None:
    body = {"names": ["api-1", "api-2"], "models": ["chat"]}

    made = (await desk.up.client.post("/admin/keys/batch", json=body)).json()

    assert [one["key"]["name"] for one in made["keys"]] == ["api-1", "api-2"]
    assert all(one["secret"].startswith("sk-strw-") for one in made["keys"])
    assert made["failed"] == []


async def test_keys_of_the_file_show_when_they_were_used_last(desk: Desk) -> None:
    before = await desk.up.client.get("/admin/keys")
    rows = desk.up.store.issued_keys
    assert rows.used_by_records(["crawler"]) == {}

    use(desk.up.store, days=2)
    used = rows.used_by_records(["crawler", "nobody"])

    assert before.json()["keys"][0]["last_used"] is None
    assert used.keys() == {"crawler"}


AMOUNTS = st.integers(min_value=1, max_value=10**12)
LIMITS = st.builds(
    OwnLimit,
    name=st.none() | st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    each=st.sampled_from([None, "end_user"]),
    models=st.lists(st.sampled_from(["chat", "sm*", "*"]), min_size=1, unique=True).map(tuple),
    requests=AMOUNTS,
    tokens=st.none() | AMOUNTS,
    per=st.sampled_from(["minute", "hour", "day"]),
    exact=st.booleans(),
    wait_s=st.sampled_from([0.0, 0.25, 60.0]),
    on_outage=st.sampled_from(["local", "refuse"]),
)
BUDGETS = st.builds(
    OwnBudget,
    usd=st.floats(min_value=0.01, max_value=1e6),
    per=st.sampled_from(["day", "week", "month", "total"]),
    time_zone=st.sampled_from(["UTC", "Asia/Shanghai"]),
    alerts=st.lists(st.sampled_from([0.1, 0.8, 1.0]), unique=True).map(tuple),
    on_exceeded=st.just("refuse") | st.just(UseModel(use_model="small")),
    unknown_price=st.just("deny") | st.just(CountUsd(count_usd=0.25)),
)


@given(st.lists(LIMITS, max_size=4), st.lists(BUDGETS, max_size=4))
def test_a_form_that_is_sent_as_it_is_changes_nothing(
    limits: list[OwnLimit], budgets: list[OwnBudget]
) -> None:
    key = KeyView(
        name="k",
        source="issued",
        state="active",
        models=("a", "b*"),
        max_priority=2,
        tags=("x",),
        limits=tuple(limits),
        budgets=tuple(budgets),
    )

    read = read_key(fields_of(key))

    assert read.errors == {}
    assert changed_fields(read.fields, key) == KeyFields()
