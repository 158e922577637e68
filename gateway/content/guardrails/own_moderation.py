"""Moderation by the guardrails of the configuration: a provider with `adapter: guardrails`.

A backend of it names guardrails, and each is a category of its answers. Hooks of its own examine
the texts: those of the stage belong to requests, and act on them.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from strowger_gateway.adapters.base import Supports
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.embedding_batches import side_by_side
from strowger_gateway.gateway.backends.upstream.patience import total_of
from strowger_gateway.gateway.backends.upstream.sending import Sending
from strowger_gateway.gateway.config.schema.connection import Timeouts
from strowger_gateway.gateway.content.hooks.contract import Edited, HookRefusal
from strowger_gateway.gateway.content.hooks.counts import FailureLog
from strowger_gateway.gateway.content.hooks.guarded_request import Guards
from strowger_gateway.gateway.content.hooks.guards import (
    DIRECT,
    HookFailed,
    Rail,
    checked,
    result_of,
    result_of_now,
)
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.answers import Embeddings
from strowger_gateway.schemas.errors import (
    InvalidRequest,
    Uncountable,
    UpstreamFailed,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import TextPart, text_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
)
from strowger_gateway.schemas.tasks.moderate import ModerateRequest, Moderation, Verdict
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest

OWN_SUPPORTS: Final = Supports(moderate=frozenset({"conversations"}))
"""Texts, and the last messages of conversations."""

_READ: Final = ("text",)

Examined = Request | Edited | HookRefusal
"""What a hook returns for a request."""


class GuardrailFailed(UpstreamFailed):
    """A guardrail with `fail: closed` failed."""

    status = 503
    code = "guardrail_failed"


class GuardrailUpstream:
    """See `strowger_gateway.gateway.backends.upstream.base.Upstream`: moderation alone.

    A guardrail that is named examines every text, whatever its `where`, `who`, `models` and `mode`
    say about requests to models.
    """

    def __init__(
        self,
        name: str,
        guards: Guards,
        names: Mapping[str, Sequence[str]],
        timeouts: Timeouts,
    ) -> None:
        """guards: closed with it. names: of the guardrails, by the model of a backend."""
        self.name = name
        self.names = names
        self._guards = guards
        rails = {rail.settings.name: rail for rail in guards.rails}
        self._rails = {model: [rails[one] for one in found] for model, found in names.items()}
        self._whole_s, _ = total_of(timeouts)
        self._failures = FailureLog()

    @property
    def supports(self) -> Supports:
        """See Upstream."""
        return OWN_SUPPORTS

    async def perform(self, request: TaskRequest, call: Call) -> TaskAnswer:
        """See TaskUpstream. Raises GuardrailFailed, UpstreamTimeout."""
        if not isinstance(request, ModerateRequest):
            raise self._not_offered()
        over = min(now() + self._whole_s, call.deadline)
        task = asyncio.ensure_future(self._moderate(request, call))
        try:
            await asyncio.wait({task}, timeout=max(0.0, over - now()))
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            call.sending.unread = False
            error = UpstreamTimeout("its guardrails took too long", upstream=self.name)
            error.counts = False
            raise error
        return task.result()

    async def generate(
        self, request: GenerateRequest, call: Call
    ) -> AsyncGenerator[list[Event], None]:
        """See Upstream."""
        raise self._not_offered()
        yield []  # makes it a generator

    async def embed(self, request: EmbeddingsRequest, call: Call) -> Embeddings:
        """See Upstream."""
        raise self._not_offered()

    async def count_tokens(self, request: ChatRequest, call: Call) -> int:
        """See Upstream."""
        raise Uncountable(f"{self.name}: guardrails do not count tokens")

    async def aclose(self) -> None:
        """See Upstream."""
        await self._guards.aclose()

    async def _moderate(self, request: ModerateRequest, call: Call) -> Moderation:
        rails = self._rails[call.model]
        apart = request.characters > DIRECT

        async def judge(one: ModerateRequest, sending: Sending) -> Verdict:
            sending.unread = False  # it counts as one that a vendor has read
            return await self._judged(rails, one, call, apart=apart)

        inputs = _texts(request)
        if apart or any(rail.waits for rail in rails):
            found = await side_by_side(inputs, judge, call.sending)
        else:
            found = [await judge(one, call.sending) for one in inputs]
        return Moderation(results=tuple(found))

    async def _judged(
        self, rails: Sequence[Rail], one: ModerateRequest, call: Call, *, apart: bool
    ) -> Verdict:
        """Ask each guardrail in order; it sees the text as those before it have masked it."""
        categories: dict[str, bool | None] = {}
        for rail in rails:
            name = rail.settings.name
            try:
                found = await _examined(rail, one, call, apart=apart)
            except HookFailed as exc:
                self._failed(rail, exc)
                categories[name] = None
                continue
            categories[name] = found is not one
            if rail.settings.mode == "mask" and not isinstance(found, HookRefusal):
                masked = found.request if isinstance(found, Edited) else found
                assert isinstance(masked, ModerateRequest), "`checked` knows the type"
                one = masked
        known = {name: flag for name, flag in categories.items() if flag is not None}
        return Verdict(
            flagged=any(known.values()),
            categories=categories,
            scores={name: float(flag) for name, flag in known.items()},
            read=dict.fromkeys(known, _READ),
        )

    def _failed(self, rail: Rail, failure: HookFailed) -> None:
        """Log why a guardrail failed; raise GuardrailFailed unless it is `open`."""
        name = rail.settings.name
        slow = TimeoutError(f"no answer within {rail.settings.timeout_s:g} s")  # counted nowhere
        self._failures.add(name, failure.__cause__ or slow)
        if rail.settings.fail == "open":
            return
        error = GuardrailFailed(
            f"the guardrail {name!r} could not examine the input; retry later", upstream=self.name
        )
        error.counts = False  # a client's text can be the cause
        raise error

    def _not_offered(self) -> InvalidRequest:
        return InvalidRequest(f"{self.name}: guardrails offer moderation alone")


def _texts(request: ModerateRequest) -> list[ModerateRequest]:
    """Return a request for each input; of a conversation, the last message is judged."""
    inputs = request.inputs or [(TextPart(text=text_of(one[-1])),) for one in request.conversations]
    return [ModerateRequest(model=request.model, inputs=(tuple(one),)) for one in inputs]


async def _examined(rail: Rail, one: ModerateRequest, call: Call, *, apart: bool) -> Examined:
    """What the hook returns: `one` itself if it finds nothing. Raises HookFailed.

    apart: of much text, in a thread.
    """
    examine: Callable[[Request], Examined | Awaitable[Examined]] = rail.hook.before
    if not apart or rail.waits:
        asked_by = (call.holder, call.level)
        return checked(await result_of(examine, one, rail.settings.timeout_s, asked_by), one)
    whole = partial(result_of_now, rail.hook.before, one)
    if call.room is None:
        found = await asyncio.to_thread(whole)
    else:
        found = await call.room.run(whole, call.holder, one.characters)
    return checked(cast("Examined", found), one)
