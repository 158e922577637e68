"""What tokens cost: the operator's prices, looked up by backend, and the sum for one answer."""

from collections.abc import Sequence

from gateway.config.schema import Price
from schemas.events import Usage

MILLION = 1e6
_DIGITS = 12
"""Behind the point of a cost: what a thousandth of a cent a million tokens would need."""


class Prices:
    """The price of each backend, PROVIDER/MODEL: the exact row, else the longest wildcard.

    any: whether there are rows at all.
    """

    def __init__(self, rows: Sequence[Price]) -> None:
        self._exact = {row.match: row for row in rows if not row.match.endswith("*")}
        wild = [row for row in rows if row.match.endswith("*")]
        self._wild = sorted(wild, key=lambda row: len(row.match), reverse=True)
        self.any = bool(rows)

    def of(self, backend: str) -> Price | None:
        """`None`: unknown, which is not free."""
        row = self._exact.get(backend)
        if row is not None:
            return row
        return next((row for row in self._wild if backend.startswith(row.match[:-1])), None)


UNPRICED = Prices(())


def cost_of(usage: Usage, price: Price) -> float | None:
    """US dollars; `None` where the backend did not tell the tokens.

    Tokens read from a cache, written to one (for an hour, or for less) and thought are part of the
    prompt's and the answer's tokens, and priced apart where the row has a price for them.
    """
    prompt, completion = usage.prompt_tokens, usage.completion_tokens or 0
    if prompt is None:
        return None
    cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
    hour = min(usage.cache_write_1h_tokens or 0, written)
    write = _or(price.cache_write, price.input)
    thought = usage.reasoning_tokens or 0
    fresh = max(prompt - cached - written, 0)
    spoken = max(completion - thought, 0)
    cost = (
        fresh * price.input
        + cached * _or(price.cached_input, price.input)
        + (written - hour) * write
        + hour * _or(price.cache_write_1h, write)
        + spoken * price.output
        + thought * _or(price.reasoning, price.output)
    )
    return round(cost / MILLION, _DIGITS)


def expected_cost(tokens: int, max_tokens: int | None, price: Price) -> float:
    """Of a request that was not answered yet: its bound, or as many tokens again as it sends."""
    answer = tokens if max_tokens is None else max_tokens
    return (tokens * price.input + answer * price.output) / MILLION


def _or(price: float | None, other: float) -> float:
    return other if price is None else price
