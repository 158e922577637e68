"""What is kept of an answer, as bytes.

`Recording` collects the events of a stream in a form that does not show how it was cut. Each kind
of answer has a function that makes bytes of it, and `Entry` gives it back.
"""

import time
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.routing.request_record import RequestRecord, counts_of
from strowger_gateway.schemas.answers import Answer, Choice, Embeddings
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    FinishReason,
    Logits,
    NativeDelta,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    TokenLogprob,
    Tokens,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.fields import TASK_TYPES, Task
from strowger_gateway.schemas.plain_answer import PlainAnswer
from strowger_gateway.schemas.tasks.task import TaskAnswer

COMPLETE: Final[frozenset[FinishReason]] = frozenset(
    {"stop", "length", "tool_calls", "function_call"}
)
"""How an answer that is kept has ended: not by a vendor's filter."""

_EVENT_BYTES: Final = 64
"""Estimated size of an event without its text."""

_TEXTS: Final = (TextDelta, RefusalDelta, ReasoningDelta, ToolDelta)
"""Events that are a piece of a text."""


class _Native(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="native", gc=False):
    """A NativeDelta as it is kept: msgspec decodes no `Raw | None`."""

    index: int = 0
    block: Raw | UnsetType = UNSET
    delta: Raw | UnsetType = UNSET


_Event = (
    Started
    | TextDelta
    | ReasoningDelta
    | RefusalDelta
    | ToolDelta
    | OpaqueDelta
    | _Native
    | Tokens
    | Finished
)


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One of stream, whole, plain, vectors and task is set: events, a whole answer, embeddings, or
    the answer to a task of `schemas/tasks`.

    at: when it was made, in Unix seconds. backend: which made it.
    counts: the answer's, which is without. raw: of them. early: counts that a stream begins with.
    dropped, defaulted, repaired: fields of the request, as the client was shown them.
    """

    at: float
    backend: str
    stream: tuple[_Event, ...] | None = None
    whole: Answer | None = None
    plain: PlainAnswer | None = None
    vectors: Embeddings | None = None
    task: Raw | UnsetType = UNSET
    counts: Usage | None = None
    raw: Raw | UnsetType = UNSET
    early: Usage | None = None
    dropped: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()

    @property
    def usage(self) -> Usage | None:
        """What the answer's backend counted, with the vendor's own object."""
        if self.counts is None or self.raw is UNSET:
            return self.counts
        return replace(self.counts, raw=self.raw)

    @property
    def age_s(self) -> float:
        return max(0.0, time.time() - self.at)

    def events(self) -> list[Event]:
        """The stream, with the counts at its end."""
        found = [_event(one) for one in self.stream or ()]
        if self.early is not None:
            found.insert(0, self.early)
        usage = self.usage
        return found if usage is None else [*found, usage]

    def chat(self) -> Answer | PlainAnswer | None:
        """A whole answer, plain if it was kept as such."""
        if self.plain is None:
            return self.answer()
        return replace(self.plain, usage=self.usage)

    def answer(self) -> Answer | None:
        if self.plain is not None:
            return as_answer(replace(self.plain, usage=self.usage))
        return None if self.whole is None else replace(self.whole, usage=self.usage)

    def embeddings(self) -> Embeddings | None:
        if self.vectors is None:
            return None
        return replace(self.vectors, usage=self.usage or Usage())

    def answer_to(self, task: Task) -> TaskAnswer | None:
        """The answer to a request of this task; `None` if it is none."""
        kind = _TASK_ANSWERS.get(task)
        if kind is None or self.task is UNSET:
            return None
        return replace(kind.decode(self.task), usage=self.usage or Usage())


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Entry)
_TASK_ANSWERS: Final[Mapping[Task, msgspec.json.Decoder[TaskAnswer]]] = {
    kind.task: msgspec.json.Decoder(kind.ANSWER) for kind in TASK_TYPES
}


def entry_of_answer(answer: Answer, record: RequestRecord) -> bytes | None:
    """Return the bytes of a whole answer; `None` if it is not kept."""
    finished = [choice.finish for choice in answer.choices]
    if not finished or any(one is None or one.reason not in COMPLETE for one in finished):
        return None
    return _encoded(record, answer.usage, whole=replace(answer, usage=None))


def entry_of_plain(answer: PlainAnswer, record: RequestRecord) -> bytes | None:
    """Return the bytes of a plain answer; `None` if it is not kept."""
    return _encoded(record, answer.usage, plain=replace(answer, usage=None))


def entry_of_events(events: tuple[Event, ...], record: RequestRecord) -> bytes | None:
    """Return the bytes of a stream that has ended; `None` if it is not kept."""
    choices = {one.index for one in events if not isinstance(one, Started | Usage)}
    finished = {one.index for one in events if type(one) is Finished and one.reason in COMPLETE}
    if not finished or choices != finished:
        return None
    counts = [one for one in events if type(one) is Usage]
    stream = tuple([_kept(one) for one in events if type(one) is not Usage])
    early = None if len(counts) < 2 else replace(counts[0], raw=None)
    return _encoded(record, counts[-1] if counts else None, stream=stream, early=early)


def entry_of_vectors(vectors: Embeddings, record: RequestRecord) -> bytes | None:
    """Return the bytes of embeddings; `None` if they are not kept."""
    return _encoded(record, vectors.usage, vectors=replace(vectors, usage=Usage()))


def entry_of_task(answer: TaskAnswer, record: RequestRecord) -> bytes | None:
    """Return the bytes of an answer to a task; `None` if it is not kept."""
    said = Raw(_encoder.encode(replace(answer, usage=Usage())))
    return _encoded(record, answer.usage, task=said)


def decoded(data: bytes) -> Entry | None:
    """Return an entry; `None` if it cannot be read, as one with a number that is not finite."""
    try:
        return _decoder.decode(data)
    except ValueError:  # msgspec's errors are, too
        return None


def as_answer(plain: PlainAnswer) -> Answer:
    """Return what the events of the same answer would add up to."""
    extra: dict[str, Raw] = {}
    if plain.system_fingerprint is not None:
        extra["system_fingerprint"] = Raw(msgspec.json.encode(plain.system_fingerprint))
    if plain.service_tier is not None:
        extra["service_tier"] = Raw(msgspec.json.encode(plain.service_tier))
    choice = Choice(
        index=0,
        text=plain.text,
        opaque={"annotations": Raw(b"[]")} if plain.annotated else {},
        finish=Finished(reason=plain.finish, stop_match=plain.stop_match, seed=plain.seed),
    )
    started = Started(model=plain.model, extra=extra)
    return Answer(started=started, choices=[choice], usage=plain.usage)


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


def _encoded(
    record: RequestRecord,
    usage: Usage | None,
    *,
    stream: tuple[_Event, ...] | None = None,
    early: Usage | None = None,
    whole: Answer | None = None,
    plain: PlainAnswer | None = None,
    vectors: Embeddings | None = None,
    task: Raw | UnsetType = UNSET,
) -> bytes | None:
    if record.error:
        return None
    for attempt in record.attempts:
        if attempt.continued:
            return None
    entry = Entry(
        at=time.time(),
        backend=record.backend,
        stream=stream,
        early=early,
        whole=whole,
        plain=plain,
        vectors=vectors,
        task=task,
        counts=counts_of(usage),
        raw=UNSET if usage is None or usage.raw is None else usage.raw,
        dropped=record.dropped,
        defaulted=record.defaulted,
        repaired=record.repaired,
    )
    try:
        return _encoder.encode(entry)
    except UnicodeEncodeError:
        return None  # a lone surrogate in a text


def _kept(event: Event) -> _Event:
    if type(event) is not NativeDelta:
        return cast("_Event", event)  # a recording has no logits, and counts are apart
    return _Native(
        index=event.index,
        block=UNSET if event.block is None else event.block,
        delta=UNSET if event.delta is None else event.delta,
    )


def _event(kept: _Event) -> Event:
    if type(kept) is not _Native:
        return cast("Event", kept)
    return NativeDelta(
        index=kept.index,
        block=None if kept.block is UNSET else kept.block,
        delta=None if kept.delta is UNSET else kept.delta,
    )


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
