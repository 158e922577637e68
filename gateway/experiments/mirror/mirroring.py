"""Send copies of requests after their clients were served; no client sees their outcome."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.experiments.mirror.comparison import Comparison, compared
from strowger_gateway.gateway.observability.recording.rows_from_request import attempt_row
from strowger_gateway.gateway.observability.telemetry.mirror_log_entry import MirrorLogEntry
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.attempt_usage import (
    CountedSource,
    note_searches,
    usage_of_answer,
)
from strowger_gateway.gateway.routing.execution import pipeline
from strowger_gateway.gateway.routing.execution.release_traceback import release_traceback
from strowger_gateway.gateway.routing.planning.candidate import Candidate, UnmirrorableRequest
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.prices import Prices, cost_of
from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens
from strowger_gateway.gateway.routing.request_record import (
    AttemptRecord,
    RequestRecord,
    milliseconds,
)
from strowger_gateway.gateway.stages.generation import Generation
from strowger_gateway.gateway.stages.request_context import RequestContext
from strowger_gateway.gateway.storage.sql.rows import AttemptRow
from strowger_gateway.schemas.answers import Answer, Embeddings
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.holdings import LEVEL, Holder
from strowger_gateway.schemas.requests import EmbeddingsRequest, Request
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest

if TYPE_CHECKING:
    from strowger_gateway.gateway.observability.tracing.tracing import Tracing

MAX_IN_FLIGHT = 32
"""Maximum number of copies in flight in one process; further ones are shed."""

COPIES = Holder("\0mirror")
"""Copies take turns as one key of their own, which no client has, behind all clients' requests."""

ONCE = RetryRule(attempts=1)

NOTHING: Final[tuple[Usage, CountedSource]] = Usage(), ""

_log = logging.getLogger("strowger.mirror")

OnMirrored = Callable[[MirrorLogEntry, AttemptRow | None], None]


def _untraced() -> None:
    """No copy is traced."""


def _unattributed(record: RequestRecord) -> None:
    """No copy is attributed to a client program."""


class Mirrors:
    """The copies of one process."""

    def __init__(
        self,
        on_mirrored: OnMirrored,
        tracing: "Callable[[], Tracing | None]" = _untraced,
        attribute: Callable[[RequestRecord], None] = _unattributed,
    ) -> None:
        """on_mirrored: called with each outcome, also of shed copies. tracing: exports them.

        attribute: sets the client program and the tags of a request, for those of its copy.
        """
        self._attribute = attribute
        self._on_mirrored = on_mirrored
        self._running: set[asyncio.Task[None]] = set()
        self._tracing = tracing

    def offer(
        self, request: RequestContext, real: Answer | Embeddings | TaskAnswer, *, busy: bool
    ) -> None:
        """Send the copy that the plan wants, or shed it. Never blocks, never raises.

        request: the answered one; real: its answer. busy: shed it, because clients need the
        capacity.
        """
        sent, plan = request.request, request.plan
        record, generation = request.record, request.generation
        assert sent is not None
        assert plan is not None
        copy = plan.mirror
        assert copy is not None
        if isinstance(copy, UnmirrorableRequest):
            unsent = AttemptRecord(backend=copy.name, pattern=copy.pattern, outcome=copy.code)
            line = _line(record, unsent, record, generation.prices, None, NOTHING)
            self._on_mirrored(msgspec.structs.replace(line, reason=copy.reason), None)
            return
        if busy or len(self._running) >= MAX_IN_FLIGHT or not copy.breaker.is_available(now()):
            shed = AttemptRecord(backend=copy.name, pattern=_pattern(copy), outcome="shed")
            self._on_mirrored(_line(record, shed, record, generation.prices, None, NOTHING), None)
            return
        plan_of_copy = Plan(
            route=plan.route,
            candidates=(copy,),
            names=(copy.name,),
            retry=ONCE,
            deadline_s=plan.deadline_s,
            stream_deadline_s=plan.stream_deadline_s,
            operator_deadline_s=plan.operator_deadline_s,
        )
        generation.in_flight += 1
        task = asyncio.create_task(self._send(plan_of_copy, sent, record, real, generation))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def wait_idle(self) -> None:
        """Return when no copy is in flight."""
        while self._running:
            await asyncio.wait(tuple(self._running))

    async def cancel(self) -> None:
        """Cancel all copies in flight, which closes their connections."""
        for task in self._running:
            task.cancel()
        await self.wait_idle()

    async def _send(
        self,
        plan: Plan,
        request: Request,
        record: RequestRecord,
        real: Answer | Embeddings | TaskAnswer,
        generation: Generation,
    ) -> None:
        shadow = _shadow(record)
        comparison: Comparison | None = None
        reason = ""
        try:
            if isinstance(request, EmbeddingsRequest):
                answer = await pipeline.embed(plan, request, shadow, tenant=record.caller)
            elif isinstance(request, TaskRequest):
                answer = await pipeline.perform(plan, request, shadow, tenant=record.caller)
            else:
                answer = await pipeline.collect(plan, request, shadow, tenant=record.caller)
            comparison = compared(real, answer)
        except GatewayError as exc:
            reason = exc.message if isinstance(exc, InvalidRequest) else ""
            _log.debug("the copy of request %s failed: %s", record.request_id, exc)
            release_traceback(exc)
        except Exception:  # noqa: BLE001  no task awaits this one, so log it here
            _log.exception("internal error in the copy of request %s", record.request_id)
        finally:
            generation.in_flight -= 1
            if shadow.attempts and (shadow.usage is None or shadow.usage.prompt_tokens is None):
                shadow.estimated_prompt_tokens = estimated_tokens(request)
            if isinstance(request, TaskRequest):
                note_searches(shadow, request)
            usage, source = usage_of_answer(shadow)
            for attempt in shadow.attempts:
                attempt.role = "mirror"
                line = msgspec.structs.replace(
                    _line(record, attempt, shadow, generation.prices, comparison, (usage, source)),
                    reason=reason if attempt.refused else "",
                    mirror_dropped=plan.candidates[0].reported_omissions,
                )
                number = len(record.attempts) + 1
                row = attempt_row(
                    record.request_id,
                    number,
                    line.time,
                    attempt,
                    usage,
                    source,
                    generation.prices,
                    shadow.service_tier,
                )
                self._attribute(record)
                self._on_mirrored(line, _charged(row, record))
            if (tracing := self._tracing()) is not None:
                tracing.add_mirrored(shadow, time.time() - now())


def _shadow(record: RequestRecord) -> RequestRecord:
    """Begin the record of the copy of a request."""
    shadow = RequestRecord(
        request_id=record.request_id,
        started=now(),
        task=record.task,
        attempts=[],
        caller=record.caller,
        holder=COPIES,
        level=LEVEL + 1,
        team=record.team,
        user=record.user,
        client_headers=record.client_headers,
        requested_tier=record.requested_tier,
    )
    if record.trace is not None:
        shadow.trace = record.trace.of_mirror()
    return shadow


def _charged(row: AttemptRow, record: RequestRecord) -> AttemptRow:
    """The row with whom its usage is charged to: it is imported apart from its request's row."""
    return msgspec.structs.replace(
        row,
        key=record.caller,
        team=record.team,
        user=record.user,
        tags=record.tags,
        route=record.route,
        client=record.client,
        request_tags=record.request_tags,
        end_user=record.spender,
    )


def _pattern(copy: Candidate) -> str:
    return copy.backend.name if copy.backend.model == "*" else ""


def _line(
    record: RequestRecord,
    attempt: AttemptRecord,
    shadow: RequestRecord,
    prices: Prices,
    comparison: Comparison | None,
    used: tuple[Usage, CountedSource],
) -> MirrorLogEntry:
    """Build the log entry. shadow: the copy's record; the request's own if none was sent.

    used: by the copy.
    """
    served = next((one for one in reversed(record.attempts) if one.outcome == "ok"), None)
    real, real_source = usage_of_answer(record)
    sent = shadow is not record
    usage, source = used
    ours = prices.of(record.backend) if prices.any and real_source else None
    theirs = prices.of(attempt.backend) if prices.any and source else None
    first = shadow.first_content_at if sent else None
    return MirrorLogEntry(
        mirror_of=record.request_id,
        time=time.time(),
        route=record.route,
        backend=record.backend,
        mirror=attempt.backend,
        outcome=attempt.outcome,
        pattern=attempt.pattern,
        ms=None if served is None else served.ms,
        mirror_ms=attempt.ms,
        mirror_ttft_ms=None if first is None else milliseconds(first - shadow.started),
        completion_tokens=real.completion_tokens,
        mirror_prompt_tokens=usage.prompt_tokens,
        mirror_completion_tokens=usage.completion_tokens,
        mirror_source=source,
        cost_usd=None if ours is None else cost_of(real, ours.of_answer(real, record.service_tier)),
        mirror_cost_usd=None
        if theirs is None
        else cost_of(usage, theirs.of_answer(usage, shadow.service_tier)),
        compared=comparison,
    )
