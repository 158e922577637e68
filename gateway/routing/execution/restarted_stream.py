"""A stream that its client gets when it is complete: until then any failure asks another backend.

For clients that would rather wait than receive a part of an answer. Nothing of an answer that broke
off is shown, so that the next backend starts from the beginning, whatever was in it: reasoning,
calls of tools, a grammar. The client waits for the whole answer, and until then gets what is sent
to any stream without content.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.room import Room
from strowger_gateway.gateway.routing.execution.attempt_sequence import (
    AttemptSequence,
    PrimaryAttempt,
    first_attempt,
)
from strowger_gateway.gateway.routing.execution.continuation import several
from strowger_gateway.gateway.routing.execution.empty_answer import check_held
from strowger_gateway.gateway.routing.execution.pipeline import count_events, events_of_plan
from strowger_gateway.gateway.routing.execution.token_timing import Intervals
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.errors import UpstreamError
from strowger_gateway.schemas.events import Event, Finished, TextDelta
from strowger_gateway.schemas.requests import GenerateRequest, TokenRequest

CLAIM_BYTES = 64 * 1024
"""The memory that is claimed at a time for what is held."""

EVENT_BYTES = 256
"""The memory of an event, without its text."""

LONGEST_TEXT = 16 * 1024
"""Characters of one event that is made of several."""


async def restarted_stream(
    plan: Plan, request: GenerateRequest, record: RequestRecord, *, tenant: str = ""
) -> AsyncGenerator[list[Event], None]:
    """The events of the first answer that is complete, in one batch.

    Raises GatewayError, always before the batch. Closing the generator early cancels the attempt.
    """
    attempt = first_attempt(plan, request, record, tenant)
    if attempt is None:
        attempt = await AttemptSequence(plan, request, record, tenant).first()
    while True:
        held = _Held(record.room)
        intervals = Intervals(record.started) if isinstance(request, TokenRequest) else None
        try:
            async with aclosing(events_of_plan(attempt)) as source:
                async for batch in source:
                    if count_events(record, batch) and not attempt.committed:
                        attempt.commit()
                    held.add(batch if intervals is None else intervals.timed(batch, now()))
            if not attempt.committed:
                check_held(attempt, held.events())
        except BaseException as error:
            whole = attempt.committed and held.finished and not several(request)
            if whole and isinstance(error, UpstreamError):
                _end_without_mark(attempt, error)
            else:
                attempt.committed = False  # the client has received nothing
                if not attempt.should_fail_over(error):
                    raise
                attempt = await attempt.rest.next(attempt)
                continue
        else:
            (attempt.replacement or attempt).succeed(now())
        if record.first_content_at is not None:
            record.first_content_at = now()
        yield held.events()
        return


def _end_without_mark(attempt: PrimaryAttempt, error: UpstreamError) -> None:
    """The answer is complete. What fails after it counts against the backend."""
    if error.usage is not None:
        attempt.record.usage, attempt.record.usage_at = error.usage, attempt.record.deltas
    attempt.current.fail(error, now())
    attempt.current.entry.outcome = "ok"


class _Held:
    """The events of one answer. Text that comes in pieces is joined, because pieces take memory.

    finished: the end of an answer is among them.
    """

    def __init__(self, room: Room | None) -> None:
        self.finished = False
        self._room = room
        self._events: list[Event] = []
        self._texts: list[str] = []
        self._index = 0
        self._length = 0
        self._size = self._claimed = 0

    def add(self, batch: Sequence[Event]) -> None:
        """Raises Throttled if the key's share of memory is full, Unavailable if all memory is."""
        for event in batch:
            if isinstance(event, TextDelta) and not event.logprobs:
                if event.index != self._index or self._length >= LONGEST_TEXT:
                    self._join()
                self._index = event.index
                self._texts.append(event.text)
                self._length += len(event.text)
                self._size += len(event.text)
            else:
                self._join()
                self._events.append(event)
                self._size += EVENT_BYTES
                self.finished = self.finished or isinstance(event, Finished)
        if self._room is not None and self._size > self._claimed:
            self._room.buffer(CLAIM_BYTES)
            self._claimed += CLAIM_BYTES

    def events(self) -> list[Event]:
        self._join()
        return self._events

    def _join(self) -> None:
        if self._texts:
            self._events.append(TextDelta(text="".join(self._texts), index=self._index))
            self._texts, self._length = [], 0
