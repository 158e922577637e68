"""The guardrails that apply to one request: how their hooks are called, and what they find."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar, cast

from msgspec import Struct

from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
from strowger_gateway.gateway.content.hooks.contract import AsyncHook, Hook
from strowger_gateway.gateway.content.hooks.counts import GuardCounts
from strowger_gateway.gateway.content.hooks.hook_call import (
    ASKED_BY_US,
    HookFailed,
    checked,
    in_background,
    result_at_once,
    result_of,
    result_of_now,
)
from strowger_gateway.schemas.errors import ContentBlocked
from strowger_gateway.schemas.holdings import Holder

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


class Rail(Struct, frozen=True, kw_only=True, eq=False):
    """A guardrail with its hook. waits: the hook is an AsyncHook."""

    settings: GuardrailConfig
    hook: Hook | AsyncHook
    enforces: bool
    waits: bool


class Generation(Protocol):
    """The configuration of a request: its hooks are closed when nothing of it is in flight."""

    in_flight: int


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
        self._generation: Generation | None = None

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

    def belong_to(self, generation: Generation) -> None:
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
        self._counts.failure_log.add(rail.settings.name, failure)
        self._counts.failures[rail.settings.name, reason] += 1
        self.findings[f"{rail.settings.name}/{reason}:failed"] = None
        if rail.enforces and rail.settings.fail == "closed":
            raise ContentBlocked(
                f"the guardrail {rail.settings.name!r} could not examine the {place}; retry later",
                code="guardrail_failed",
                status=503,
            )


def _leave(generation: Generation) -> None:
    generation.in_flight -= 1


def _blocked(rail: Rail, place: str, why: str) -> ContentBlocked:
    reason = f": {why}" if why else ""
    return ContentBlocked(f"the guardrail {rail.settings.name!r} blocked the {place}{reason}")
