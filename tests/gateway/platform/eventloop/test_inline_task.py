"""A coroutine that is stepped by hand behaves as in a task: asyncio's own task is the oracle."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.platform.eventloop.inline_task import (
    InlineTask,
    Waiter,
    canceller_in,
    in_task,
    waiter_of,
)
from strowger_gateway.gateway.platform.eventloop.turn import Turn, current_turn

STEPS = ("parks", "yields", "sleeps", "waits for a lock", "needs a task", "raises and catches")


class Script:
    """A coroutine that does `steps`, keeps a diary, and catches its first cancellations."""

    def __init__(self, steps: list[str], catches: int) -> None:
        self.diary: list[str] = []
        self.waiter: Waiter | None = None
        self.work: object = None
        self._steps = steps
        self._catches = catches
        self._lock = asyncio.Lock()

    async def run(self, turn: Turn) -> None:
        self.work = canceller_in(turn)
        for number, step in enumerate(self._steps):
            try:
                await self._do(step, turn)
            except asyncio.CancelledError:
                self.diary.append(f"{number} cancelled")
                if not self._catches:
                    raise
                self._catches -= 1
            else:
                self.diary.append(f"{number} {step}")
        self.diary.append("done")

    async def _do(self, step: str, turn: Turn) -> None:
        match step:
            case "parks":
                self.waiter = waiter_of(turn)
                try:
                    await self.waiter
                finally:
                    self.waiter = None
            case "yields":
                await asyncio.sleep(0)
            case "sleeps":
                await asyncio.sleep(0.0001)
            case "waits for a lock":
                async with self._lock:
                    await asyncio.sleep(0)
            case "needs a task":
                await in_task()
                async with asyncio.timeout(60):
                    await asyncio.sleep(0)
            case _:
                with pytest.raises(ValueError, match="own"):
                    raise ValueError("its own")


async def diary(
    steps: list[str], catches: int, cancel_at: int, *, inline: bool
) -> tuple[list[str], bool]:
    """What it did, and whether it ended by a cancellation. cancel_at: before that many wake-ups."""
    script, ended = Script(steps, catches), list[bool]()
    turn = current_turn()
    if inline:
        one = InlineTask(turn, _noting(script.run(turn), ended), lambda: ended.append(True))
        turn.run_soon(one.start)
        cancel: Callable[[], object] = one.cancel
    else:
        task = asyncio.create_task(_noting(script.run(turn), ended))
        task.add_done_callback(lambda done: ended.append(True) if done.cancelled() else None)
        cancel = task.cancel
    woken = 0
    for _ in range(2000):
        await asyncio.sleep(0)
        if ended:
            break
        if script.waiter is not None:
            if woken == cancel_at:
                cancel()
            else:
                script.waiter.wake()
            woken += 1
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert ended, "it hangs"
    return script.diary, ended[0]


async def _noting(work: Coroutine[None, None, None], ended: list[bool]) -> None:
    await work
    ended.append(False)


@given(
    steps=st.lists(st.sampled_from(STEPS), max_size=8),
    catches=st.integers(0, 2),
    cancel_at=st.integers(0, 6),
)
def test_it_does_what_a_task_does(steps: list[str], catches: int, cancel_at: int) -> None:
    async def both() -> None:
        as_task = await diary(steps, catches, cancel_at, inline=False)
        assert await diary(steps, catches, cancel_at, inline=True) == as_task

    uvloop.run(both())


async def parked(turn: Turn, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0) if times > 5 else await waiter_of(turn)


@pytest.mark.anyio
async def test_only_what_waits_for_something_else_needs_a_task() -> None:
    turn = current_turn()
    before = turn.inline_started, turn.inline_finished

    for times in (3, 9):
        one = InlineTask(turn, parked(turn, times), lambda: None)
        turn.run_soon(one.start)
        while not one.done:
            await asyncio.sleep(0)
            one.wake()

    assert (turn.inline_started, turn.inline_finished) == (before[0] + 2, before[1] + 1)


@pytest.mark.anyio
async def test_cancelled_before_its_first_wait_it_ends_there() -> None:
    turn, failed = current_turn(), list[str]()

    async def cancels_itself() -> None:
        canceller_in(turn).cancel()
        await waiter_of(turn)

    one = InlineTask(turn, cancels_itself(), lambda: failed.append("cancelled"))
    one.start()
    await asyncio.sleep(0.01)

    assert (one.done, failed) == (True, ["cancelled"])


@pytest.mark.anyio
async def test_a_bug_is_logged_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    turn, failed = current_turn(), list[str]()

    async def fails(wait: bool) -> None:
        if wait:
            await asyncio.sleep(0)
        raise ValueError("a bug")

    for wait in (False, True):
        InlineTask(turn, fails(wait), lambda: failed.append("failed")).start()
    await asyncio.sleep(0.01)

    assert failed == ["failed", "failed"]
    assert caplog.text.count("ValueError: a bug") == 2
