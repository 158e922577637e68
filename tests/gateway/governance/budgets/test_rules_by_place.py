"""What applies to a request is looked up once, and again when limits, budgets or prices change."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.budgets import Budget, CountUsd
from strowger_gateway.gateway.config.schema.limits import Limit, LimitWho
from strowger_gateway.gateway.governance.budgets.budgets import Budgets
from strowger_gateway.gateway.governance.budgets.by_place import PlaceRules, RulesByPlace
from strowger_gateway.gateway.governance.budgets.ledger import Reservation
from strowger_gateway.gateway.governance.budgets.process_side import BudgetsSide
from strowger_gateway.gateway.governance.limits.estimate import chat_tokens, expected_tokens
from strowger_gateway.gateway.governance.limits.limits import RequestLimits
from strowger_gateway.gateway.governance.reservations.part import costs_of
from strowger_gateway.gateway.observability.recording.ended_requests import EndedRequests
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, grouped
from strowger_gateway.gateway.routing.planning.policies import POLICIES
from strowger_gateway.gateway.routing.planning.route import Route
from strowger_gateway.gateway.routing.request_record import AttemptRecord
from strowger_gateway.gateway.storage.sql.spend_rows import MOST_TOKENS, Amount, Payer
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.governance.limits.test_limited_requests import AUTH, HELLO, send
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

PLACE = ("web", "chat", "chat", "", "", "", "")
ANYONE = LimitWho(any=True)
PRICES = "prices: [{{match: remote/m-1, input: {0}, output: {0}}}]"
ROUTE = Route(name="chat", backends=(), weights=(), policy=POLICIES["in_order"])
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
        if known is None or known.costs is not costs_of(self.runtime.prepared):
            route = self.runtime.table.find("chat")
            known = self.rules.find(place, route, costs_of(self.runtime.prepared))
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
    assert world.find().leases is None
    world.budgets.configure((Budget(name="b", who=ANYONE, tokens=5, per="day"),))
    assert world.find().leases is not None
    world.budgets.configure(())
    assert world.find().leases is None


def test_another_configuration_has_other_prices(world: World) -> None:
    world.budgets.configure((Budget(name="b", who=ANYONE, usd=5.0, per="day"),))
    before = world.find()
    world.use(PRICES.format(3))
    after = world.find()

    assert (before.simple, after.simple) == (True, True)
    assert (before.input / before.unit, after.input / after.unit) == (1000, 3000)


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


@given(
    texts=st.lists(st.text(max_size=9), min_size=1, max_size=4),
    longest=st.one_of(st.none(), st.integers(1, 5000)),
    n=st.sampled_from([UNSET, 1, 3]),
)
def test_a_plain_chat_is_estimated_as_every_other_request(
    texts: list[str], longest: int | None, n: int | UnsetType
) -> None:
    request = ChatRequest(
        model="chat",
        messages=tuple([Message(role="user", content=text) for text in texts]),
        sampling=Sampling(max_tokens=UNSET if longest is None else longest, n=n),
    )
    tokens = chat_tokens(request)
    expected = expected_tokens(request, ROUTE)

    assert (tokens is None) == (n is not UNSET)
    assert tokens in (None, (expected.prompt, expected.answer))


@given(
    ended=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.booleans(),
            st.one_of(st.none(), st.integers(0, 10**12)),
            st.sampled_from([0, 7, 500, MOST_TOKENS, 3 * MOST_TOKENS]),
        ),
        max_size=20,
    )
)
def test_a_batch_of_requests_is_settled_as_one_after_the_other(
    ended: list[tuple[str, bool, int | None, int]],
) -> None:
    """Per request: its key, whether budgets have reserved it, its cost and its tokens."""
    rules = (
        Budget(name="all", who=ANYONE, usd=9.0, per="day", unknown_price=CountUsd(count_usd=1.0)),
        Budget(name="own", who=ANYONE, each="key", tokens=5000, per="day"),
    )
    together, apart = Budgets(rules, "writer"), Budgets(rules, "writer")
    lines: list[AccessLine] = []
    for number, (key, held, nanos, tokens) in enumerate(ended):
        lines.append(
            AccessLine(
                time=1e9, request_id=str(number), surface="openai", status=200, ms=1.0, key=key,
                model="chat", route="chat", backend="r/m", usage_source="reported",
                attempts=(AttemptRecord(backend="r/m", outcome="ok"),), prompt_tokens=tokens,
                cost_usd=None if nanos is None else nanos / 1e9,
            )
        )  # fmt: skip
        for budgets in (together, apart) if held else ():
            own = budgets.of((key, "chat", "chat", "", "", "", ""))
            assert own is not None
            budgets.holds[str(number)] = Reservation(own, 10, 100)
    together.finished(EndedRequests((), (), grouped(lines), (), 1, 0.0))
    for line in lines:
        apart.finished(EndedRequests((), (), grouped([line]), (), 1, 0.0))

    assert not together.holds
    assert state(together) == state(apart)


def state(budgets: Budgets) -> tuple[object, object]:
    """What the leases have left and have spent, and what was recorded by payer."""
    own = {(one.budget, one.subject): (one.room, one.spent) for one in budgets.busy}
    recorded: dict[Payer, Amount] = {}
    for batch in budgets.take_recorded():
        for one in batch.spend:
            recorded[one.payer] = recorded.get(one.payer, Amount()) + one.amount
    return own, recorded


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
            assert not gateway.state.side(BudgetsSide).budgets.holds
