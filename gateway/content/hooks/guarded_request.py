"""The guardrails of a configuration, and one request that is held to them.

`Guards` finds those that apply. `GuardedRequest` examines the request before backends are ordered
(`guard_request`), and then its answer: events as they arrive, a whole answer, or an error.
"""

import inspect
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
from strowger_gateway.gateway.content.hooks.answer_texts import (
    guard_error,
    guarded_started,
    guarded_usage,
    mask_text,
)
from strowger_gateway.gateway.content.hooks.contract import (
    AsyncHook,
    ClosingHook,
    Edited,
    Hook,
    HookRefusal,
)
from strowger_gateway.gateway.content.hooks.counts import GuardCounts
from strowger_gateway.gateway.content.hooks.guards import Rail, RequestGuards
from strowger_gateway.gateway.content.hooks.held_values import SCALARS, holding
from strowger_gateway.gateway.content.hooks.request_text import has_tokens, measure_arguments
from strowger_gateway.gateway.content.hooks.streamed_answer import guard_events
from strowger_gateway.gateway.content.hooks.whole_answer import guard_answer
from strowger_gateway.gateway.governance.limits.scope import subject_of
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import (
    ContentBlocked,
    GatewayError,
    InvalidRequest,
    UpstreamError,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import EventSource, Started
from strowger_gateway.schemas.measured_json import Meter, TooComplex, repeated_name
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.tasks.task import TaskAnswer, Unsampled

PLACE = "request"

_Named = TypeVar("_Named", Embeddings, TaskAnswer)

_log = logging.getLogger("strowger.guardrails")

_MOST_KEPT: Final = 4096
"""Combinations of caller and model whose guardrails are remembered; clients choose model names."""


class Guards:
    """The guardrails of one configuration."""

    def __init__(
        self,
        rails: Mapping[str, Hook | AsyncHook],
        settings: Sequence[GuardrailConfig],
        exempt: frozenset[str] = frozenset(),
    ) -> None:
        """rails: the hooks, by the guardrail's name. exempt: models whose requests none examines,
        because guardrails answer them.
        """
        self.rails = [_rail(one, rails[one.name]) for one in settings]
        self.exempt = exempt
        self._found: dict[tuple[str, ...], tuple[Rail, ...]] = {}

    async def aclose(self) -> None:
        """Close what hooks have open; those without `aclose` have nothing.

        A bug in one of them leaves none of the others open.
        """
        for rail in self.rails:
            if isinstance(rail.hook, ClosingHook):
                try:
                    await rail.hook.aclose()
                except Exception:  # noqa: BLE001  hooks may be an operator's own
                    _log.exception("guardrail %s cannot be closed", rail.settings.name)

    def of(
        self, counts: GuardCounts, key: str, team: str, user: str, *models: str
    ) -> "GuardedRequest | None":
        """Return those that apply to a request; `None` if none does. models: its names."""
        caller = (key, team, user, *models)
        found = self._found.get(caller)
        if found is None:
            if len(self._found) >= _MOST_KEPT:
                self._found.clear()
            found = self._found[caller] = tuple(
                rail
                for rail in self.rails
                if covers(rail.settings.models, *models)
                and subject_of(rail.settings, key, team, user) is not None
            )
        return GuardedRequest(found, counts) if found else None


class GuardedRequest(RequestGuards):
    """One request with its answer, held to the guardrails that apply to it."""

    __slots__ = ()

    async def request(self, request: Request, size: int) -> Request:
        """Return the request as backends may receive it. See guard_request."""
        return await guard_request(self, request, size)

    def events(self, source: EventSource) -> EventSource:
        """Return the events as the client may receive them. Closing it closes the source."""
        return guard_events(source, self)

    async def answer(self, answer: Answer) -> Answer:
        """Return a whole answer as the client may receive it. Raises ContentBlocked."""
        return await guard_answer(self, answer)

    def vectors(self, answer: Embeddings) -> Embeddings:
        """Return vectors as the client may receive them: nothing but their words is examined."""
        return self._named(answer)

    def task(self, answer: TaskAnswer) -> TaskAnswer:
        """Return a task's answer, which has numbers and names of the model's own classes."""
        return self._named(answer)

    def _named(self, answer: _Named) -> _Named:
        for rail in self.output:
            started = guarded_started(self, rail, Started(id=answer.id, model=answer.model))
            usage = guarded_usage(self, rail, answer.usage)
            answer = replace(answer, id=started.id, model=started.model, usage=usage)
        return answer

    async def error(self, error: GatewayError) -> None:
        """Mask what an error quotes of its backend's answer."""
        if not isinstance(error, UpstreamError | UpstreamRejected):
            return
        for rail in self.output:
            if rail.enforces:
                guard_error(self, rail, error)
                try:
                    error.message = await mask_text(self, rail, error.message, "other", 0)
                except ContentBlocked as blocked:
                    error.message = blocked.message


async def guard_request(guards: RequestGuards, request: Request, size: int) -> Request:
    """Return the request as backends may receive it.

    size: bytes of a large body, which is examined in a thread; 0 of any other. Raises
    ContentBlocked, InvalidRequest for what cannot be examined, Throttled and Unavailable.
    """
    _refuse_unreadable(guards, request)
    if any(rail.enforces for rail in guards.input):
        if size:
            meter = Meter()
            await guards.run(partial(_check_forms, request, meter), size)
            inside = meter.weight.size + 2 * meter.size
            guards.claim(inside)
            size += inside
        else:
            _refuse_repeated_names(request)
    for rail in guards.input:
        if rail.waits and not rail.enforces:
            guards.in_background(_examine(guards, rail, request, size))
        else:
            request = await _examine(guards, rail, request, size)
    return request


def _rail(settings: GuardrailConfig, hook: Hook | AsyncHook) -> Rail:
    methods = (hook.before, hook.chunk, hook.after)
    return Rail(
        settings=settings,
        hook=hook,
        enforces=settings.mode != "monitor",
        waits=any(inspect.iscoroutinefunction(method) for method in methods),
    )


async def _examine(guards: RequestGuards, rail: Rail, request: Request, size: int) -> Request:
    found = await guards.call(rail, PLACE, rail.hook.before, request, size)
    if found is None or found is request:
        return request
    if isinstance(found, HookRefusal):
        guards.report(rail, PLACE, found.rules or ("refused",), blocks=True)
        return request
    rules = (found.rules or ("edited",)) if isinstance(found, Edited) else ("edited",)
    guards.report(rail, PLACE, rules)
    if not rail.enforces:
        return request
    return found.request if isinstance(found, Edited) else found


def _refuse_unreadable(guards: RequestGuards, request: Request) -> None:
    """Refuse what a guardrail would not see as a backend does.

    Token ids have no text, log probabilities repeat it, and of a name that an object has twice, a
    backend may read the value that is not examined.
    """
    if has_tokens(request):
        for rail in (*guards.input, *guards.output):
            if rail.enforces:
                raise InvalidRequest(
                    f"the guardrail {rail.settings.name!r} examines text, and this request has "
                    "token ids; send text",
                    code="content_not_readable",
                )
            guards.report(rail, PLACE, ("not_readable",))
    if isinstance(request, Unsampled) or request.sampling.logprobs in (UNSET, None, False):
        return
    for rail in guards.output:
        if rail.enforces:
            raise InvalidRequest(
                f"the guardrail {rail.settings.name!r} may mask the answer, and logprobs would "
                "repeat it; leave logprobs out",
                param="logprobs",
                code="content_not_readable",
            )


def _check_forms(request: Request, meter: Meter) -> None:
    """Raise InvalidRequest for JSON of which a guardrail would not see all, or too much.

    Only of a large request: a small one has too little to decode.
    """
    _refuse_repeated_names(request)
    try:
        measure_arguments(request, meter)
    except TooComplex as exc:
        raise InvalidRequest(
            f"a guardrail cannot examine the arguments of tool calls in this request: {exc.problem}"
            "; shorten the arguments of earlier calls",
            param="messages",
            code="body_too_complex",
        ) from None


def _refuse_repeated_names(request: Request) -> None:
    for raw in _raws(request):
        name = repeated_name(bytes(raw))
        if name is not None:
            raise InvalidRequest(
                f"an object has {name[:64]!r} twice, and a guardrail examines only one of its "
                "values; send each name once",
                code="content_not_readable",
            )


def _raws(value: object) -> list[Raw]:
    """The JSON that a request keeps as its client sent it: nothing else can repeat a name."""
    found: list[Raw] = []
    _add_raws(found, value)
    return found


def _add_raws(found: list[Raw], value: Any) -> None:
    kind = value.__class__
    if kind is Raw:
        found.append(value)
    elif kind is dict:
        for one in value.values():
            _add_raws(found, one)
    elif kind is tuple or kind is list:
        for one in value:
            _add_raws(found, one)
    elif isinstance(value, Struct):
        for one in holding(type(value), SCALARS)[1](value):
            if type(one) not in SCALARS:
                _add_raws(found, one)
