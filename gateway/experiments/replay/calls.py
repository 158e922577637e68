"""One call of a run: reserve its worst case, send it behind all other traffic, settle it.

What the gateway says about being busy holds for all calls of the run: after a 429 or a 503 none is
sent until the time that it names.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.experiments.replay.answers import Answered, read_answer
from strowger_gateway.gateway.experiments.replay.client import (
    GatewayClient,
    GatewayReply,
    NoReply,
    NotSent,
)
from strowger_gateway.gateway.experiments.replay.definition import REQUEST_ID
from strowger_gateway.gateway.experiments.replay.prompts import PATHS, Api, Body
from strowger_gateway.gateway.experiments.replay.rows import CallOutcome, ReplayRows, Step
from strowger_gateway.gateway.experiments.replay.spending import (
    NOTHING,
    ModelPrice,
    Spending,
    Spent,
)
from strowger_gateway.gateway.routing.planning.enrolment import REPLAY

ATTEMPTS: Final = 3
"""For an answer, where an attempt has failed in a way that another may not."""

BUSY_S: Final = 600.0
"""How long the gateway may be busy or away before the run stops."""

_LONGEST_WAIT_S: Final = 120.0
"""A longer `Retry-After` stops the run: a budget or a quota is used up."""

_BILLED: Final = ("upstream_broken", "upstream_lost", "upstream_timeout")
"""Codes of failures after which a vendor may send a bill."""

_CALM: Final = 16
"""Rounds of calls in flight that succeed before one more is sent at once."""

_FIRST_WAIT_S: Final = 1.0
_MOST_ATTEMPTS: Final = 100
_T = TypeVar("_T")


class Stopped(Exception):
    """The run ends here; the same command continues it. The message says why."""


class ReplayCall(Struct, frozen=True, kw_only=True):
    """What to send. variant: for the header; "" for none."""

    place: int
    step: Step
    api: Api
    body: Body
    answer_tokens: int
    price: ModelPrice
    variant: str = ""

    @property
    def worst(self) -> Spent:
        return self.price.worst(self.body, self.answer_tokens)


class PairHold:
    """What is left of what a pair's calls may spend."""

    def __init__(self, amount: Spent) -> None:
        self.left = amount


class Calls:
    """Sends the calls of one run. stop: set when no new call may be sent."""

    def __init__(
        self,
        rows: ReplayRows,
        run: str,
        holder: str,
        client: GatewayClient,
        spending: Spending,
        waits: Callable[[float, str], None],
        concurrency: int,
    ) -> None:
        """waits: is called when all calls wait, with seconds and the reason.

        concurrency: calls in flight at most; fewer while the gateway is busy.
        """
        self.stop = asyncio.Event()
        self.spending = spending
        self._rows = rows
        self._run = run
        self._holder = holder
        self._client = client
        self._waits = waits
        self._concurrency = float(concurrency)
        self._most = float(concurrency)
        self._in_flight = 0
        self._returned = asyncio.Event()
        self._free_at = 0.0
        self._busy_since: float | None = None
        self._replied = False
        self._writing = asyncio.Lock()

    async def ask(self, one: ReplayCall, hold: PairHold) -> tuple[CallOutcome, Answered | None]:
        """Return how a call ended; the outcome is not stored yet if there is an answer.

        A failure is stored, after the last attempt: a run that stops between attempts has none, and
        asks again when it continues. Raises Stopped, BoundReached, LeaseLost, StoreUnavailable.
        """
        failure = CallOutcome(state="asked")
        for attempt in range(1, ATTEMPTS + 1):
            reply, failure = await self._attempt(one, hold)
            if reply is None:
                continue
            if reply.status == 200:
                try:
                    answered = read_answer(one.api, reply.data)
                except msgspec.DecodeError as exc:
                    failure = replace(failure, error=f"an answer that cannot be read: {exc}")
                    await self.settle(one, failure, NOTHING)
                    continue
                backend = reply.headers.get("x-gateway-backend", "")
                outcome = CallOutcome(
                    state="done",
                    prompt_tokens=answered.usage.prompt_tokens or 0,
                    completion_tokens=answered.usage.completion_tokens or 0,
                    ms=reply.ms,
                    status=200,
                    backend=backend,
                    text=answered.text,
                    cut=answered.cut,
                )
                if "x-gateway-hedged" in reply.headers:
                    # The backend that has lost writes a bill, too.
                    await self.settle(one, failure, one.worst)
                return outcome, answered
            if reply.status < 500:
                break
            await self._pause(_FIRST_WAIT_S * 2 ** (attempt - 1))
        failure = replace(failure, state="failed")
        await self.settle(one, failure, NOTHING)
        return failure, None

    async def settle(self, one: ReplayCall, outcome: CallOutcome, change: Spent) -> None:
        """Store how a call ended. change: of its worst case, which it is charged."""
        self.spending.settle(NOTHING, change)
        await self._write(
            lambda: self._rows.settle(self._run, self._holder, one.place, one.step, change, outcome)
        )

    async def settled(self, one: ReplayCall, outcome: CallOutcome, answered: Answered) -> None:
        """Store an answer, at what it has cost."""
        worst = one.worst
        actual = one.price.actual(answered.usage, outcome.backend, worst)
        await self.settle(one, outcome, actual - worst)

    async def _attempt(
        self, one: ReplayCall, hold: PairHold
    ) -> tuple[GatewayReply | None, CallOutcome]:
        """Send a call until the gateway is neither busy nor away; return its answer.

        `None`: what came of it is unknown. What a failure has cost is stored.
        """
        headers = {"x-request-id": f"{REQUEST_ID}{self._run}-{one.place}-{one.step}"}
        headers |= {REPLAY: one.variant} if one.variant else {}
        headers["cache-control"] = "no-store"
        data = msgspec.json.encode(one.body)
        while True:
            try:
                reply = await self._exchange(one, hold, data, headers)
            except NotSent as exc:
                failure = CallOutcome(state="asked", error=str(exc))
                await self._free(one, hold, failure)
                if not self._replied:
                    raise Stopped(f"{exc}; start the gateway, or give --url") from exc
                self._wait(_FIRST_WAIT_S * 4, str(exc))
                continue
            except NoReply as exc:
                failure = CallOutcome(state="asked", error=str(exc))
                await self.settle(one, failure, NOTHING)
                return None, failure
            self._replied = True
            failure = CallOutcome(state="asked", status=reply.status, ms=reply.ms)
            if reply.status == 200:
                self._busy_since = None
                self._most = min(self._concurrency, self._most + 1 / (_CALM * self._most))
                _check_variant(one.variant, reply)
                return reply, failure
            failure = replace(failure, error=error_of(reply))
            if reply.status == 504 or code_of(reply) in _BILLED:
                # The gateway has repeated it itself, and each attempt may be on the bill.
                again = [one.worst] * (_attempts(reply) - 1)
                await self.settle(one, failure, sum(again, NOTHING))
                return reply, failure
            await self._free(one, hold, failure)
            if reply.status in (429, 503):
                self._wait(_retry_after(reply.headers), failure.error)
                continue
            if reply.status in (401, 402, 403, 404, 424):
                raise Stopped(f"the gateway refuses {one.body['model']}: {failure.error}")
            return reply, failure

    async def _exchange(
        self, one: ReplayCall, hold: PairHold, data: bytes, headers: Mapping[str, str]
    ) -> GatewayReply:
        """Reserve a call and send it, in its turn. Raises NotSent, NoReply."""
        worst = one.worst
        async with self._turn():
            hold.left = self.spending.reserve(worst, hold.left)
            await self._write(
                lambda: self._rows.reserve(self._run, self._holder, one.place, one.step, worst)
            )
            return await self._client.ask(PATHS[one.api], data, headers)

    async def _free(self, one: ReplayCall, hold: PairHold, failure: CallOutcome) -> None:
        """Nothing was used: the call's worst case is held for the pair again."""
        worst = one.worst
        await self.settle(one, failure, NOTHING - worst)
        if self.spending.hold(worst):
            hold.left += worst

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Wait until a call may be sent, and count it as in flight. Raises Stopped."""
        while not self.stop.is_set():
            left = self._free_at - time.monotonic()
            if left > 0:
                await self._pause(left)
            elif self._in_flight < int(self._most):
                break
            else:
                self._returned.clear()
                await self._returned.wait()
        if self.stop.is_set():
            raise Stopped("interrupted")
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._returned.set()

    def _wait(self, seconds: float, why: str) -> None:
        """Hold back all calls. Raises Stopped if the gateway asks for too much patience."""
        now = time.monotonic()
        self._busy_since = self._busy_since or now
        if seconds > _LONGEST_WAIT_S or now - self._busy_since > BUSY_S:
            raise Stopped(why)
        if now >= self._free_at:  # of several that were in flight, the first one counts
            self._most = max(1.0, self._most / 2)
        self._free_at = max(self._free_at, now + seconds)
        self._waits(seconds, why)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.stop.wait()
        except TimeoutError:
            return

    async def _write(self, work: Callable[[], _T]) -> _T:
        """Write in a thread, in turn: transactions of one run never wait for each other."""
        async with self._writing:
            return await asyncio.to_thread(work)


def _check_variant(variant: str, reply: GatewayReply) -> None:
    """Raises Stopped if the gateway has not used the variant that was asked for."""
    shown = "x-gateway-backend" in reply.headers
    if variant and shown and reply.headers.get(REPLAY) != variant:
        raise Stopped(
            f"the running gateway does not know {variant}, or its experiment has no replay_keys; "
            "reload its configuration"
        )


def _attempts(reply: GatewayReply) -> int:
    """Return how often the gateway has sent a call, from 1."""
    told = reply.headers.get("x-gateway-attempts", "")
    return min(max(1, int(told)), _MOST_ATTEMPTS) if told.isdecimal() else 1


class _Detail(Struct):
    message: str = ""
    code: str | None = None


class _Refused(Struct):
    error: _Detail


def error_of(reply: GatewayReply) -> str:
    """Describe an error response."""
    try:
        return f"{reply.status}: {msgspec.json.decode(reply.data, type=_Refused).error.message}"
    except msgspec.DecodeError:
        return f"status {reply.status}"


def code_of(reply: GatewayReply) -> str:
    """Return the code of an error response; "" without one."""
    try:
        return msgspec.json.decode(reply.data, type=_Refused).error.code or ""
    except msgspec.DecodeError:
        return ""


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds, also from a date; without one a few. https://httpwg.org/specs/rfc9110.html"""
    value = headers.get("retry-after", "")
    try:
        return max(0.1, float(value))
    except ValueError:
        pass
    try:
        return max(0.1, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return _FIRST_WAIT_S * 4
