"""Rules of end users that a team, an issued key or a plan has itself."""

from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.budgets import OwnBudget
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.governance.issued_keys.rules_in_force import (
    budgets_in_force,
    limits_in_force,
)
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey
from tests.gateway.config.configs import faults
from tests.gateway.console.admin.governance.governed import CONFIG, governed
from tests.gateway.governance.budgets.test_budgeted_requests import config as budgeted
from tests.gateway.governance.end_users.test_end_user_limits import AUTH, Client
from tests.gateway.governance.identities.test_tokens import accepting
from tests.gateway.governance.identities.test_tokens import send as send_token
from tests.gateway.serving import one_model, serving
from tests.stand_ins.identity_provider import identity_provider
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

PLANS = """
plans:
  - {name: gold, limits: [{each: end_user, requests: 2}, {name: whole, tokens: 100_000}]}
  - {name: open}
"""
CALLERS = (("one", "gold"), ("two", "gold"), ("three", "open"))


def in_team(text: str) -> str:
    """Both keys in the team `t`."""
    return text.replace("web-00000}", "web-00000, team: t}").replace(
        "batch-000}", "batch-000, team: t}"
    )


async def test_the_keys_of_a_team_share_its_end_users(tmp_path: Path) -> None:
    """Its other limit has the same period, so it needs a name."""
    limits = "[{each: end_user, requests: 2}, {name: whole, requests: 4}]"
    text = in_team(one_model("{url}", f"{AUTH}\nteams: [{{name: t, limits: {limits}}}]"))
    async with provider() as a:
        async with serving(text.replace("{url}", a.base_url), tmp_path) as gateway:
            async with Client(gateway) as web, Client(gateway, "batch") as batch:
                answers = [
                    await web.send(user="ann"),
                    await batch.send(user="ann"),
                    await batch.send(user="ann"),
                    await batch.send(user="ben"),
                    await web.send(user="eve"),
                    await web.send(user="fay"),
                ]

    assert [one.status_code for one in answers] == [200, 200, 429, 200, 200, 429]
    assert "'team:t/minute' allows 2 requests" in answers[2].text
    assert "'team:t/whole' allows 4 requests" in answers[5].text


async def test_each_end_user_of_a_team_has_its_budget(tmp_path: Path) -> None:
    """Each request reserves 44 USD and costs 13. The key without a team names nobody."""
    teams = "teams: [{name: t, budgets: [{each: end_user, usd: 60}]}]"
    text = budgeted("{url}", "  - {name: all, who: {any: true}, usd: 900}")
    text = text.replace("web-00000}", "web-00000, team: t}") + f"\n{teams}\n"
    async with provider() as a:
        async with serving(text.replace("{url}", a.base_url), tmp_path) as gateway:
            async with Client(gateway) as web, Client(gateway, "batch") as batch:
                anns = [await web.send(user="ann") for _ in range(3)]
                others = [await web.send(user="ben"), await batch.send(user="ann")]
            lines = gateway.access_lines()

    assert [one.status_code for one in anns] == [200, 200, 429]
    assert "the budget 'team:t/month' of 60 USD per month has 34 USD left" in anns[2].text
    assert [one.status_code for one in others] == [200, 200]
    assert [bool(line.end_user) for line in lines] == [True] * 4 + [False]


async def test_an_issued_key_has_limits_and_budgets_of_its_end_users(tmp_path: Path) -> None:
    """They are set, shown, changed and refused like all others."""
    limits = [{"each": "end_user", "requests": 2, "per": "hour"}]
    budgets = [{"name": "people", "each": "end_user", "usd": 1.5, "per": "total"}]
    async with governed(tmp_path) as up:
        made = await up.client.post(
            "/admin/keys", json={"name": "app", "limits": limits, "budgets": budgets}
        )
        refused = [
            await up.client.patch("/admin/keys/app", json=fields)
            for fields in (
                {"limits": [{"each": "key", "requests": 2}]},
                {"budgets": [{"each": "user", "usd": 1}]},
                {"limits": [{"requests": 2}, {"each": "end_user", "requests": 2}]},
            )
        ]
        shown = (await up.client.get("/admin/keys/app")).json()["key"]
        page = (await up.client.get("/admin/view/keys/app")).text

    assert made.status_code == 200, made.text
    assert [one.status_code for one in refused] == [400] * 3
    errors = [one.json()["error"] for one in refused]
    assert "Invalid enum value 'key' - at `$.limits[0].each`" in errors[0]["message"]
    assert "Invalid enum value 'user' - at `$.budgets[0].each`" in errors[1]["message"]
    assert errors[2]["param"] == "limits[1].name"
    assert [one["each"] for one in (*shown["limits"], *shown["budgets"])] == ["end_user"] * 2
    assert "each=end_user,requests=2,per=hour" in page
    assert "name=people,each=end_user,usd=1.5,per=total" in page


def test_the_rules_in_force_of_an_issued_key_hold_its_end_users_apart() -> None:
    key = IssuedKey(
        name="app",
        limits=(OwnLimit(each="end_user", requests=2, per="hour"),),
        budgets=(OwnBudget(each="end_user", tokens=25, per="total"),),
    )
    settings = read_config(CONFIG, source="config.yaml", env={})

    limit = limits_in_force(settings, (key,))[-1]
    budget = budgets_in_force(settings, (key,))[-1]

    assert (limit.name, limit.who.key, limit.each) == ("key:app/hour", "app", "end_user")
    assert (budget.name, budget.who.key, budget.each) == ("key:app/total", "app", "end_user")


async def test_each_end_user_of_a_caller_with_a_plan_has_its_limit(tmp_path: Path) -> None:
    """A caller with another plan has none, and one's end users are not another's."""
    async with identity_provider() as issuer:
        async with accepting(issuer, tmp_path, "claims: {plan: tier}", PLANS) as gateway:
            tokens = [issuer.token(sub=name, tier=tier) for name, tier in CALLERS]
            found = [
                [(await send_token(gateway, token, user=user)).status_code for _ in range(3)]
                for token in tokens
                for user in ("ann", "ben")
            ]
            last = await send_token(gateway, tokens[0], user="ann")

    assert found == [[200, 200, 429]] * 4 + [[200] * 3] * 2
    assert "'plan:gold/minute' allows 2 requests per minute" in last.text


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ("teams: [{name: t, limits: [{each: key, requests: 1}]}]", "teams[0].limits[0].each"),
        ("teams: [{name: t, budgets: [{each: team, usd: 1}]}]", "teams[0].budgets[0].each"),
        ("plans: [{name: p, limits: [{each: user, requests: 1}]}]", "plans[0].limits[0].each"),
        (
            "teams: [{name: t, limits: [{requests: 1}, {each: end_user, requests: 1}]}]",
            'teams[0].limits[1].name: "minute" is already the name of limits[0]',
        ),
    ],
)
def test_a_wrong_subject_is_named_with_its_place(more: str, fault: str) -> None:
    found = faults(one_model("https://a.example.com/v1", more))

    assert any(fault in one for one in found), found
