"""Call another package's code, of which nothing is certain.

Its exceptions are failures, what waits ends at its deadline, and anything that it returns although
its contract does not have it is a failure as well.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Final, TypeVar, cast

from msgspec import Struct

from strowger_gateway.gateway.content.hooks.contract import (
    PASS,
    Block,
    Edited,
    HookRefusal,
    Mask,
    Pass,
    Span,
    TextWindow,
)
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.answers import Answer
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder

_T = TypeVar("_T")
_A = TypeVar("_A")
_log = logging.getLogger("strowger.guardrails")
_LOGGED_EVERY_S: Final = 60.0
_MOST_KINDS: Final = 1000
"""A hook can define exceptions at run time."""

ASKED_BY_US: Final[tuple[Holder, int]] = (ANONYMOUS, LEVEL)
ASKED_BY: Final[ContextVar[tuple[Holder, int]]] = ContextVar("asked_by", default=ASKED_BY_US)
"""Whose request a hook examines in its task, and at which level: keys share what hooks use."""

_running: Final[set[asyncio.Future[object]]] = set()
"""Calls that nothing waits for: the event loop itself keeps no reference to them."""


class HookFailed(Exception):
    """A hook raised an exception (reason `error`), or did not end in time (`timeout`)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FailureLog:
    """Log the exceptions of guardrails; timeouts are only counted.

    Each kind of a guardrail's exceptions is logged once per minute, because a service that is down
    fails every request.
    """

    def __init__(self) -> None:
        self._logged: dict[tuple[str, type[BaseException]], tuple[float, int]] = {}
        """When each kind may be logged again, in the clock's seconds, and how many were not."""

    def add(self, name: str, failure: HookFailed) -> None:
        """name: of the guardrail."""
        cause = failure.__cause__
        if cause is None:
            return
        kind, at = (name, type(cause)), now()
        again_at, unlogged = self._logged.get(kind, (at, 0))
        if at < again_at:
            self._logged[kind] = again_at, unlogged + 1
            return
        if len(self._logged) >= _MOST_KINDS:
            self._logged.clear()
        self._logged[kind] = at + _LOGGED_EVERY_S, 0
        more = f", and {unlogged} times like this since the last log" if unlogged else ""
        _log.error("guardrail %s failed%s", name, more, exc_info=cause)


def result_of_now(function: "Callable[[_A], _T]", argument: _A) -> _T:
    """Call a hook. Raises HookFailed."""
    try:
        return function(argument)
    except Exception as exc:
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
        if not inspect.isawaitable(called):
            return called
        task = asyncio.ensure_future(called)  # it copies the context
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
    except asyncio.CancelledError as exc:
        raise HookFailed("error") from exc
    except Exception as exc:
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
