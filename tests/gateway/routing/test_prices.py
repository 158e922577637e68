"""The cost of an answer: its tokens times the operator's prices, per kind of token."""

import pytest

from gateway.config.schema import Price
from gateway.routing.planning.prices import Prices, cost_of, expected_cost
from schemas.events import Usage

FULL = Price(match="a/m", input=10, output=40, cached_input=1, cache_write=12.5, reasoning=50)
PLAIN = Price(match="a/m", input=10, output=40)
USAGE = Usage(
    prompt_tokens=1_000_000,
    cached_tokens=300_000,
    cache_write_tokens=200_000,
    completion_tokens=100_000,
    reasoning_tokens=60_000,
)


def test_each_kind_of_token_has_its_price() -> None:
    expected = 0.5 * 10 + 0.3 * 1 + 0.2 * 12.5 + 0.04 * 40 + 0.06 * 50

    assert cost_of(USAGE, FULL) == pytest.approx(expected)


def test_cache_writes_for_an_hour_have_their_own_price() -> None:
    usage = Usage(
        prompt_tokens=1_000_000, cache_write_tokens=500_000, cache_write_1h_tokens=200_000
    )
    apart = Price(match="a/m", input=10, output=40, cache_write=12.5, cache_write_1h=20)

    assert cost_of(usage, apart) == pytest.approx(0.5 * 10 + 0.3 * 12.5 + 0.2 * 20)
    assert cost_of(usage, FULL) == pytest.approx(0.5 * 10 + 0.5 * 12.5)
    assert cost_of(usage, PLAIN) == pytest.approx(10)


def test_a_kind_without_a_price_costs_as_much_as_input_or_output() -> None:
    assert cost_of(USAGE, PLAIN) == pytest.approx(10 + 4)


def test_the_cost_is_unknown_if_the_backend_does_not_report_tokens() -> None:
    assert cost_of(Usage(completion_tokens=5), PLAIN) is None


def test_the_exact_row_wins_then_the_longest_wildcard() -> None:
    rows = [Price(match=match, input=1, output=1) for match in ("a/*", "a/gpt-*", "a/gpt-4o")]
    prices = Prices(rows)

    found = [prices.of(name) for name in ("a/gpt-4o", "a/gpt-4o-mini", "a/o1", "b/gpt-4o")]

    assert [row.match if row else None for row in found] == ["a/gpt-4o", "a/gpt-*", "a/*", None]


def test_without_max_tokens_the_expected_answer_is_as_long_as_the_prompt() -> None:
    assert expected_cost(1_000, None, PLAIN) == expected_cost(1_000, 1_000, PLAIN)
    assert expected_cost(1_000, 0, PLAIN) == pytest.approx(0.01)


def test_a_cost_is_rounded_to_hide_binary_fractions() -> None:
    price = Price(match="a/m", input=0.1, output=0.2)

    cost = cost_of(Usage(prompt_tokens=1, completion_tokens=1), price)

    assert repr(cost) == "3e-07"
