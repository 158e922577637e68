"""The guardrails that apply to one request: how their hooks are called, and what they find.

`RequestGuards.call` calls a hook, and `report` records what it has found, or ends the request. A
hook is another package's code, of which nothing is certain: its exceptions are failures, what waits
ends at its deadline (`result_of`), and anything that it returns although its contract does not have
it is a failure as well (`checked`).
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Final, Protocol, TypeVar, cast

from msgspec import Struct

from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    AsyncHook,
    Block,
    Edited,
    Hook,
    HookRefusal,
    Mask,
    Pass,
    Span,
    TextWindow,
)
from strowger_gateway.gateway.content.hooks.counts import GuardCounts
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.errors import ContentBlocked
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder

_T = TypeVar("_T")
_A = TypeVar("_A")
ANSWER: Final = "answer"
"""The place of what is found in an answer."""

DIRECT: Final = 64 * 1024
"""Characters of a text that is examined in the event loop; a longer one is examined in a thread."""

Offload = Callable[[Callable[[], object], int], Awaitable[object]]
"""Runs a call on so many characters in a thread, when it is its caller's turn."""

Claim = Callable[[int], None]
"""Claims bytes of memory until the end of the request. Raises Throttled, Unavailable."""

ASKED_BY_US: Final[tuple[Holder, int]] = (ANONYMOUS, LEVEL)
ASKED_BY: Final[ContextVar[tuple[Holder, int]]] = ContextVar("asked_by", default=ASKED_BY_US)
"""Whose request a hook examines in its task, and at which level: keys share what hooks use."""

_running: Final[set[asyncio.Future[object]]] = set()
"""Calls that nothing waits for: the event loop itself keeps no reference to them."""


class Rail(Struct, frozen=True, kw_only=True, eq=False):
    """A guardrail with its hook. waits: the hook is an AsyncHook."""

    settings: GuardrailConfig
    hook: Hook | AsyncHook
    enforces: bool
    waits: bool


class InUse(Protocol):
    """The configuration of a request: its hooks are closed when nothing of it is in flight."""

    in_flight: int


class HookFailed(Exception):
    """A hook raised an exception (reason `error`), or did not end in time (`timeout`)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RequestGuards:
    """The guardrails that apply to one request, and what they have found in it.

    findings: GUARDRAIL/RULE:ACTION, each once, without content.
    """

    __slots__ = (
        "_asked_by",
        "_claim",
        "_counts",
        "_generation",
        "_offload",
        "_seen",
        "findings",
        "input",
        "output",
        "waits",
    )

    def __init__(self, rails: Sequence[Rail], counts: GuardCounts) -> None:
        self.input = tuple(rail for rail in rails if rail.settings.where != "output")
        self.output = tuple(rail for rail in rails if rail.settings.where != "input")
        self.waits = any(rail.waits for rail in self.input)
        self.findings: dict[str, None] = {}
        self._counts = counts
        self._seen: set[tuple[str, str, str, str]] = set()
        self._asked_by = ASKED_BY_US
        self._claim: Claim | None = None
        self._offload: Offload | None = None
        self._generation: InUse | None = None

    @property
    def has_acted(self) -> bool:
        """Whether something was masked or blocked so far, or could not be examined."""
        return any(not one.endswith(":monitor") for one in self.findings)

    def offload_with(self, offload: Offload, claim: Claim) -> None:
        """Examine long texts in threads. claim: memory for what is decoded of them."""
        self._offload, self._claim = offload, claim

    def asked_by(self, holder: Holder, level: int) -> None:
        """Share what hooks use, such as connections to their services, by key and team."""
        self._asked_by = holder, level

    def claim(self, size: int) -> None:
        """Claim bytes of memory until the end of the request. Raises Throttled, Unavailable."""
        if size and self._claim is not None:
            self._claim(size)

    async def run(self, call: Callable[[], _T], characters: int) -> _T:
        """Return what a call returns; in a thread if it works on more than DIRECT characters."""
        if characters <= DIRECT or self._offload is None:
            return call()
        return cast("_T", await self._offload(call, characters))

    def belong_to(self, generation: InUse) -> None:
        """Keep the hooks open for work in the background, which may outlive the request."""
        self._generation = generation

    def in_background(self, work: Coroutine[object, object, object]) -> None:
        """Run work that nothing waits for."""
        task, generation = in_background(work), self._generation
        if generation is not None:
            generation.in_flight += 1
            task.add_done_callback(lambda _: _leave(generation))

    def report(
        self,
        rail: Rail,
        place: str,
        rules: Sequence[str],
        *,
        blocks: bool = False,
        why: str = "",
    ) -> None:
        """Record findings, each rule once per place. Raises ContentBlocked if they end the request.

        blocks: they also do so with the mode `mask`. why: added to the error's message.
        """
        mode = rail.settings.mode
        ends = bool(rules) and (mode == "block" or (blocks and mode == "mask"))
        self._record(rail, place, rules, "block" if ends else mode)
        if ends:
            raise _blocked(rail, place, why)

    def replaced(self, rail: Rail, place: str, rules: Sequence[str]) -> None:
        """Record findings that are replaced, also where others block."""
        self._record(rail, place, rules, "mask" if rail.enforces else "monitor")

    def _record(self, rail: Rail, place: str, rules: Sequence[str], action: str) -> None:
        for rule in rules:
            one = (rail.settings.name, rule, place, action)
            if one not in self._seen:
                self._seen.add(one)
                self.findings[f"{rail.settings.name}/{rule}:{action}"] = None
                self._counts.findings[rail.settings.name, place, action] += 1

    async def call(
        self,
        rail: Rail,
        place: str,
        function: "Callable[[_A], _T | Awaitable[_T]]",
        argument: _A,
        characters: int,
    ) -> _T | None:
        """Return what a hook's method returns; `None` if it failed, and that has no effect.

        characters: of the texts that it examines. Raises ContentBlocked if it failed and `fail` is
        closed.
        """
        try:
            if characters > DIRECT and not rail.waits:
                whole = partial(result_of_now, function, argument)
                found = cast("_T", await self.run(whole, characters))
            else:
                found = await result_of(function, argument, rail.settings.timeout_s, self._asked_by)
            return checked(found, argument)
        except HookFailed as exc:
            self.on_failure(rail, place, exc)
        return None

    def call_now(
        self,
        rail: Rail,
        place: str,
        function: "Callable[[_A], _T | Awaitable[_T]]",
        argument: _A,
    ) -> _T | None:
        """`call` of a hook that does not wait, with at most DIRECT characters."""
        try:
            return checked(result_at_once(function, argument), argument)
        except HookFailed as exc:
            self.on_failure(rail, place, exc)
        return None

    def on_failure(self, rail: Rail, place: str, failure: HookFailed) -> None:
        """Record that a hook failed. Raises ContentBlocked if `fail` is closed."""
        reason = failure.reason
        self._counts.failure_log.add(rail.settings.name, failure.__cause__)
        self._counts.failures[rail.settings.name, reason] += 1
        self.findings[f"{rail.settings.name}/{reason}:failed"] = None
        if rail.enforces and rail.settings.fail == "closed":
            raise ContentBlocked(
                f"the guardrail {rail.settings.name!r} could not examine the {place}; retry later",
                code="guardrail_failed",
                status=503,
            )


def result_of_now(function: "Callable[[_A], _T]", argument: _A) -> _T:
    """Call a hook. Raises HookFailed."""
    try:
        return function(argument)
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # `sys.exit`, or what libraries in Rust raise when they panic
        raise HookFailed("error") from exc


def result_at_once(function: "Callable[[_A], _T | Awaitable[_T]]", argument: _A) -> _T:
    """Call a hook that does not wait. Raises HookFailed, also if there is something to wait for."""
    called = result_of_now(function, argument)
    if isinstance(called, Struct):
        return cast("_T", called)
    if inspect.iscoroutine(called):
        called.close()
    raise HookFailed("error") from TypeError("a hook without I/O has to return at once")


async def result_of(
    function: "Callable[[_A], _T | Awaitable[_T]]",
    argument: _A,
    timeout_s: float,
    asked_by: tuple[Holder, int] = ASKED_BY_US,
) -> _T:
    """Call a hook, and wait at most so long for its result. Raises HookFailed.

    A hook that ignores its cancellation is not waited for either. asked_by: see ASKED_BY.
    """
    token = ASKED_BY.set(asked_by)
    try:
        called = result_of_now(function, argument)
        if isinstance(called, Struct) or not inspect.isawaitable(called):
            return called
        task = asyncio.ensure_future(_stays(called))  # it copies the context
    finally:
        ASKED_BY.reset(token)
    try:
        await asyncio.wait({task}, timeout=timeout_s)
    finally:
        if not task.done():
            task.cancel()
            _keep(task)
    if not task.done():
        raise HookFailed("timeout")
    try:
        return task.result()
    except (HookFailed, KeyboardInterrupt):
        raise
    except BaseException as exc:
        raise HookFailed("error") from exc


async def _stays(called: Awaitable[_T]) -> _T:
    """Await what a hook has returned. Raises HookFailed: a task's SystemExit ends its process."""
    try:
        return await called
    except SystemExit as exc:
        raise HookFailed("error") from exc


def in_background(work: Coroutine[object, object, object]) -> "asyncio.Future[object]":
    """Run work that nothing waits for."""
    task = asyncio.ensure_future(work)
    _keep(task)
    return task


def checked(found: _T, argument: object) -> _T:
    """Return what a hook returned. argument: what its method got. Raises HookFailed."""
    if isinstance(argument, TextWindow):
        problem = "" if found is PASS else _of_window(found, len(argument.text))
    elif isinstance(argument, Answer):
        problem = _of_answer(found)
    else:
        problem = _of_request(found, type(argument))
    if problem:
        raise HookFailed("error") from TypeError(problem)
    return found


def _leave(generation: InUse) -> None:
    generation.in_flight -= 1


def _blocked(rail: Rail, place: str, why: str) -> ContentBlocked:
    reason = f": {why}" if why else ""
    return ContentBlocked(f"the guardrail {rail.settings.name!r} blocked the {place}{reason}")


def _keep(task: "asyncio.Future[_T]") -> None:
    kept = cast("asyncio.Future[object]", task)
    _running.add(kept)
    kept.add_done_callback(_ended)


def _ended(task: "asyncio.Future[object]") -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # of a call that was cut off: retrieved, so that asyncio does not log it


def _of_window(found: object, size: int) -> str:
    match found:
        case Pass() | Block(rule=str()):
            return ""
        case Mask():
            spans = cast("object", found.spans)
            if not isinstance(spans, tuple | list):
                return "the spans of a Mask are a tuple"
            odd = any(not _is_span(one, size) for one in cast("tuple[object, ...]", spans))
            return "a span is not a part of its window" if odd else ""
        case _:
            return f"chunk returned {_named(found)}; return PASS, Mask or Block"


def _is_span(one: object, size: int) -> bool:
    match one:
        case Span(start=int(start), end=int(end), rule=str(), replacement=str()):
            return 0 <= start < end <= size
        case _:
            return False


def _of_answer(found: object) -> str:
    match found:
        case Pass() | Block(rule=str()):
            return ""
        case _:
            return f"after returned {_named(found)}; return PASS or Block"


def _of_request(found: object, kind: type[object]) -> str:
    match found:
        case HookRefusal(rules=tuple() | list() as rules):
            odd = not _are_names(cast("tuple[object, ...]", rules))
        case Edited(rules=tuple() | list() as rules):
            odd = not (
                type(found.request) is kind and _are_names(cast("tuple[object, ...]", rules))
            )
        case _:
            odd = type(found) is not kind
    if not odd:
        return ""
    name = _named(found)
    return f"before returned {name}; return the request, Edited with a request, or HookRefusal"


def _are_names(rules: "tuple[object, ...]") -> bool:
    return all(isinstance(one, str) for one in rules)


def _named(found: object) -> str:
    return "None" if found is None else f"a value of the type {type(found).__name__!r}"
