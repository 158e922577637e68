"""Which units an experiment caches."""

import sys

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.routing.planning.enrolment import (
    ExperimentRouter,
    ExperimentState,
    ExperimentStatus,
    fingerprint,
)
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from tests.gateway.routing.backends import backend

CONFIG = """
providers: [{name: a, adapter: openai, api_key: k}]
models:
  - {name: chat, backends: [{provider: a, model: old}, {provider: a, model: new}]}
experiments:
  - name: greeting
    model: chat
    primary: thumbs_up
    assign_by: ASSIGN_BY
    variants:
      - {name: control, backend: a/old, weight: 50}
      - {name: treatment, backend: a/new, weight: 50}
"""


def router(assign_by: str) -> ExperimentRouter:
    text = CONFIG.replace("ASSIGN_BY", assign_by)
    (config,) = read_config(text, source="config.yaml", env={}).experiments
    state = ExperimentState()
    state.push({fingerprint(config): ExperimentStatus(epoch=1)})
    return ExperimentRouter(config, backend, state)


def chat(user: str) -> ChatRequest:
    return ChatRequest(model="chat", messages=(Message(role="user", content="hi"),), user=user)


@pytest.mark.parametrize(
    ("assign_by", "long", "cached"),
    [("user", False, True), ("user", True, False), ("request", False, False)],
    ids=["a user", "a user name of a megabyte", "a request id"],
)
def test_units_are_cached_only_if_they_are_short_and_can_recur(
    assign_by: str, long: bool, cached: bool
) -> None:
    experiment = router(assign_by)
    name = "".join(["u", "x" * (1_000_000 if long else 10)])
    facts = RequestFacts(request_id=name if assign_by == "request" else "r")
    request = chat("ada" if assign_by == "request" else name)
    before = sys.getrefcount(name)

    first = experiment.enrol(request, facts)

    assert (sys.getrefcount(name) > before) == cached
    assert experiment.enrol(request, facts).participation == first.participation
