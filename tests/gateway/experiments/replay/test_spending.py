"""The account of a run: no sequence of calls exceeds its bound, whatever they turn out to cost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.config.schema.prices import Price
from strowger_gateway.gateway.experiments.replay.spending import (
    NOTHING,
    Bound,
    BoundReached,
    ModelPrice,
    Spending,
    Spent,
    prompt_tokens,
)
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.schemas.usage import Usage

PRICES = Prices(
    (
        Price(match="v/cheap", input=1, output=2),
        Price(match="v/dear", input=10, output=20, cache_write=12.5),
    )
)
PAIRS = st.lists(st.lists(st.tuples(st.integers(0, 50), st.floats(0, 1)), max_size=4), max_size=30)


@given(PAIRS, st.integers(0, 300), st.integers(0, 300))
def test_no_sequence_of_calls_exceeds_the_bound(
    pairs: list[list[tuple[int, float]]], most: int, tokens: int
) -> None:
    spending = Spending(Bound(nanos=most, tokens=tokens), NOTHING)
    for pair in pairs:
        worst = [Spent(nanos=cost, tokens=cost) for cost, _ in pair]
        hold = sum(worst, NOTHING)
        if not spending.hold(hold):
            continue
        for one, (cost, share) in zip(worst, pair, strict=True):
            hold = spending.reserve(one, hold)
            assert spending.charged.nanos <= most
            assert spending.charged.tokens <= tokens
            used = int(cost * share)
            spending.settle(one, Spent(nanos=used, tokens=used))
        spending.free(hold)
    assert spending.held == NOTHING


def test_a_second_attempt_needs_room_of_its_own() -> None:
    spending = Spending(Bound(nanos=10), NOTHING)
    assert spending.hold(Spent(nanos=6))
    rest = spending.reserve(Spent(nanos=6), Spent(nanos=6))

    with pytest.raises(BoundReached):
        spending.reserve(Spent(nanos=6), rest)

    assert spending.charged == Spent(nanos=6)


def test_the_dearest_backend_is_expected_and_the_one_that_answers_is_paid() -> None:
    price = ModelPrice(PRICES, ["v/cheap", "v/dear"])
    body = {"messages": [{"role": "user", "content": "x" * 1_000}]}
    tokens = prompt_tokens(body)
    usage = Usage(prompt_tokens=100, completion_tokens=10)

    worst = price.worst(body, 50)
    assert worst.nanos == round(tokens * 12_500 + 50 * 20_000)
    assert price.actual(usage, "v/cheap", worst).nanos == 100 * 1_000 + 10 * 2_000
    assert price.actual(usage, "", worst).nanos == 100 * 12_500 + 10 * 20_000
    assert price.actual(Usage(), "v/cheap", worst) == worst


def test_unknown_prices_are_named() -> None:
    assert ModelPrice(PRICES, ["v/cheap", "v/other"]).unpriced == ("v/other",)


@given(st.text())
def test_a_text_counts_at_least_as_its_bytes_suggest(text: str) -> None:
    body = {"messages": [{"role": "user", "content": text}]}

    assert 2 * prompt_tokens(body) >= len(text.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("电话交换机的历史" * 3_000, 24_000),
        ("7" * 100_000, 100_000),
        ("👩‍👩‍👧🎉" * 1_000, 8_000),
        ("x" * 100_000, 50_000),
        ("data:" + "A" * 100_000, 50_000),
    ],
    ids=["Chinese", "digits", "emoji", "a word without an end", "base64 as text"],
)
def test_a_text_without_blanks_counts_as_text(text: str, tokens: int) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}

    assert prompt_tokens(body) >= tokens
    assert prompt_tokens({"messages": [{"role": "user", "content": text}]}) >= tokens
    assert prompt_tokens({"input": text}) >= tokens


def test_an_image_counts_as_an_image_and_not_as_its_base64() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 2_000_000}}

    assert prompt_tokens({"messages": [{"role": "user", "content": [image]}]}) < 10_000
