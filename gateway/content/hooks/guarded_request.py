"""The guardrails of a configuration, and one request that is held to them."""

import inspect
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.guardrails import GuardrailConfig
from strowger_gateway.gateway.content.hooks.answer_texts import mask_text
from strowger_gateway.gateway.content.hooks.answer_words import (
    guard_error,
    guarded_started,
    guarded_usage,
)
from strowger_gateway.gateway.content.hooks.contract import AsyncHook, ClosingHook, Hook
from strowger_gateway.gateway.content.hooks.counts import GuardCounts
from strowger_gateway.gateway.content.hooks.guards import Rail, RequestGuards
from strowger_gateway.gateway.content.hooks.input import guard_request
from strowger_gateway.gateway.content.hooks.streamed_answer import guard_events
from strowger_gateway.gateway.content.hooks.whole_answer import guard_answer
from strowger_gateway.gateway.governance.limits.scope import covers, subject_of
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import (
    ContentBlocked,
    GatewayError,
    UpstreamError,
    UpstreamRejected,
)
from strowger_gateway.schemas.event_source import EventSource
from strowger_gateway.schemas.events import Started
from strowger_gateway.schemas.requests import Request


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


class Guards:
    """The guardrails of one configuration."""

    def __init__(
        self, rails: Mapping[str, Hook | AsyncHook], settings: Sequence[GuardrailConfig]
    ) -> None:
        """rails: the hooks, by the guardrail's name."""
        self._rails = [_rail(one, rails[one.name]) for one in settings]

    async def aclose(self) -> None:
        """Close what hooks have open; those without `aclose` have nothing."""
        for rail in self._rails:
            if isinstance(rail.hook, ClosingHook):
                await rail.hook.aclose()

    def of(
        self, counts: GuardCounts, key: str, team: str, user: str, *models: str
    ) -> "GuardedRequest | None":
        """Return those that apply to a request; `None` if none does. models: its names."""
        found = [
            rail
            for rail in self._rails
            if covers(rail.settings.models, *models)
            and subject_of(rail.settings, key, team, user) is not None
        ]
        return GuardedRequest(found, counts) if found else None


def _rail(settings: GuardrailConfig, hook: Hook | AsyncHook) -> Rail:
    methods = (hook.before, hook.chunk, hook.after)
    return Rail(
        settings=settings,
        hook=hook,
        enforces=settings.mode != "monitor",
        waits=any(inspect.iscoroutinefunction(method) for method in methods),
    )
