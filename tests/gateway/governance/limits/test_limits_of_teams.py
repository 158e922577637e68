"""Limits that a team has itself, streams and other surfaces included; and finding rules by key."""

from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.limits.scope import RuleIndex, subject_of
from tests.gateway.governance.limits.test_limited_requests import HELLO, INFER
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

TEAMS = """
teams:
  - name: red
    limits: [{requests: 3, per: hour}, {name: seats, concurrent: 9}]
    budgets: [{name: small, tokens: 1000}]
auth:
  mode: keys
  keys:
    - {name: one, key: key-of-one-0000, team: red}
    - {name: two, key: key-of-two-0000, team: red}
    - {name: three, key: key-of-three-00}
"""


@pytest.mark.anyio
async def test_the_keys_of_a_team_share_its_own_limit_on_every_surface(tmp_path: Path) -> None:
    asked = [
        ("one", "/v1/chat/completions", HELLO),
        ("two", "/v1/messages", HELLO),
        ("one", "/infer_token", INFER),
        ("two", "/v1/chat/completions", HELLO),
        ("one", "/v1/chat/completions", {**HELLO, "stream": True}),
        ("three", "/v1/chat/completions", HELLO),
    ]
    async with provider() as a, serving(one_model(a.base_url, TEAMS), tmp_path) as gateway:
        found: list[httpx.Response] = []
        for name, path, body in asked:
            headers = {"authorization": f"Bearer {f'key-of-{name}-0000'[:15]}"}
            async with httpx.AsyncClient(
                base_url=gateway.url, headers=headers, timeout=60
            ) as client:
                found.append(await client.post(path, json=body))

    assert [one.status_code == 429 for one in found] == [False, False, False, True, True, False]
    message = found[3].json()["error"]["message"]
    assert "the limit 'team:red/hour' allows 3 requests per hour" in message


NAMES = st.sampled_from(["a", "b", "c", "d"])
WHO = (
    st.builds(LimitWho, key=NAMES)
    | st.builds(LimitWho, team=NAMES)
    | st.builds(LimitWho, user=NAMES)
    | st.just(LimitWho(any=True))
)
LIMIT = st.builds(
    Limit,
    name=st.just("l"),
    who=WHO,
    each=st.sampled_from([None, "key", "team", "user"]),
    models=st.sampled_from([("*",), ("chat",), ("other", "ch*")]),
    requests=st.just(9),
)


def named(limits: list[Limit]) -> tuple[Limit, ...]:
    return tuple(replace(limit, name=f"l{place}") for place, limit in enumerate(limits))


LIMITS = st.lists(LIMIT, max_size=12).map(named)


@given(LIMITS, NAMES, st.sampled_from(["", "a"]), st.sampled_from(["", "b"]), NAMES)
def test_the_limits_of_a_request_are_those_that_a_walk_over_all_of_them_finds(
    limits: tuple[Limit, ...], key: str, team: str, user: str, model: str
) -> None:
    expected = [
        (limit.name, subject)
        for limit in limits
        if (subject := subject_of(limit, key, team, user)) is not None
        and covers(limit.models, "chat", model)
    ]

    accounts = RequestLimits(limits).of((key, "chat", model, team, user, "", ""))
    found = [] if accounts is None else [(one.limit, one.subject) for one in accounts.all]
    assert found == expected
    assert set(RuleIndex(limits).of_key(key)) <= set(limits)
