"""The operator's prices, looked up by backend, and the cost of one answer."""

from collections.abc import Sequence

from gateway.config.schema import Price
from schemas.events import Usage

MILLION = 1e6
_DIGITS = 12
"""Decimal places of a cost, enough for a thousandth of a cent per million tokens."""


class Prices:
    """The price of each backend, PROVIDER/MODEL: the exact row, else the longest wildcard.

    any: whether the configuration has prices.
    """

    def __init__(self, rows: Sequence[Price]) -> None:
        self._exact = {row.match: row for row in rows if not row.match.endswith("*")}
        wild = [row for row in rows if row.match.endswith("*")]
        self._wild = sorted(wild, key=lambda row: len(row.match), reverse=True)
        self.any = bool(rows)

    def of(self, backend: str) -> Price | None:
        """The price of a backend; `None` if it is unknown, which does not mean free."""
        row = self._exact.get(backend)
        if row is not None:
            return row
        return next((row for row in self._wild if backend.startswith(row.match[:-1])), None)


UNPRICED = Prices(())


def cost_of(usage: Usage, price: Price) -> float | None:
    """The cost in US dollars; `None` if the backend did not report the tokens.

    Cached tokens, cache writes (for an hour or less) and reasoning tokens are included in the
    tokens of the prompt and of the answer. They have their own price if the row sets one.
    """
    prompt, completion = usage.prompt_tokens, usage.completion_tokens or 0
    if prompt is None:
        return None
    cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    hour = min(usage.cache_write_1h_tokens or 0, written)
    write = _or(price.cache_write, price.input)
    reasoning = usage.reasoning_tokens or 0
    fresh = max(prompt - cached - written, 0)
    visible = max(completion - reasoning, 0)
    cost = (
        fresh * price.input
        + cached * _or(price.cached_input, price.input)
        + (written - hour) * write
        + hour * _or(price.cache_write_1h, write)
        + visible * price.output
        + reasoning * _or(price.reasoning, price.output)
    )
    return round(cost / MILLION, _DIGITS)


def expected_cost(tokens: int, max_tokens: int | None, price: Price) -> float:
    """The cost in US dollars of a request that is not answered yet.

    Assumes an answer of `max_tokens`; if that is `None`, one as long as the prompt.
    """
    answer = tokens if max_tokens is None else max_tokens
    return (tokens * price.input + answer * price.output) / MILLION


def _or(price: float | None, other: float) -> float:
    return other if price is None else price
