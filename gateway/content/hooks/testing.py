"""The contract that every hook keeps, as checks for a hook author's test suite.

`contract` returns the checks that our own hooks pass. An author's whole contract test is

    import pytest
    from strowger_gateway.gateway.content.hooks.testing import Check, contract
    from acme_hook import hook

    CHECKS = contract(hook, {}, finds={"my number is 4711.": "4711"}, passes=["hello"])

    @pytest.mark.parametrize("check", CHECKS, ids=str)
    def test_contract(check: Check) -> None:
        check()

`unittest` or a plain loop works as well: a check is called without arguments, returns nothing, and
raises AssertionError with a sentence that says what is wrong.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig, HoldBack
from strowger_gateway.gateway.content.hooks.contract import (
    AsyncHook,
    Block,
    ClosingHook,
    Edited,
    Hook,
    HookFactory,
    HookRefusal,
    Mask,
    Pass,
    TextWindow,
)
from strowger_gateway.gateway.content.hooks.counts import GuardCounts
from strowger_gateway.gateway.content.hooks.guards import Rail, RequestGuards
from strowger_gateway.gateway.content.hooks.sample_requests import requests_with
from strowger_gateway.gateway.content.hooks.stream_guard import StreamGuard
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import ContentBlocked
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta
from strowger_gateway.schemas.requests import Request

__all__ = ["Check", "contract", "requests_with"]

_T = TypeVar("_T")
_What = Callable[[Hook | AsyncHook], Awaitable[None]]


class Check(Struct, frozen=True, kw_only=True):
    """One check. name: what must be true, as a sentence."""

    name: str
    run: Callable[[], None]

    def __call__(self) -> None:
        """Raises AssertionError if the check fails, and any exception that the hook raises."""
        self.run()

    def __str__(self) -> str:
        return self.name


def contract(
    make: HookFactory,
    settings: Mapping[str, object],
    *,
    finds: Mapping[str, str] | None = None,
    passes: Sequence[str] = ("Good morning. How are you?",),
    hold_back: int = 128,
    where: str = "both",
) -> list[Check]:
    """Return every check of the contract for one hook; nothing is made before a check runs.

    finds:  texts with a finding, and the part of each that must not pass. passes: texts without.
    where:  `input`, `output` or `both`: what the hook examines.
    hold_back: the characters of a stream that wait; at least as many as the longest finding has.
    Raises ValueError for a finding that is not a part of its text.
    """
    found = dict(finds or {})
    for text, value in found.items():
        if not value or value not in text:
            raise ValueError(f"finds: {value!r} is not a part of {text!r}")

    def check(name: str, what: _What) -> Check:
        return Check(name=name, run=lambda: asyncio.run(_run(make(settings), what)))

    checks = [
        check("it has the methods of a hook", _check_shape),
        Check(name="it refuses unknown settings", run=partial(_check_settings, make, settings)),
    ]
    if where != "output":
        checks.append(check("a request without findings is unchanged", partial(_clean, passes)))
        checks.append(check("calls from several threads agree", partial(_threads, [*found])))
    if where != "input":
        checks.append(check("an answer without findings passes", partial(_clean_answer, passes)))
    for text, value in found.items():
        if where != "output":
            what = partial(_check_places, text, value)
            checks.append(check(f"{text!r}: it is found in every place of a request", what))
        if where != "input":
            spans = partial(_check_spans, text)
            checks.append(check(f"{text!r}: its spans are parts of the window", spans))
            split = partial(_check_splits, text, value, hold_back)
            checks.append(check(f"{text!r}: it is found at every split of a stream", split))
    return checks


async def _run(hook: Hook | AsyncHook, what: _What) -> None:
    """Run one check of a new hook in a new event loop."""
    try:
        await what(hook)
    finally:
        if isinstance(hook, ClosingHook):
            await hook.aclose()


async def _check_shape(hook: Hook | AsyncHook) -> None:
    methods = [getattr(hook, name, None) for name in ("before", "chunk", "after")]
    assert all(callable(one) for one in methods), "a hook has before, chunk and after"
    waits = {inspect.iscoroutinefunction(one) for one in methods}
    assert len(waits) == 1, "either all three methods are coroutines, or none is"


def _check_settings(make: HookFactory, settings: Mapping[str, object]) -> None:
    try:
        make({**settings, "no such setting": 1})
    except ValueError:
        return
    raise AssertionError("an unknown setting has no effect: raise ValueError with its name")


async def _clean(texts: Sequence[str], hook: Hook | AsyncHook) -> None:
    for text in texts:
        for place, request in requests_with(text).items():
            found = await _result(hook.before(request))
            assert found is request, f"{place}: a request without findings is changed: {text!r}"


async def _clean_answer(texts: Sequence[str], hook: Hook | AsyncHook) -> None:
    for text in texts:
        verdict = await _result(hook.chunk(TextWindow(text=text)))
        assert not isinstance(verdict, Block | Mask), f"{text!r} is blocked or masked"
        assert isinstance(verdict, Pass), f"chunk returns {verdict!r} for {text!r}: return PASS"
        verdict = await _result(hook.after(_answer(text)))
        assert not isinstance(verdict, Block), f"{text!r} is blocked"
        assert isinstance(verdict, Pass), f"after returns {verdict!r} for {text!r}: return PASS"


async def _threads(texts: Sequence[str], hook: Hook | AsyncHook) -> None:
    if inspect.iscoroutinefunction(hook.before):
        return  # it is called in the event loop only

    def result(request: Request) -> object:
        return _shown(hook.before(request))

    requests = [one for text in texts for one in requests_with(text).values()]
    alone = [result(one) for one in requests]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(result, requests * 8))
    assert together == alone * 8, "calls at the same time have other results: keep no state"


async def _check_places(text: str, value: str, hook: Hook | AsyncHook) -> None:
    for place, request in requests_with(text).items():
        before = msgspec.json.encode(request)
        found = await _result(hook.before(request))
        assert msgspec.json.encode(request) == before, f"{place}: the request itself is changed"
        if isinstance(found, HookRefusal):
            continue
        assert found is not request, f"{place}: the finding in {text!r} is not found"
        edited = found.request if isinstance(found, Edited) else found
        left = msgspec.json.encode(value)[1:-1] in msgspec.json.encode(edited)
        assert not left, f"{place}: {value!r} is still in the request; use with_texts"


async def _check_spans(text: str, hook: Hook | AsyncHook) -> None:
    for begin in range(len(text)):
        for end in range(begin + 1, len(text) + 1):
            window = TextWindow(text=text[:end], begin=begin, final=end == len(text))
            verdict = await _result(hook.chunk(window))
            for span in verdict.spans if isinstance(verdict, Mask) else ():
                where = f"span {span.start}:{span.end} of a window of {end} from {begin}"
                assert begin <= span.start < span.end <= end, f"{where}: it is not a part of it"


async def _check_splits(text: str, value: str, hold_back: int, hook: Hook | AsyncHook) -> None:
    splits = [[text[:at], text[at:]] for at in range(len(text))]
    filler = " So it is. " * (hold_back // 5)
    for pieces in (*splits, list(text), [filler, *text, filler]):
        shown = await _streamed(hook, pieces, hold_back)
        assert value not in shown, f"{value!r} passes a stream of {pieces!r}"


async def _streamed(hook: Hook | AsyncHook, pieces: Sequence[str], hold_back: int) -> str:
    """What a client sees of a stream, up to an error."""
    settings = GuardrailConfig(
        name="contract", use="contract", mode="mask", hold_back=HoldBack(characters=hold_back)
    )
    waits = inspect.iscoroutinefunction(hook.chunk)
    rail = Rail(settings=settings, hook=hook, enforces=True, waits=waits)
    stream = StreamGuard(RequestGuards([rail], GuardCounts()), rail)
    shown = ""
    batches: list[list[Event]] = [[TextDelta(text=piece)] for piece in pieces]
    try:
        for batch in [*batches, [Finished(reason="stop")]]:
            out = await stream.take(batch)
            shown += "".join(one.text for one in out if isinstance(one, TextDelta))
    except ContentBlocked as exc:
        if exc.code != "content_blocked":
            raise AssertionError("the hook failed: see the log") from exc
    return shown


def _answer(text: str) -> Answer:
    choice = Choice(index=0, text=text, finish=Finished(reason="stop"))
    return Answer(started=Started(id="a", model="m"), choices=[choice])


def _shown(found: object) -> object:
    """A result by its content."""
    if isinstance(found, Edited):
        return msgspec.json.encode(found.request), found.rules
    return found if isinstance(found, HookRefusal) else msgspec.json.encode(found)


async def _result(called: "_T | Awaitable[_T]") -> _T:
    if not inspect.isawaitable(called):
        return called
    return await called
