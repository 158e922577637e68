"""Plans of identity providers: a claim names the limits of its caller."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.config.configs import faults
from tests.gateway.governance.identities.test_tokens import CONFIG, accepting, send
from tests.gateway.serving import one_model
from tests.stand_ins.identity_provider import identity_provider

pytestmark = pytest.mark.anyio

PLANS = """
plans:
  - {name: gold, limits: [{requests: 3}, {name: big, tokens: 100_000, per: day}]}
  - {name: free, limits: [{requests: 1, models: [chat]}]}
  - {name: open}
"""


async def test_every_caller_of_a_plan_has_its_limits_for_itself(tmp_path: Path) -> None:
    fields = "claims: {plan: realm.tier}\n      plan: free"
    async with identity_provider() as issuer:
        async with accepting(issuer, tmp_path, fields, PLANS) as gateway:
            found: dict[str, list[int]] = {}
            answers: dict[str, list[httpx.Response]] = {}
            for name, tier in (
                ("ann", {"tier": "gold"}),
                ("ben", {"tier": ["staff", "free", "gold"]}),
                ("eve", {"tier": "free"}),
                ("fay", {}),
                ("guy", {"tier": "open"}),
            ):
                token = issuer.token(sub=name, realm=tier)
                answers[name] = [await send(gateway, token) for _ in range(4)]
                found[name] = [one.status_code for one in answers[name]]
            spare = await send(
                gateway, issuer.token(sub="eve", realm={"tier": "free"}), model="spare"
            )
            key = [await send(gateway, "key-of-the-file") for _ in range(2)]

    assert found == {
        "ann": [200, 200, 200, 429],
        "ben": [200, 200, 200, 429],
        "eve": [200, 429, 429, 429],
        "fay": [200, 429, 429, 429],
        "guy": [200, 200, 200, 200],
    }
    assert "'plan:gold/minute' allows 3 requests per minute" in answers["ann"][3].text
    assert answers["ann"][0].headers["x-ratelimit-remaining-requests"] == "2"
    assert answers["ann"][0].headers["x-ratelimit-limit-tokens"] == "100000"
    assert "x-ratelimit-limit-requests" not in answers["guy"][0].headers
    assert spare.status_code == 200
    assert [one.status_code for one in key] == [200, 200]


@pytest.mark.parametrize(
    ("tier", "text"),
    [
        ("platinum", "claim tier: names no plan of the gateway"),
        (["a", "b"], "claim tier: names no plan of the gateway"),
        ([], "claim tier: names no plan of the gateway"),
        (7, "claim tier: expected the name of a plan, or a list of names"),
        ({"name": "gold"}, "claim tier: expected the name of a plan, or a list of names"),
        (None, "claim tier: is missing, and the gateway needs a plan in it"),
    ],
)
async def test_a_claim_without_a_known_plan_is_refused_by_its_name(
    tier: object, text: str, tmp_path: Path
) -> None:
    async with identity_provider() as issuer:
        async with accepting(issuer, tmp_path, "claims: {plan: tier}", PLANS) as gateway:
            answer = await send(gateway, issuer.token(tier=tier))

    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "token_not_allowed"
    assert text in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fields", "plans", "fault"),
    [
        ("plan: gold", "", 'auth.jwt[0].plan: no plan is named "gold"; there are none in plans'),
        ("plan: glod", PLANS, 'no plan is named "glod"; did you mean "gold"?'),
        ("claims: {plan: tier}", "", "auth.jwt[0].claims.plan: refuses every token"),
        ("", "plans: [{name: a}, {name: a}]", '"a" is already the name of plans[0]'),
        ("", "plans: [{name: a, limits: [{}]}]", "plans[0].limits[0]: limits nothing"),
        (
            "",
            "limits: [{name: 'plan:a/minute', who: {any: true}, requests: 1}]",
            'limits[0].name: "plan:a/minute" begins like the names',
        ),
        ("", "limits: [{name: a, who: {any: true}, requests: 1, plan: b}]", "limits[0].plan"),
    ],
)
def test_mistakes_in_plans_are_named(fields: str, plans: str, fault: str) -> None:
    text = CONFIG.format(issuer="https://login.example.com", fields=fields, more=plans)

    assert any(fault in one for one in faults(one_model("https://a.example.com/v1", text)))
