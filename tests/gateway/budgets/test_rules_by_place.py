"""What applies to a request is looked up once, and again when limits, budgets or prices change."""

from itertools import pairwise
from pathlib import Path

import pytest

from gateway.budgets.budgets import Budgets
from gateway.budgets.by_place import PlaceRules, RulesByPlace
from gateway.config.load import read_config
from gateway.config.schema.budgets import Budget
from gateway.config.schema.limits import Limit, LimitWho
from gateway.limits.limits import RequestLimits
from gateway.runtime import Runtime
from tests.gateway.limits.test_limited_requests import AUTH, HELLO, send
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

PLACE = ("web", "chat", "chat", "", "", "", "")
ANYONE = LimitWho(any=True)
PRICES = "prices: [{{match: remote/m-1, input: {0}, output: {0}}}]"
RULES = """
limits:
  - {name: minute, who: {any: true}, requests: 2000, tokens: 100000}
  - {name: hour, who: {any: true}, requests: 3000, tokens: 90000, per: hour}
budgets: [{name: day, who: {any: true}, usd: 100, per: day}]
"""


class World:
    """The limits and budgets of a process, and a model whose tokens cost a dollar per million."""

    def __init__(self, folder: Path, limits: tuple[Limit, ...] = ()) -> None:
        self.folder = folder
        self.limits, self.budgets = RequestLimits(limits), Budgets((), "writer")
        self.rules = RulesByPlace(self.limits, self.budgets)
        self.use(PRICES.format(1))

    def use(self, prices: str) -> None:
        text = one_model("http://127.0.0.1:1/v1", prices)
        self.runtime = Runtime(read_config(text, source="c.yaml", env={}), run_dir=self.folder)

    def find(self, end_user: str = "") -> PlaceRules:
        place = (*PLACE[:5], end_user, "")
        known = self.rules.known.get(place)
        if known is None or known.costs is not self.runtime.costs:
            route = self.runtime.table.find("chat")
            known = self.rules.find(place, route, self.runtime.costs)
        return known


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_limit_that_is_added_applies_to_the_next_request(world: World) -> None:
    assert world.find().accounts is None
    world.limits.configure((Limit(name="l", who=ANYONE, requests=5),))
    assert world.find().accounts is not None
    world.limits.configure(())
    assert world.find().accounts is None


def test_a_budget_that_is_added_applies_to_the_next_request(world: World) -> None:
    assert world.find().purses is None
    world.budgets.configure((Budget(name="b", who=ANYONE, tokens=5, per="day"),))
    assert world.find().purses is not None
    world.budgets.configure(())
    assert world.find().purses is None


def test_another_configuration_has_other_prices(world: World) -> None:
    world.budgets.configure((Budget(name="b", who=ANYONE, usd=5.0, per="day"),))
    before = world.find()
    world.use(PRICES.format(3))
    after = world.find()

    assert (before.simple, after.simple) == (True, True)
    assert after.input == 3 * before.input > 0


def test_accounts_that_are_dropped_as_unused_are_looked_up_again(tmp_path: Path) -> None:
    """Otherwise two places would count in two accounts of one end user."""
    world = World(tmp_path, (Limit(name="l", who=ANYONE, each="end_user", requests=5),))
    first = world.find("ann")
    for number in range(10_001):
        world.find(f"user-{number}")
    again = world.find("ann")

    assert first.accounts is not None
    assert again.accounts is not None
    assert again.accounts.all[0] is world.limits.account("l", "web/ann")
    assert again.accounts.all[0] is not first.accounts.all[0]


@pytest.mark.anyio
async def test_a_prompt_counts_alike_as_a_text_and_in_parts(tmp_path: Path) -> None:
    """Plain texts take a shorter way than all other requests, to the same numbers."""
    texts = ["hi", "a longer question", "ünïcödé 漢字"]
    async with provider() as a:
        config = one_model(a.base_url, f"{AUTH}\n{PRICES.format(1)}\n{RULES}")
        async with serving(config, tmp_path) as gateway:
            for text in texts:
                parts = [{"type": "text", "text": text}]
                shown = [
                    await send(
                        gateway, body={**HELLO, "messages": [{"role": "user", "content": c}]}
                    )
                    for c in (text, parts, text, parts)
                ]
                left = [int(one.headers["x-ratelimit-remaining-tokens"]) for one in shown]
                assert [one.status_code for one in shown] == [200] * 4
                # Each is settled before the next one, whose estimate is the same.
                assert len({one - other for one, other in pairwise(left)}) == 1
                assert {one.headers["x-ratelimit-limit-tokens"] for one in shown} == {"90000"}
                assert {one.headers["x-ratelimit-limit-requests"] for one in shown} == {"2000"}
                assert {one.headers["x-ratelimit-reset-tokens"] for one in shown} == {"1h0m0s"}
            gateway.state.log.flush()
            assert not gateway.state.budgets.holds
