"""The work of a run: pairs in their fixed order, a few at a time, each decided when it is whole.

A pair begins only if the worst case of all its calls fits the bound, and in the order that was
drawn before: an answer that takes long delays its pair's place, and never moves it.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from math import log
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.experiments.replay.calls import Calls, PairHold, ReplayCall, Stopped
from strowger_gateway.gateway.experiments.replay.checks import CheckFailed, has_checks, passes
from strowger_gateway.gateway.experiments.replay.definition import Definition, ReplayArm
from strowger_gateway.gateway.experiments.replay.judge import largest_question, question
from strowger_gateway.gateway.experiments.replay.prompts import ReplayedPrompt, request_body
from strowger_gateway.gateway.experiments.replay.rows import (
    LEASE_S,
    CallOutcome,
    LeaseLost,
    Pair,
    ReplayRows,
    Step,
    StoredCall,
)
from strowger_gateway.gateway.experiments.replay.spending import (
    NANOS,
    NOTHING,
    Bound,
    BoundReached,
    ModelPrice,
    Spent,
)
from strowger_gateway.gateway.experiments.replay.verdicts import Judgement, read_judgement

COMPLETE: Final = "all pairs are decided"
BOUND: Final = "the next pair could exceed the bound"
MOST_SILENT: Final = 20
"""Questions without a verdict, from the first one on, after which the run stops."""

JUDGING: Final = 2
"""Questions to the judge about one pair of answers before it counts as unjudged in an order."""


class ReplayPrices(Struct, frozen=True, kw_only=True):
    """Of each arm in order, and of the judge, if there is one."""

    arms: tuple[ModelPrice, ModelPrice]
    judge: ModelPrice | None = None


class ReplayProgress(Protocol):
    """Shows what happens."""

    def decided(self, decided: int, spent: Spent) -> None:
        """decided: pairs so far, of all. spent: so far, settled or reserved."""
        ...

    def waits(self, seconds: float, why: str) -> None:
        """No request is sent for so long."""
        ...


class Replay:
    """Works on one run whose lease this process has.

    formed: the judge can be asked for output that fits a schema, as far as is known.
    """

    def __init__(
        self,
        rows: ReplayRows,
        run: str,
        definition: Definition,
        holder: str,
        calls: Calls,
        prices: ReplayPrices,
        progress: ReplayProgress,
    ) -> None:
        self._rows = rows
        self._run = run
        self._definition = definition
        self._holder = holder
        self._calls = calls
        self._prices = prices
        self._progress = progress
        self._why = ""
        self._decided = 0
        self._silent = 0
        self._judged = False
        self.formed = True
        self._admitting = asyncio.Lock()
        self._freed = asyncio.Event()

    def stop(self, why: str) -> None:
        """Send no further calls; those in flight end."""
        self._why = self._why or why
        self._calls.stop.set()

    async def work(self, concurrency: int) -> str:
        """Work until all pairs are decided, or something stops it; return why it ended.

        Raises what the work raises: LeaseLost, StoreUnavailable.
        """
        todo = await asyncio.to_thread(self._rows.undecided, self._run)
        places = iter(todo)
        self._decided = len(await asyncio.to_thread(self._rows.pairs, self._run)) - len(todo)
        self._progress.decided(self._decided, self._calls.spending.charged)
        renewing = asyncio.create_task(self._renew())
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(self._pairs(places))
        except ExceptionGroup as failed:
            raise _first(failed) from failed
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError, LeaseLost):
                await renewing
        return self._why or COMPLETE

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            at = time.time()
            other = await asyncio.to_thread(self._rows.lease, self._run, self._holder, at)
            if other:
                self.stop("another command has taken the run over")
                raise LeaseLost(other)

    async def _pairs(self, places: Iterator[int]) -> None:
        for place in places:
            if self._calls.stop.is_set():
                return
            try:
                prompt = await asyncio.to_thread(self._rows.prompt, self._run, place)
            except LookupError:
                self.stop("its texts are deleted (store.keep_payload_days)")
                return
            known = await asyncio.to_thread(self._rows.calls, self._run, place)
            hold = PairHold(self._needed(prompt, known))
            if not await self._admitted(hold.left):
                return
            try:
                pair = await _PairWork(self, place, prompt, known, hold).decide()
            except BoundReached:
                self.stop(BOUND)
                return
            except (Stopped, CheckFailed) as exc:
                self.stop(str(exc))
                return
            finally:
                self._calls.spending.free(hold.left)
                self._freed.set()
            await asyncio.to_thread(self._rows.decide, self._run, self._holder, pair)
            self._decided += 1
            self._progress.decided(self._decided, self._calls.spending.charged)

    async def _admitted(self, worst: Spent) -> bool:
        """Hold what a pair may need; false if that could exceed the bound, or the run stops.

        Pairs in flight may free what they have not needed. Pairs are admitted in their order.
        """
        spending = self._calls.spending
        async with self._admitting:
            while not self._calls.stop.is_set():
                self._freed.clear()
                if spending.hold(worst):
                    return True
                if spending.held == NOTHING:
                    self.stop(f"{BOUND}: it may cost {_words(worst, spending.bound)}")
                    return False
                await self._freed.wait()
        return False

    def _needed(self, prompt: ReplayedPrompt, known: dict[Step, StoredCall]) -> Spent:
        """Return the worst case of what a pair still needs, if each call succeeds at once."""
        found = Spent()
        most = 0
        for arm, step in zip(self._definition.arms, _ARMS, strict=True):
            one = self.ask_arm(0, prompt, arm, step)
            most = max(most, one.answer_tokens)
            if not _ended(known, step):
                found += one.worst
        if self._prices.judge is not None:
            size = largest_question(prompt, most, self._definition.rubric)
            for step in _ORDERS:
                if not _ended(known, step):
                    found += self._prices.judge.of_tokens(size, self._definition.judge_tokens)
        return found

    def ask_arm(self, place: int, prompt: ReplayedPrompt, arm: ReplayArm, step: Step) -> ReplayCall:
        body, most = request_body(prompt, arm.model, self._definition.answer_tokens)
        price = self._prices.arms[_ARMS.index(step)]
        return ReplayCall(
            place=place,
            step=step,
            api=prompt.api,
            body=body,
            answer_tokens=most,
            price=price,
            variant=arm.variant,
        )

    def judged(self, verdict: str, error: str) -> None:
        """Count a question. Raises Stopped if the judge has never given a verdict to many."""
        self._judged = self._judged or bool(verdict)
        self._silent += 1
        if not self._judged and self._silent >= MOST_SILENT:
            raise Stopped(f"the judge gives no verdict; the last time: {error}")

    @property
    def definition(self) -> Definition:
        return self._definition

    @property
    def calls(self) -> Calls:
        return self._calls

    @property
    def judge_price(self) -> ModelPrice | None:
        return self._prices.judge


_MALFORMED: Final = (400, 422)
_ARMS: Final[tuple[Step, Step]] = ("control", "treatment")
_ORDERS: Final[tuple[Step, Step]] = ("first", "second")


class _PairWork:
    """The calls of one pair. known: those of an earlier command, which are not made again."""

    def __init__(
        self,
        run: Replay,
        place: int,
        prompt: ReplayedPrompt,
        known: dict[Step, StoredCall],
        hold: PairHold,
    ) -> None:
        self._run = run
        self._place = place
        self._prompt = prompt
        self._known = known
        self._hold = hold

    async def decide(self) -> Pair:
        """Raises Stopped, BoundReached, CheckFailed, LeaseLost, StoreUnavailable."""
        definition = self._run.definition
        arms = list(zip(definition.arms, _ARMS, strict=True))
        answers: dict[Step, CallOutcome] = {}
        for arm, step in arms if self._place % 2 else reversed(arms):
            answers[step] = await self._answer(arm, step)
        control, treatment = answers["control"], answers["treatment"]
        pair = Pair(
            place=self._place,
            unit=self._prompt.unit,
            how="tie",
            score=0.5,
            first=None,
            second=None,
            length=_length(control, treatment),
        )
        ends = control.state == "done", treatment.state == "done"
        if ends != (True, True):
            # As users would have it: an arm without an answer loses to one that answers.
            return replace(pair, how="failed", score=_better(*ends))
        if control.passed is not treatment.passed:
            return replace(
                pair, how="check", score=_better(bool(control.passed), bool(treatment.passed))
            )
        if self._run.judge_price is None:
            return replace(pair, how="check" if control.passed is not None else "tie")
        first = await self._judge("first", treatment.text, control.text, wins="A")
        second = await self._judge("second", control.text, treatment.text, wins="B")
        if first is None and second is None:
            return pair
        halves = (0.5 if first is None else first, 0.5 if second is None else second)
        return replace(pair, how="judge", score=sum(halves) / 2, first=first, second=second)

    async def _answer(self, arm: ReplayArm, step: Step) -> CallOutcome:
        if (known := _ended(self._known, step)) is not None:
            return _outcome(known)
        one = self._run.ask_arm(self._place, self._prompt, arm, step)
        outcome, answered = await self._run.calls.ask(one, self._hold)
        if answered is None:
            return outcome
        definition = self._run.definition
        if has_checks(self._prompt, definition.test_command):
            passed = await passes(
                self._prompt, outcome.text, definition.test_command, definition.test_timeout_s
            )
            outcome = replace(outcome, passed=passed)
        await self._run.calls.settled(one, outcome, answered)
        return outcome

    async def _judge(self, step: Step, one: str, other: str, wins: str) -> float | None:
        """Return the score of treatment in one order; `None` if the judge gives no verdict."""
        if (known := _ended(self._known, step)) is not None:
            return _score(known.verdict, wins)
        definition, price = self._run.definition, self._run.judge_price
        assert price is not None
        verdict = told = ""
        for attempt in range(1, JUDGING + 1):
            asked = question(
                self._prompt,
                one,
                other,
                model=definition.judge,
                rubric=definition.rubric,
                most_tokens=definition.judge_tokens,
                formed=self._run.formed,
            )
            ask = ReplayCall(
                place=self._place,
                step=step,
                api="chat",
                body=asked.body,
                answer_tokens=definition.judge_tokens,
                price=price,
            )
            outcome, answered = await self._run.calls.ask(ask, self._hold)
            if answered is None:
                if outcome.status in _MALFORMED and self._run.formed and attempt < JUDGING:
                    self._run.formed = False
                    continue
                self._run.judged("", outcome.error)
                return None
            judgement = read_judgement(outcome.text)
            again = judgement is None and attempt < JUDGING
            outcome = _judged(outcome, judgement, cut=bool(asked.cut), again=again)
            told = outcome.error
            await self._run.calls.settled(ask, outcome, answered)
            if judgement is not None:
                verdict = judgement.verdict
                break
        self._run.judged(verdict, told)
        return _score(verdict, wins)


def _judged(
    outcome: CallOutcome, judgement: Judgement | None, *, cut: bool, again: bool
) -> CallOutcome:
    """again: the judge is asked once more, so a command that continues asks, too."""
    if judgement is None:
        told = "no verdict in the judge's answer"
        if outcome.cut:
            told += ", which ends at its limit of tokens (--judge-tokens)"
        return replace(outcome, state="asked" if again else "done", cut=cut, error=told)
    return replace(outcome, text=judgement.reason, verdict=judgement.verdict, cut=cut)


def _ended(known: dict[Step, StoredCall], step: Step) -> StoredCall | None:
    """Return a call that need not be made again."""
    call = known.get(step)
    return None if call is None or call.state == "asked" else call


def _outcome(call: StoredCall) -> CallOutcome:
    return CallOutcome(state=call.state, text=call.text, passed=call.passed, verdict=call.verdict)


def _score(verdict: str, wins: str) -> float | None:
    if not verdict:
        return None
    return 0.5 if verdict == "tie" else float(verdict == wins)


def _better(control: bool, treatment: bool) -> float:
    """Return the score of treatment, where one of both may be good."""
    return 0.5 + (treatment - control) / 2


def _length(control: CallOutcome, treatment: CallOutcome) -> float | None:
    if not control.text or not treatment.text:
        return None
    return log(len(treatment.text) / len(control.text))


def _words(worst: Spent, bound: Bound) -> str:
    """Name an amount in what is bounded."""
    words = [] if bound.nanos is None else [f"${worst.nanos / NANOS:.4f}"]
    words += [] if bound.tokens is None else [f"{worst.tokens:,} tokens"]
    return " and ".join(words)


def _first(failed: ExceptionGroup[Exception]) -> Exception:
    """Return the first error of a group: the tasks raise no groups themselves."""
    return failed.exceptions[0]
