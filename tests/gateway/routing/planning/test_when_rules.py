"""A `when` rule that does not match names the conditions that do not."""

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.config import WhenRule
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.when_rules import matches, unmet_conditions
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling

VALUES = st.sampled_from(["a", "ab", "a*", "b"])
RULES = st.builds(
    WhenRule,
    header=st.dictionaries(st.sampled_from(["x-tier", "x-team"]), VALUES, max_size=2),
    key=st.none() | VALUES,
    tokens_over=st.none() | st.integers(1, 12),
    features=st.lists(st.sampled_from(["stream", "top_k", "user"]), max_size=2).map(tuple),
    backends=st.just(("p/m",)),
)
REQUESTS = st.builds(
    ChatRequest,
    model=st.just("m"),
    messages=st.integers(0, 40).map(lambda n: (Message(role="user", content="x" * n),)),
    stream=st.booleans(),
    user=st.just("u"),
    sampling=st.builds(Sampling, top_k=st.sampled_from([None, 4])),
)
FACTS = st.builds(
    RequestFacts,
    caller=st.sampled_from(["", "a", "ab", "b"]),
    headers=st.lists(
        st.tuples(st.sampled_from([b"x-tier", b"x-team"]), st.sampled_from([b"a", b"ab", b"b"])),
        max_size=2,
    ),
)


@given(RULES, REQUESTS, FACTS)
def test_a_rule_matches_exactly_if_no_condition_is_unmet(
    rule: WhenRule, request: ChatRequest, facts: RequestFacts
) -> None:
    assert matches(rule, request, facts) == (not unmet_conditions(rule, request, facts))
