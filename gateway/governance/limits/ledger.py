"""Reserve what a request may use under all limits that apply to it, or nothing at all.

1. `Accounts.reserve` takes a request, its tokens and a slot from every account, if all have room.
   The headers of an admitted request show what remains, as OpenAI's do:
   https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers
2. Without room, `Accounts.refusal` says which limit lacks it for the longest time.
3. `Hold.settle` ends the reservation: the slot is free, and what the request did not use.
"""

from collections.abc import Sequence
from time import monotonic_ns
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.governance.limits.window import (
    PIECES,
    ConcurrencySlots,
    Entry,
    Window,
)

Quantity = Literal["requests", "tokens", "concurrent"]
NEVER: Final = 1 << 62
"""Later than every time of the clock, nanoseconds."""

RESERVED_NS: Final = 2_000_000_000
"""When to retry at the latest if running requests have reserved what is missing: a guess."""

REQUESTS: Final = b"requests"
TOKENS: Final = b"tokens"
REQUESTS_LEFT: Final = b"x-ratelimit-remaining-requests"
TOKENS_LEFT: Final = b"x-ratelimit-remaining-tokens"
Header = tuple[bytes, bytes]
Headers = list[Header]
Shown = tuple[Header, Header]
"""The limit, and when everything is free again: as the request counts from now on, a period."""

_Open = tuple[tuple[Window, Entry], ...]
"""Windows, each with its newest entry, of which uses are part now."""

_Part = Window | ConcurrencySlots
_Few = tuple[_Part, _Part, _Part, _Part, _Part]
"""Two windows of requests, two of tokens, and slots. A single window is there twice; what does not
exist has a room that nothing uses up, and nothing depends on that: see `reserve`."""


class Account(Struct, eq=False):
    """What one limit allows to one of its subjects. `None`: it does not limit the quantity.

    limit: its name. per: its period, for messages. subject: the key's name if each key has an
    account, or "". exact: a worker never exceeds its lease. one_of_many: of an end user.
    """

    limit: str
    per: str
    subject: str
    requests: Window | None
    tokens: Window | None
    slots: ConcurrencySlots | None
    exact: bool = True
    one_of_many: bool = False

    def refusals(self, requests: int, tokens: int, slots: int, at: int) -> "list[LimitRefusal]":
        """The quantities that these amounts exceed."""
        found: list[LimitRefusal] = []
        windows: tuple[tuple[Quantity, Window | None, int], ...] = (
            ("requests", self.requests, requests),
            ("tokens", self.tokens, tokens),
        )
        for quantity, window, amount in windows:
            if window is None:
                continue
            window.expire(at)
            if amount and window.room < amount:
                reserved = amount <= min(window.limit, window.room + window.running)
                wait = window.wait(amount, at)
                if reserved and wait is not None and wait > RESERVED_NS:
                    wait = RESERVED_NS
                found.append(
                    LimitRefusal(self.limit, self.per, quantity, window.limit, wait, reserved)
                )
        if self.slots is not None and self.slots.room < slots:
            found.append(LimitRefusal(self.limit, self.per, "concurrent", self.slots.limit, 0))
        return found

    def expire(self, at: int) -> None:
        """Free what stops to count at this time or before."""
        for window in (self.requests, self.tokens):
            if window is not None:
                window.expire(at)

    @property
    def unused(self) -> bool:
        """Whether nothing counts in it and nothing is lent."""
        parts = (self.requests, self.tokens, self.slots)
        return all(part is None or part.unused for part in parts)


class Accounts:
    """All accounts that apply to a request; `reserve` takes from all of them or from none.

    requests, tokens, slots: their windows and slots. least: the smallest limit of tokens, 0
    without one. leased: other processes may have room, too. shown_requests, shown_tokens: the
    windows with what is shown of them.
    """

    __slots__ = (
        "_each",
        "_few",
        "_open_tokens",
        "_open_until",
        "_pooled",
        "_shown",
        "all",
        "leased",
        "least",
        "requests",
        "shown_requests",
        "shown_tokens",
        "slots",
        "tokens",
    )

    def __init__(self, accounts: Sequence[Account]) -> None:
        self.all = tuple(accounts)
        self.requests = tuple([one.requests for one in accounts if one.requests is not None])
        self.tokens = tuple([one.tokens for one in accounts if one.tokens is not None])
        self.slots = tuple([one.slots for one in accounts if one.slots is not None])
        self.least = min([one.limit for one in self.tokens], default=0)
        self.leased = not {type(one) for one in (*self.requests, *self.tokens)} <= {Window}
        self.shown_requests = tuple([(one, _shown_of(one, REQUESTS)) for one in self.requests])
        self.shown_tokens = tuple([(one, _shown_of(one, TOKENS)) for one in self.tokens])
        self._each = tuple([one for one in self.requests if one.limit <= PIECES])
        self._pooled = tuple([one for one in self.requests if one.limit > PIECES])
        self._few: _Few | None = None
        if not self._each and max(len(self.requests), len(self.tokens), 2 * len(self.slots)) <= 2:
            self._few = *_two(self.requests), *_two(self.tokens), _two(self.slots)[0]
        self._shown = *_shown(self.shown_requests), *_shown(self.shown_tokens)
        self._open_tokens: _Open = ()
        self._open_until = -1

    def reserve(self, tokens: int, at: int, headers: Headers | None = None) -> "Hold | None":
        """Reserve a request with so many tokens; `None` if an account lacks room.

        at: the clock, nanoseconds. headers: gets OpenAI's headers of an admitted request, if no
        account is leased: see `gateway/governance/limits/headers.py`, which adds all others.
        """
        few = self._few
        if few is None or at > self._open_until:
            return self._reserve_many(tokens, at, headers)
        # `_reserve_many` written out for windows whose entries are open: no loops.
        one, two, first, second, slots = few
        requests, others = one.room - 1, two.room - 1
        left, rest, seated = first.room - tokens, second.room - tokens, slots.room - 1
        if requests < 0 or others < 0 or left < 0 or rest < 0 or seated < 0:
            return self._reserve_many(tokens, at, headers)
        one.room, two.room, first.room, second.room = requests, others, left, rest
        slots.room = seated
        first.running, second.running = first.running + tokens, second.running + tokens
        if headers is not None:
            shown, other, of_first, of_second = self._shown
            if others < requests:
                requests, shown = others, other
            if rest < left:
                left, of_first = rest, of_second
            if of_first is None:
                if shown is not None:
                    headers += (shown[0], (REQUESTS_LEFT, b"%d" % requests), shown[1])
            elif shown is None:
                headers += (of_first[0], (TOKENS_LEFT, b"%d" % left), of_first[1])
            else:
                headers += (
                    shown[0],
                    (REQUESTS_LEFT, b"%d" % requests),
                    shown[1],
                    of_first[0],
                    (TOKENS_LEFT, b"%d" % left),
                    of_first[1],
                )
        return Hold(self, tokens, self._open_tokens)

    def _reserve_many(self, tokens: int, at: int, headers: Headers | None) -> "Hold | None":
        """The same for windows of any number and size."""
        if self._lacking(tokens):
            # What has stopped to count is freed only when room is needed.
            freed = [window.expire(at) for window in (*self.requests, *self.tokens)]
            if not any(freed) or self._lacking(tokens):
                return None
        for slots in self.slots:
            if slots.room < 1:
                return None
        if at > self._open_until:
            self._open(at)
        for window in self._each:
            window.take(1, at)
        for window in self._pooled:
            window.room -= 1
        for window in self.tokens:
            window.room -= tokens
            window.running += tokens
        for slots in self.slots:
            slots.room -= 1
        if headers is not None:
            show(self.shown_requests, REQUESTS_LEFT, headers)
            show(self.shown_tokens, TOKENS_LEFT, headers)
        return Hold(self, tokens, self._open_tokens)

    def _lacking(self, tokens: int) -> list[Window]:
        """Windows that lack room."""
        short = [window for window in self.requests if window.room < 1]
        if short or not tokens:  # one without tokens passes, also after an answer that took more
            return short
        return [window for window in self.tokens if window.room < tokens]

    def _open(self, at: int) -> None:
        """Begin the entries of uses that begin now.

        They serve until the first window begins another one: large limits have an entry per 1024th
        of their period. With one that has an entry per use, they serve only now.
        """
        windows = (*self._pooled, *self.tokens)
        for window in windows:
            window.entry(at)
        self._open_tokens = tuple([(window, window.last) for window in self.tokens])
        self._open_until = min([window.last_until for window in windows], default=NEVER)

    def refusal(self, tokens: int, at: int) -> "LimitRefusal":
        """Why `reserve` returned `None`: of all reasons the one that lasts longest."""
        found = [why for one in self.all for why in one.refusals(1, tokens, 1, at)]
        return max(found, key=LimitRefusal.lasting)

    def too_large(self, tokens: int) -> "LimitRefusal | None":
        """The limit that could never hold the request, if there is one."""
        for one in self.all:
            if one.tokens is not None and tokens > one.tokens.limit:
                return LimitRefusal(one.limit, one.per, "tokens", one.tokens.limit, None)
        return None


class Hold(Struct, eq=False, gc=False):
    """What one request has reserved, until `settle`. A Struct created by position (ADR 16).

    reserved: where its tokens count.
    """

    accounts: Accounts
    tokens: int
    reserved: _Open
    open: bool = True

    def settle(self, used: int, at: int) -> None:
        """The request has ended, and has used so many tokens. Later calls do nothing.

        What it did not use is free again; an excess counts from now on.
        """
        if self.open:
            self.open = False
            self.settle_once(used, at)

    def settle_once(self, used: int, at: int | None = None) -> None:
        """As `settle`, if nothing else calls either. at: `None`, if it is the time of this call."""
        for slots in self.accounts.slots:
            slots.room += 1
        tokens = self.tokens
        unused = tokens - used
        for window, entry in self.reserved:
            window.running -= tokens
            if unused > 0 and window.last is entry:
                window.room += unused
            elif unused:
                at = monotonic_ns() if at is None else at
                if unused > 0:
                    window.free(entry, unused, at)
                else:
                    window.take(-unused, at)


class LimitRefusal(Struct, frozen=True):
    """Why a request is refused.

    wait: nanoseconds until there is room if nothing else is taken; 0 if that cannot be known,
    because a request in flight has to end; `None` if the request is larger than the limit.
    reserved: running requests have reserved what is missing, and may use less.
    """

    limit: str
    per: str
    quantity: Quantity
    allowed: int
    wait: int | None
    reserved: bool = False

    def lasting(self) -> float:
        """How long it lasts, for comparisons."""
        return float("inf") if self.wait is None else self.wait


def show(windows: Sequence[tuple[Window, Shown]], left: bytes, headers: Headers) -> None:
    """Add the headers of the window with the least room, here or elsewhere."""
    if not windows:
        return
    window, shown = windows[0]
    room = window.room + window.elsewhere
    for other, own in windows[1:]:
        if other.room + other.elsewhere < room:
            room, shown = other.room + other.elsewhere, own
    headers += (shown[0], (left, b"%d" % room if room > 0 else b"0"), shown[1])


def duration(nanoseconds: int) -> bytes:
    """A duration as Go writes it, to the millisecond: 12ms, 1.5s, 6m0s, 1h0m0s."""
    ms = -(-nanoseconds // 1_000_000)
    if ms < 1000:
        return b"%dms" % ms
    minutes, ms = divmod(ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{ms / 1000:.3f}".rstrip("0").rstrip(".")
    text = f"{hours}h{minutes}m{seconds}s" if hours else f"{minutes}m{seconds}s"
    return (text if hours or minutes else f"{seconds}s").encode()


def _two(parts: Sequence[_Part]) -> tuple[_Part, _Part]:
    one = parts[0] if parts else ConcurrencySlots(NEVER)
    return one, parts[-1] if parts else one


def _shown_of(window: Window, kind: bytes) -> Shown:
    """The two headers that are the same for all admitted requests. kind: REQUESTS or TOKENS."""
    return (
        (b"x-ratelimit-limit-" + kind, b"%d" % window.limit),
        (b"x-ratelimit-reset-" + kind, duration(window.period)),
    )


def _shown(windows: Sequence[tuple[Window, Shown]]) -> tuple[Shown | None, Shown | None]:
    return (windows[0][1], windows[-1][1]) if windows else (None, None)
