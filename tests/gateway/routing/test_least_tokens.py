"""A request is never refused for its length if its exact number of tokens fits."""

from functools import cache
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.config.schema.capabilities import Capability
from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.planning.model_facts import known_models
from strowger_gateway.gateway.routing.planning.model_limits import least_tokens
from strowger_gateway.gateway.routing.planning.planner import Planner
from strowger_gateway.gateway.routing.planning.policies import POLICIES
from strowger_gateway.gateway.routing.planning.request_facts import RequestFacts
from strowger_gateway.gateway.routing.planning.route import Backend, Route, RouteTable
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.retry import RetryBudget
from strowger_gateway.local_engine import bundled
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import Message, TextPart
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, Request, TokenRequest
from tests.gateway.routing.backends import UnusedUpstream

FILE = Path(bundled.__file__).parent / "tiny-chat" / "tokenizer.json"
PHRASE, LONGEST = 4, 128
"""The coarsest tokens that exist: four words, or 128 characters of anything."""


def repeated(text: str, times: int) -> str:
    return text * times


TEXTS = st.one_of(
    st.text(max_size=400),
    st.lists(st.sampled_from(["by the way", " " * 128, "-" * 128, "中文", "a", "\n\n", "🎉"])).map(
        " ".join
    ),
    st.builds(repeated, st.text(max_size=12), st.integers(0, 300)),
)


@cache
def library() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(FILE))


def coarsest(text: str) -> int:
    """The fewest tokens of PHRASE words or LONGEST characters that cover a text, greedily."""
    count = 0
    at = 0
    while at < len(text):
        end = min(at + LONGEST, len(text))
        while len(text[at:end].split()) > PHRASE:
            end -= 1
        count += not text[at:end].isspace()
        at = end
    return count


def planner_with(context: int) -> tuple[Planner, Route]:
    fields = frozenset({"max_tokens", "prompt.tokens", "prompt.batch"})
    backend = Backend(
        name="p/m",
        model="m",
        upstream=UnusedUpstream(),
        supports=Supports(chat=fields, completion=fields, tokens=fields),
        breaker=Breaker(BreakerRule()),
        budget=RetryBudget(),
        models=known_models((Capability(match="p/m", context=context),), ()),
    )
    route = Route(name="m", backends=(backend,), weights=(1.0,), policy=POLICIES["in_order"])
    return Planner(RouteTable([route], {})), route


def is_refused(request: Request, context: int) -> bool:
    planner, route = planner_with(context)
    try:
        planner.plan(route, request, RequestFacts())
    except InvalidRequest as exc:
        return exc.code == "context_length_exceeded"
    return False


def chat(*texts: str) -> ChatRequest:
    return ChatRequest("m", tuple(Message(role="user", content=text) for text in texts))


@given(st.lists(TEXTS, min_size=1, max_size=4))
@example(["by the way " * 500])
@example([" " * 70_000 + "x"])
@example(["x" * 70_000 + " y" * 1_000])
def test_a_chat_is_never_refused_by_a_context_that_its_tokens_fit(texts: list[str]) -> None:
    exact = sum(len(library().encode(text, add_special_tokens=False).ids) for text in texts)
    parts = ChatRequest(
        "m", (Message(role="user", content=tuple(TextPart(text=text) for text in texts)),)
    )
    for request in (chat(*texts), parts):
        for count in (exact, sum(map(coarsest, texts))):
            assert not is_refused(request, max(1, count))


@given(TEXTS)
def test_reading_on_never_lowers_the_least_number_of_tokens(text: str) -> None:
    request = chat(text)

    whole = least_tokens(request, 1 << 40)

    assert whole <= coarsest(text)
    for enough in (0, 1, 5, whole):
        some = least_tokens(request, enough)
        assert some <= whole
        assert (some > enough) == (whole > enough)


@given(st.integers(1, 300), st.integers(1, 300))
def test_token_ids_are_refused_exactly_when_there_are_more_than_the_context(
    count: int, context: int
) -> None:
    ids = (5,) * count

    for request in (
        TokenRequest(model="m", tokens=ids),
        CompletionRequest(model="m", prompts=((1,), ids), batch=True),
    ):
        assert is_refused(request, context) == (count > context)


@pytest.mark.parametrize("text", ["word " * 5_000, "wörter\n" * 5_000, "0123456789" * 30_000])
def test_a_text_far_over_the_context_is_refused(text: str) -> None:
    assert is_refused(chat(text), 1_000)
