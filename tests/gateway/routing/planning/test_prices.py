"""The cost of an answer: its tokens times the operator's prices, per kind of token."""

from decimal import ROUND_HALF_UP, Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.gateway.config.schema.prices import Price, PriceTier
from strowger_gateway.gateway.routing.planning.prices import (
    Prices,
    cost_of,
    expected_cost,
    nanos_of,
    price_of,
)
from strowger_gateway.gateway.routing.planning.vendor_counts import reported_nanos
from strowger_gateway.schemas.events import Usage

FULL = price_of(
    Price(match="a/m", input=10, output=40, cached_input=1, cache_write=12.5, reasoning=50)
)
PLAIN = price_of(Price(match="a/m", input=10, output=40))
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
    row = Price(match="a/m", input=10, output=40, cache_write=12.5, cache_write_1h=20)

    assert cost_of(usage, price_of(row)) == pytest.approx(0.5 * 10 + 0.3 * 12.5 + 0.2 * 20)
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

    assert [one.row.match if one and one.row else None for one in found] == [
        "a/gpt-4o",
        "a/gpt-*",
        "a/*",
        None,
    ]


def test_without_max_tokens_the_expected_answer_is_as_long_as_the_prompt() -> None:
    assert expected_cost(1_000, None, PLAIN) == expected_cost(1_000, 1_000, PLAIN)
    assert expected_cost(1_000, 0, PLAIN) == pytest.approx(0.01)


def test_a_cost_is_rounded_to_hide_binary_fractions() -> None:
    price = price_of(Price(match="a/m", input=0.1, output=0.2))

    cost = cost_of(Usage(prompt_tokens=1, completion_tokens=1), price)

    assert repr(cost) == "3e-07"


_usd = st.one_of(st.just(0.0), st.decimals("0.000001", 500, places=6).map(float))


@given(prompt=_usd, answer=_usd, tokens=st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)))
def test_plain_tokens_are_priced_by_the_same_rule_as_all_others(
    prompt: float, answer: float, tokens: tuple[int, int]
) -> None:
    price = price_of(Price(match="a/m", input=prompt, output=answer))
    usage = Usage(prompt_tokens=tokens[0], completion_tokens=tokens[1])
    nanos = nanos_of(usage, price)

    assert nanos is not None
    assert cost_of(usage, price) == nanos / 10**9


def test_a_prompt_above_a_tier_prices_the_whole_request_by_it() -> None:
    tiers = (PriceTier(above=200, input=20, output=60), PriceTier(above=100, input=15, output=50))
    price = price_of(Price(match="a/m", input=10, output=40, cached_input=1, tiers=tiers))

    costs = [
        nanos_of(Usage(prompt_tokens=prompt, completion_tokens=1, cached_tokens=50), price)
        for prompt in (100, 101, 200, 201)
    ]

    assert costs == [
        50 * 10_000 + 50 * 1_000 + 40_000,
        101 * 15_000 + 50_000,
        200 * 15_000 + 50_000,
        201 * 20_000 + 60_000,
    ]
    assert expected_cost(201, 1, price) == pytest.approx((201 * 20 + 60) / 1e6)


KINDS = ("input", "output", "cached_input", "cache_write", "cache_write_1h", "reasoning")
MODAL = (
    *("audio_input", "cached_audio_input", "audio_output"),
    *("image_input", "cached_image_input", "image_output"),
)
ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing"
OPENAI = "https://platform.openai.com/docs/pricing"
GOOGLE = "https://ai.google.dev/gemini-api/docs/pricing"
PUBLISHED: dict[str, tuple[str, str]] = {
    # name: (where the vendor publishes them, USD per million tokens; behind ">" those of prompts
    # above 200,000 tokens). The numbers are those that genai-prices 0.2.3 lists.
    "claude-sonnet-4-5": (
        ANTHROPIC,
        "input 3 output 15 cached_input 0.30 cache_write 3.75 cache_write_1h 6"
        " > input 6 output 22.50 cached_input 0.60 cache_write 7.50 cache_write_1h 12",
    ),
    "claude-haiku-4-5": (
        ANTHROPIC,
        "input 1 output 5 cached_input 0.10 cache_write 1.25 cache_write_1h 2",
    ),
    "gpt-5": (OPENAI, "input 1.25 output 10 cached_input 0.125"),
    "gpt-5-nano": (OPENAI, "input 0.05 output 0.40 cached_input 0.005"),
    "gpt-image-1": (
        OPENAI,
        "input 5 output 40 cached_input 1.25 image_input 10 cached_image_input 2.50",
    ),
    "gemini-2.5-pro": (
        GOOGLE,
        "input 1.25 output 10 cached_input 0.125 > input 2.50 output 15 cached_input 0.25",
    ),
    "gemini-2.5-flash": (
        GOOGLE,
        "input 0.30 output 2.50 cached_input 0.03 audio_input 1 cached_audio_input 0.10",
    ),
}
COUNTS: list[dict[str, int]] = [
    {"prompt": 7, "answer": 3},
    {"prompt": 1_033, "answer": 219, "cached": 1_024},
    {"prompt": 4_500, "answer": 5, "written": 4_000, "hour": 3_000},
    {"prompt": 18_211, "answer": 2_719, "reasoning": 2_560},
    {"prompt": 200_000, "answer": 1, "cached": 150_001},
    {"prompt": 200_001, "answer": 8_191, "cached": 99_999, "written": 50_003, "hour": 50_003},
    {"prompt": 912_345, "answer": 65_535, "cached": 1, "reasoning": 65_535},
    {"prompt": 3_333, "answer": 1_056, "image": 3_001, "cached": 1_000, "cached_image": 900},
    {"prompt": 2_017, "answer": 31, "audio": 1_900, "cached": 512, "cached_audio": 500},
]


def published(text: str) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
    """The prices of short and of long prompts."""
    parts = [part.split() for part in text.split(">")]
    tables = [
        {kind: Decimal(usd) for kind, usd in zip(part[::2], part[1::2], strict=True)}
        for part in parts
    ]
    return tables[0], tables[-1]


def as_floats(table: dict[str, Decimal]) -> dict[str, float]:
    return {kind: float(usd) for kind, usd in table.items()}


def by_hand(counts: dict[str, int], table: dict[str, Decimal]) -> int:
    """Each token once, at the price of what it is; 10⁻⁹ US dollars."""

    def usd(*kinds: str) -> Decimal:
        return next(table[kind] for kind in kinds if kind in table)

    of = {
        **dict.fromkeys(("cached", "written", "hour", "reasoning", "image", "audio"), 0),
        **counts,
    }
    cached_image, cached_audio = of.get("cached_image", 0), of.get("cached_audio", 0)
    image, audio = of["image"] - cached_image, of["audio"] - cached_audio
    cached_text = of["cached"] - cached_image - cached_audio
    text = of["prompt"] - of["cached"] - of["written"] - image - audio
    million = (
        text * usd("input")
        + image * usd("image_input", "input")
        + audio * usd("audio_input", "input")
        + cached_text * usd("cached_input", "input")
        + cached_image * usd("cached_image_input", "cached_input", "input")
        + cached_audio * usd("cached_audio_input", "cached_input", "input")
        + (of["written"] - of["hour"]) * usd("cache_write", "input")
        + of["hour"] * usd("cache_write_1h", "cache_write", "input")
        + (of["answer"] - of["reasoning"]) * usd("output")
        + of["reasoning"] * usd("reasoning", "output")
    )
    return int((million * 1000).quantize(Decimal(1), ROUND_HALF_UP))


def gemini_usage(counts: dict[str, int]) -> Raw:
    """The modalities as Gemini reports them."""

    def details(*names: str) -> list[dict[str, object]]:
        kinds = ((name.removeprefix("cached_").upper(), counts.get(name, 0)) for name in names)
        return [{"modality": kind, "tokenCount": count} for kind, count in kinds]

    return Raw(
        msgspec.json.encode(
            {
                "promptTokensDetails": details("image", "audio"),
                "cacheTokensDetails": details("cached_image", "cached_audio"),
            }
        )
    )


@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("model", PUBLISHED)
def test_the_cost_equals_a_computation_by_hand_from_published_prices(
    model: str, counts: dict[str, int]
) -> None:
    short, long = published(PUBLISHED[model][1])
    tiers = () if short == long else (PriceTier(above=200_000, **as_floats(long)),)
    row = Price(match=f"a/{model}", tiers=tiers, service_tiers=(), **as_floats(short))
    usage = Usage(
        prompt_tokens=counts["prompt"],
        completion_tokens=counts["answer"],
        cached_tokens=counts.get("cached"),
        cache_write_tokens=counts.get("written"),
        cache_write_1h_tokens=counts.get("hour"),
        reasoning_tokens=counts.get("reasoning"),
        raw=gemini_usage(counts),
    )

    cost = nanos_of(usage, price_of(row))

    assert cost is not None
    assert cost == by_hand(counts, long if counts["prompt"] > 200_000 else short)
    assert cost_of(usage, price_of(row)) == float(Decimal(cost) / 10**9)


def test_openais_audio_and_image_tokens_have_their_prices() -> None:
    price = price_of(
        Price(match="a/m", input=5, output=40, image_input=10, audio_input=100, audio_output=200)
    )
    raw = (
        b'{"prompt_tokens_details":{"audio_tokens":10,"image_tokens":20},'
        b'"completion_tokens_details":{"audio_tokens":4}}'
    )

    cost = nanos_of(Usage(prompt_tokens=100, completion_tokens=5, raw=Raw(raw)), price)

    assert cost == 1000 * (70 * 5 + 10 * 100 + 20 * 10 + 4 * 200 + 1 * 40)


def test_web_searches_are_charged_per_thousand() -> None:
    price = price_of(Price(match="a/m", input=0, output=0, web_search=10))
    raw = Raw(b'{"server_tool_use":{"web_search_requests":3}}')

    assert nanos_of(Usage(prompt_tokens=1, raw=raw), price) == 30_000_000


@pytest.mark.parametrize(
    "raw", [b"{", b'{"prompt_tokens_details":{"audio_tokens":"many"}}', b"\xff"]
)
def test_unreadable_modalities_count_as_text(raw: bytes) -> None:
    price = price_of(Price(match="a/m", input=1, output=1, audio_input=100))

    assert nanos_of(Usage(prompt_tokens=2, raw=Raw(raw)), price) == 2_000


@pytest.mark.parametrize(
    ("raw", "nanos"),
    [
        (b'{"cost":0.00014}', 140_000),
        (
            b'{"cost":0.1,"is_byok":true,"cost_details":{"upstream_inference_cost":2}}',
            2_100_000_000,
        ),
        (b'{"cost":0.1,"is_byok":true}', None),
        (b'{"cost":{"total_cost":1}}', None),
        (b'{"cost":-1}', None),
        (b'{"cost":1e300}', None),
        (b"{}", None),
    ],
)
def test_a_reported_cost_is_read_exactly_or_not_at_all(raw: bytes, nanos: int | None) -> None:
    assert reported_nanos(Raw(raw)) == nanos
