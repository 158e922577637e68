"""The plan cache and the limits of models: equal to plans without a cache; and published prices."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.examples import examples

CONFIG = """
providers:
  - {name: p, adapter: openai, base_url: "http://127.0.0.1:9/v1"}
models:
  - name: chat
    policy: in_order
    backends: [{provider: p, model: a}, {provider: p, model: b}, {provider: p, model: c}]
    fallback: [other]
  - {name: other, backends: [{provider: p, model: d}]}
capabilities:
  - {match: p/a, context: 20, max_output: 10}
  - {match: p/b, context: 200, max_output: 5}
  - {match: p/d, context: 2000}
"""
PRICED = """
providers:
  - {name: o, adapter: openai, api_key: k}
  - {name: a, adapter: anthropic, api_key: k}
models:
  - name: chat
    policy: lowest_cost
    backends: [{provider: a, model: claude-opus-4-6}, {provider: o, model: gpt-4.1-nano}]
prices: {from: catalogue}
"""


def asking(words: int, most: int | None) -> ChatRequest:
    sampling = Sampling() if most is None else Sampling(max_tokens=most)
    return ChatRequest("chat", (Message(role="user", content="word " * words),), sampling)


REQUESTS = st.builds(asking, st.integers(0, 12_000), st.sampled_from([None, 1, 5, 6, 10, 11]))


def outcome(planner: Planner, request: ChatRequest) -> object:
    try:
        plan = planner.plan(planner.table.find("chat"), request, RequestFacts())
    except InvalidRequest as exc:
        return exc.message
    return [(one.name, one.request, one.dropped, one.defaulted) for one in plan.candidates]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    config = read_config(CONFIG, source="config.yaml", env={})
    return Runtime(config, run_dir=tmp_path_factory.mktemp("run"))


@given(st.lists(REQUESTS, min_size=2, max_size=8))
@settings(max_examples=examples(60), deadline=None)
def test_a_cached_plan_is_the_plan_that_a_new_planner_makes(
    runtime: Runtime, requests: list[ChatRequest]
) -> None:
    cached = Planner(runtime.table)

    for request in requests:
        assert outcome(cached, request) == outcome(Planner(runtime.table), request)


@given(REQUESTS)
@settings(max_examples=examples(60), deadline=None)
def test_the_backend_of_unknown_context_takes_every_prompt(
    runtime: Runtime, request: ChatRequest
) -> None:
    plan = runtime.planner.plan(runtime.table.find("chat"), request, RequestFacts())

    names = [one.name for one in plan.candidates]
    excluded = [name for name, _ in plan.ruled_out]
    assert "p/c" in names
    assert sorted(names + excluded) == ["p/a", "p/b", "p/c", "p/d"]


def test_the_cheapest_by_published_prices_needs_no_written_ones(tmp_path: Path) -> None:
    config = read_config(PRICED, source="c", env={})
    runtime = Runtime(config, run_dir=tmp_path)
    request = ChatRequest("chat", (Message(role="user", content="hi"),))

    for draw in (0.1, 0.9):
        facts = RequestFacts(uniform_draw=draw)
        plan = runtime.planner.plan(runtime.table.find("chat"), request, facts)
        assert plan.names == ("o/gpt-4.1-nano", "a/claude-opus-4-6")
