"""Where the text of one backend meets that of the next: nothing is repeated, and nothing lost.

The client sees one answer: it has begun already, so its second beginning is dropped, and its usage
is that of all attempts.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.execution.continuation import Continuation
from strowger_gateway.gateway.routing.execution.shown_answer import ShownAnswer
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    Tokens,
    Usage,
)
from strowger_gateway.schemas.requests import GenerateRequest

COUNTS: Final = tuple(field for field in Usage.__struct_fields__ if field != "raw")


class Seam:
    """Joins the events of a continuation to what was shown.

    ended: the answer has ended at a stop string that begins before the seam.
    """

    def __init__(
        self,
        request: GenerateRequest,
        shown: ShownAnswer,
        continued: Continuation,
        record: RequestRecord,
        last_at: float,
    ) -> None:
        """last_at: when the client received the last content, in the clock's seconds."""
        self._continued = continued
        self._record = record
        self._last_at = last_at
        self._stops = _open_stops(request, shown.text)
        self._anything_shown = bool(shown.text or shown.ids)
        self._held = ""
        self._first = not continued.resumed
        self.ended = False

    def join(self, batch: Sequence[Event]) -> list[Event]:
        """The events for the client. Raises UpstreamBroken if they continue no text."""
        events: list[Event] = []
        for event in batch:
            if self.ended:
                break
            if isinstance(event, Started):
                continue
            if isinstance(event, Usage):
                events.append(self._total(event))
            elif not self._first:
                events.append(event)
            elif isinstance(event, TextDelta):
                events += self._open(self._held + event.text, last=False)
            else:
                events += self._begin(event)
        return events

    def _begin(self, event: Event) -> list[Event]:
        """The first event that is not text."""
        if isinstance(event, ReasoningDelta) and self._anything_shown:
            raise UpstreamBroken(
                "cannot continue the text: its answer begins with reasoning",
                upstream=self._record.backend,
            )
        held = self._open(self._held, last=True)
        if self.ended:
            return held
        if isinstance(event, Tokens):
            event = replace(event, elapsed_ms=(now() - self._last_at) * 1e3)
        return [*held, event]

    def _open(self, text: str, *, last: bool) -> list[Event]:
        """The first text, as soon as it shows what of it the client has; until then none.

        last: no more text follows.
        """
        rest = self._unrepeated(text, last=last)
        if rest is None or (not last and self._may_end(rest)):
            self._held = text
            return []
        self._held, self._first = "", False
        self.ended = any(rest.startswith(stop) for stop in self._stops)
        if self.ended:
            return [Finished(reason="stop")]
        return [TextDelta(text=rest)] if rest else []

    def _may_end(self, rest: str) -> bool:
        """Whether more text decides if a stop string is complete."""
        stops = self._stops
        return not any(map(rest.startswith, stops)) and any(one.startswith(rest) for one in stops)

    def _unrepeated(self, text: str, *, last: bool) -> str | None:
        """The text without what was shown; `None` if more of it is needed to know."""
        begun, space = self._continued.begun, self._continued.trimmed
        if begun and text.startswith(begun):
            text = text[len(begun) :]
        elif begun and begun.startswith(text) and not last:
            return None
        if space:
            common = _common(space, text)
            if common == len(text) < len(space) and not last:
                return None
            text = text[common:]
        return text

    def _total(self, usage: Usage) -> Usage:
        """The usage of all attempts whose text was shown, those before and this one."""
        totals = {name: getattr(usage, name) for name in COUNTS}
        for earlier in usage_before(self._record, usage.prompt_tokens):
            for name in COUNTS:
                count = getattr(earlier, name)
                if count is not None:
                    totals[name] = (totals[name] or 0) + count
        return Usage(**totals)


def usage_before(record: RequestRecord, prompt_tokens: int | None) -> list[Usage]:
    """The usage of the attempts that were continued: as reported, or else estimated.

    prompt_tokens: of the attempt that continued them, whose prompt includes their text.
    """
    found: list[Usage] = []
    produced = 0
    for attempt in reversed(record.attempts):
        if not attempt.continued:
            continue
        produced += attempt.deltas
        reported = attempt.usage
        if reported is not None and reported.completion_tokens is not None:
            found.append(reported)
            continue
        prompt = reported.prompt_tokens if reported is not None else None
        if prompt is None and prompt_tokens is not None:
            prompt = max(0, prompt_tokens - produced)
        total = None if prompt is None else prompt + attempt.deltas
        found.append(
            Usage(prompt_tokens=prompt, completion_tokens=attempt.deltas, total_tokens=total)
        )
    return found


def _open_stops(request: GenerateRequest, text: str) -> tuple[str, ...]:
    """What completes a stop string whose beginning is the end of the text."""
    stops = request.sampling.stop
    if stops is UNSET:
        return ()
    return tuple(
        stop[size:]
        for stop in stops
        for size in range(min(len(stop) - 1, len(text)), 0, -1)
        if text.endswith(stop[:size])
    )


def _common(one: str, other: str) -> int:
    """The length of the beginning that both have."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
