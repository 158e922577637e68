"""Collect the events of a stream in a form that does not show how it was cut."""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from strowger_gateway.schemas.events import (
    Event,
    Logits,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolDelta,
    Usage,
)

_EVENT_BYTES: Final = 64
"""Estimated size of an event without its text."""

_TEXTS: Final = (TextDelta, RefusalDelta, ReasoningDelta, ToolDelta)
"""Events that are a piece of a text."""


class Recording:
    """The events of one stream, until there is more than `most` bytes.

    Consecutive pieces of one text are one event. The choices follow each other, and the counts
    come last; those that came before any content are also there. complete: nothing was left out.
    """

    __slots__ = ("_bytes", "_choices", "_early", "_most", "_started", "_usage", "complete")

    def __init__(self, most: int) -> None:
        self.complete = True
        self._most = most
        self._bytes = 0
        self._started: Started | None = None
        self._early: Usage | None = None
        self._usage: Usage | None = None
        self._choices: dict[int, list[list[Event]]] = {}

    def add(self, batch: Sequence[Event]) -> None:
        """Add events, in the order in which they arrive."""
        if not self.complete:
            return
        for event in batch:
            self._add(event)
        if self._bytes > self._most:
            self.complete = False
            self._choices.clear()

    def events(self) -> tuple[Event, ...]:
        """Return what was collected, if it is complete."""
        head: tuple[Event | None, ...] = (self._started, self._early)
        found = [one for one in head if one is not None]
        for index in sorted(self._choices):
            found += [_joined(run) for run in self._choices[index]]
        if self._usage is not None:
            found.append(self._usage)
        return tuple(found)

    def _add(self, event: Event) -> None:
        self._bytes += _EVENT_BYTES
        match event:
            case Started():
                self._started = event
            case Usage():
                self._usage = event
                if not self._choices:
                    self._early = event
            case Logits():
                self.complete = False
            case _:
                self._bytes += len(
                    event.arguments if isinstance(event, ToolDelta) else _text(event)
                )
                runs = self._choices.setdefault(event.index, [])
                if runs and _continues(runs[-1][0], event):
                    runs[-1].append(event)
                else:
                    runs.append([event])


def _text(event: Event) -> str:
    return event.text if isinstance(event, TextDelta | RefusalDelta | ReasoningDelta) else ""


def _continues(first: Event, event: Event) -> bool:
    if type(first) is not type(event) or type(event) not in _TEXTS:
        return False
    if isinstance(first, ReasoningDelta) and isinstance(event, ReasoningDelta):
        return first.block == event.block
    if isinstance(first, ToolDelta) and isinstance(event, ToolDelta):
        return first.tool == event.tool
    return True


def _joined(run: Sequence[Event]) -> Event:
    """Return one event for consecutive pieces of one text."""
    first = run[0]
    if len(run) == 1:
        return first
    match first:
        case TextDelta() | RefusalDelta():
            return replace(
                first,
                text="".join([_text(one) for one in run]),
                logprobs=tuple(chain.from_iterable(_logprobs(one) for one in run)),
            )
        case ToolDelta():
            pieces = [one.arguments for one in run if isinstance(one, ToolDelta)]
            return replace(first, arguments="".join(pieces))
        case _:
            blocks = [one for one in run if isinstance(one, ReasoningDelta)]
            return replace(
                blocks[0],
                text="".join([one.text for one in blocks]),
                signature="".join([one.signature for one in blocks]),
                data="".join([one.data for one in blocks]),
                format=blocks[-1].format,
            )


def _logprobs(event: Event) -> tuple[TokenLogprob, ...]:
    return event.logprobs if isinstance(event, TextDelta | RefusalDelta) else ()
