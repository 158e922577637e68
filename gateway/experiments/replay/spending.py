"""What a run may spend: each call reserves its worst case before it is sent.

Money is in 10⁻⁹ US dollars. A call whose outcome is unknown stays charged at its worst case.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.routing.planning.prices import BackendPrice, Prices, nanos_of
from strowger_gateway.schemas.usage import Usage

_WORDS: Final = bytes(range(ord("a"), ord("z") + 1)) + bytes(range(ord("A"), ord("Z") + 1)) + b" "
"""Of these, at least two make a token on average; any other byte may be one: a digit, a sign, a
byte of an emoji."""

_FRAME: Final = 100
"""Tokens that an API adds to a prompt."""

_MEDIA: Final = 4_096
"""Tokens of an image or a file: a text of base64 has no meaning as text."""

_BASE64: Final = re.compile(r"(?:data:[^,]{0,200},)?[A-Za-z0-9+/_-]{2048,}={0,2}")
"""A text that counts as media, where it is no text of a message."""

_TEXTS: Final = ("text", "content", "prompt", "input", "system", "instructions", "arguments")
"""Fields whose value reaches a model as text, whatever it looks like."""

NANOS: Final = 1_000_000_000


class Spent(Struct, frozen=True, kw_only=True):
    """nanos: 10⁻⁹ US dollars; 0 where prices are unknown. tokens: of prompts and answers."""

    nanos: int = 0
    tokens: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(nanos=self.nanos + other.nanos, tokens=self.tokens + other.tokens)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(nanos=self.nanos - other.nanos, tokens=self.tokens - other.tokens)


NOTHING: Final = Spent()


class Bound(Struct, frozen=True, kw_only=True):
    """`None`: unbounded, in this unit."""

    nanos: int | None = None
    tokens: int | None = None

    def allows(self, total: Spent) -> bool:
        return (self.nanos is None or total.nanos <= self.nanos) and (
            self.tokens is None or total.tokens <= self.tokens
        )


class BoundReached(Exception):
    """The next call could exceed the bound."""


class Spending:
    """The account of one run, in one process. Not thread-safe.

    charged: what is settled or reserved. held: for the remaining calls of pairs that have begun.
    """

    def __init__(self, bound: Bound, charged: Spent) -> None:
        self.bound = bound
        self.charged = charged
        self.held = NOTHING

    def hold(self, estimate: Spent) -> bool:
        """Hold the worst case of a pair's calls; false if it could exceed the bound."""
        if not self.bound.allows(self.charged + self.held + estimate):
            return False
        self.held += estimate
        return True

    def free(self, rest: Spent) -> None:
        """Free what a pair has not needed."""
        self.held -= rest

    def reserve(self, estimate: Spent, hold: Spent) -> Spent:
        """Charge a call at its worst case; return the rest of its pair's hold.

        Raises BoundReached, and charges nothing.
        """
        rest = Spent(
            nanos=max(0, hold.nanos - estimate.nanos), tokens=max(0, hold.tokens - estimate.tokens)
        )
        held = self.held - hold + rest
        if not self.bound.allows(self.charged + held + estimate):
            raise BoundReached
        self.charged += estimate
        self.held = held
        return rest

    def settle(self, estimate: Spent, actual: Spent) -> None:
        """Replace the worst case of a call by what it has cost."""
        self.charged += actual - estimate


class ModelPrice:
    """What calls to one model cost, whichever of its backends answers.

    unpriced: backends whose price is unknown.
    """

    def __init__(
        self,
        prices: Prices,
        backends: Sequence[str],
        added: Callable[[Mapping[str, object]], int] = lambda _: 0,
    ) -> None:
        """added: the most tokens that the gateway adds to a request with this body."""
        self._added = added
        found = {name: prices.of(name) for name in backends}
        self._prices = prices
        self._known = [one for one in found.values() if one is not None and one.prices is not None]
        self.unpriced = tuple(
            name for name, one in found.items() if one is None or one.prices is None
        )

    def worst(self, body: Mapping[str, object], answer_tokens: int) -> Spent:
        """Return the most that a request can cost."""
        return self.of_tokens(prompt_tokens(body) + self._added(body), answer_tokens)

    def of_tokens(self, prompt: int, answer: int) -> Spent:
        usage = Usage(prompt_tokens=prompt, completion_tokens=answer)
        costs = [_dearest(usage, price) for price in self._known]
        return Spent(nanos=max(costs, default=0), tokens=prompt + answer)

    def actual(self, usage: Usage, backend: str, worst: Spent) -> Spent:
        """Return what an answer has cost; its worst case if it does not count its tokens.

        backend: which has answered; "" if the gateway does not say it.
        """
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return worst
        tokens = usage.prompt_tokens + usage.completion_tokens
        price = self._prices.of(backend) if backend else None
        nanos = None if price is None else nanos_of(usage, price)
        if nanos is None:
            nanos = max([_dearest(usage, one) for one in self._known], default=0)
        return Spent(nanos=nanos, tokens=tokens)


def _dearest(usage: Usage, price: BackendPrice) -> int:
    """Return the cost if all of a prompt were written to a cache, where that is dearer."""
    prompt = usage.prompt_tokens or 0
    written = msgspec.structs.replace(usage, cache_write_tokens=prompt)
    return max(nanos_of(usage, price) or 0, nanos_of(written, price) or 0)


def prompt_tokens(body: Mapping[str, object]) -> int:
    """Return an upper estimate of a request's tokens."""
    size, media = _sized(body)
    return size // 2 + media * _MEDIA + _FRAME


def text_size(text: str) -> int:
    """Return twice the most tokens of a text."""
    data = text.encode("utf-8", "replace")
    return len(data) + len(data.translate(None, _WORDS))


def _sized(value: object, field: str = "") -> tuple[int, int]:
    """Return the size of all texts and names in a value, and how many of its texts are media."""
    if isinstance(value, str):
        if field not in _TEXTS:
            if _BASE64.fullmatch(value):
                return 0, 1
            if value.startswith(("http://", "https://", "data:")):
                return text_size(value), 1
        return text_size(value), 0
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        parts = [(text_size(name) + 8, 0) for name, _ in items]
        parts += [_sized(one, name) for name, one in items]
    elif isinstance(value, list):
        parts = [_sized(one, field) for one in cast("list[object]", value)]
    else:
        return 2 * len(str(value)), 0
    return sum(size for size, _ in parts), sum(media for _, media in parts)
