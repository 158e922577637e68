"""Requests that wait for room in a limit, served in turn between keys."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from time import monotonic_ns
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.governance.limits.ledger import Account, Accounts, Hold, LimitRefusal

TICK_S: Final = 0.02
"""Interval between attempts to admit waiting requests."""

Outcome = Hold | LimitRefusal
Attempt = Callable[[Accounts, int], Awaitable[Outcome]]


class _Waiter(Struct, eq=False):
    """A request that waits. until: the clock when it is refused, nanoseconds."""

    accounts: Accounts
    tokens: int
    until: int
    answer: asyncio.Future[Outcome]


class LimitQueue:
    """The waiting requests of one process.

    A turn admits at most one request of each key, so a key that sends many does not delay the
    others. Requests of one key to one model are admitted in their order.

    waiting: how many wait. ended: how many have waited, by limit and outcome.
    """

    def __init__(self, attempt: Attempt, clock: Callable[[], int] = monotonic_ns) -> None:
        """attempt: reserves a request, or returns why it cannot. clock: nanoseconds."""
        self._attempt = attempt
        self._clock = clock
        self._keys: OrderedDict[str, OrderedDict[int, deque[_Waiter]]] = OrderedDict()
        self._serving: asyncio.Task[None] | None = None
        self.waiting = 0
        self.ended: dict[tuple[str, str], int] = {}

    def is_contended(self, accounts: Accounts) -> bool:
        """Whether requests wait that came earlier and use an account of these."""
        if not self.waiting:
            return False
        own = {id(one) for one in accounts.all}
        return any(
            id(one) in own
            for lines in self._keys.values()
            for line in lines.values()
            if line
            for one in line[0].accounts.all
        )

    def accounts(self) -> set[Account]:
        """The accounts that requests wait for."""
        return {
            one
            for lines in self._keys.values()
            for line in lines.values()
            for waiter in line
            for one in waiter.accounts.all
        }

    async def wait(self, accounts: Accounts, tokens: int, key: str, wait_s: float) -> Outcome:
        """Wait for room. key: the name of the request's key. wait_s: at most so many seconds.

        Raises what `attempt` raises.
        """
        loop = asyncio.get_running_loop()
        until = self._clock() + int(wait_s * 1e9)
        waiter = _Waiter(accounts, tokens, until, loop.create_future())
        lines = self._keys.setdefault(key, OrderedDict())
        lines.setdefault(id(accounts), deque()).append(waiter)
        self.waiting += 1
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        name = accounts.all[0].limit
        outcome = "gone"
        try:
            answer = await waiter.answer
        except asyncio.CancelledError:
            if waiter.answer.done() and not waiter.answer.cancelled():
                hold = waiter.answer.result()
                if isinstance(hold, Hold):
                    hold.settle(0, self._clock())
            waiter.answer.cancel()
            raise
        else:
            outcome = "admitted"
            if isinstance(answer, LimitRefusal):
                name, outcome = answer.limit, "refused"
            return answer
        finally:
            self.waiting -= 1
            self.ended[name, outcome] = self.ended.get((name, outcome), 0) + 1

    async def _serve(self) -> None:
        """Admit waiting requests until there are none."""
        try:
            while self._keys:
                while await self._turn():
                    pass
                if self._keys:
                    await asyncio.sleep(TICK_S)
        finally:
            self._serving = None

    async def _turn(self) -> bool:
        """Give every key one turn; return whether a request was admitted.

        A key that was served goes to the end; the others keep their places for the next turn.
        """
        admitted = False
        for key in tuple(self._keys):
            lines = self._keys.get(key)
            if lines is None:
                continue
            for line in tuple(lines):
                if await self._first(lines[line]):
                    admitted = True
                    lines.move_to_end(line)
                    self._keys.move_to_end(key)
                    break
            for line in [line for line, waiters in lines.items() if not waiters]:
                del lines[line]
            if not lines:
                del self._keys[key]
        return admitted

    async def _first(self, line: deque[_Waiter]) -> bool:
        """Try to admit the first request of a line; drop those that no longer wait."""
        while line:
            waiter = line[0]
            if waiter.answer.done():
                line.popleft()
                continue
            try:
                found = await self._attempt(waiter.accounts, waiter.tokens)
            except Exception as exc:  # noqa: BLE001  the waiting request raises it
                line.popleft()
                if not waiter.answer.done():
                    waiter.answer.set_exception(exc)
                continue
            if isinstance(found, Hold):
                line.popleft()
                if waiter.answer.done():
                    found.settle(0, self._clock())
                    continue
                waiter.answer.set_result(found)
                return True
            if self._clock() >= waiter.until or found.wait is None:
                line.popleft()
                if not waiter.answer.done():
                    waiter.answer.set_result(found)
                continue
            return False
        return False
