"""Checks that an adapter decodes recorded answers completely and unchanged.

A check returns nothing and raises AssertionError with a sentence that says what is wrong.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import msgspec

from strowger_gateway.adapters.base import Adapter, Framing
from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.adapters.conformance.checks import TASKS
from strowger_gateway.adapters.conformance.recordings import Recording, request_for
from strowger_gateway.adapters.conformance.replay import framed, outcome, translate
from strowger_gateway.adapters.tasks.form import decode_task
from strowger_gateway.schemas.answers import Choice, Fold
from strowger_gateway.schemas.errors import (
    CallerError,
    GatewayError,
    UpstreamError,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import CONTENT, Event
from strowger_gateway.schemas.fields import TASK_TYPES, task_of
from strowger_gateway.schemas.requests import EmbeddingsRequest, GenerateRequest
from strowger_gateway.schemas.tasks.task import TaskRequest, Unsampled

SMALL = 1024
"""Size in bytes up to which a stream is cut at every byte."""

EDGE = 384
RANDOM_CUTS = 256

_LINE_END = ord("\n")

CALLERS = (400, 413, 422)
"""Statuses that may blame the request; any other blames the operator or the vendor."""


def cuts(length: int) -> Iterator[int]:
    """Yield places to cut a body at: all, or the edges and a seeded sample of the rest."""
    if length <= SMALL:
        yield from range(1, length)
        return
    yield from range(1, EDGE)
    yield from random.Random(length).sample(range(EDGE, length - EDGE), RANDOM_CUTS)
    yield from range(length - EDGE, length)


def check_cuts(adapter: Adapter, recording: Recording) -> None:
    """Check that frames and events do not depend on how the network splits a stream."""
    request = request_for(recording)
    assert not isinstance(request, Unsampled), f"{recording.name}: this does not stream"
    cut = _first_bad_cut(adapter.framing, recording.body)
    assert cut is None, f"{recording.name}: cut at byte {cut} the frames differ"
    single = [recording.body[place : place + 1] for place in range(len(recording.body))]
    assert outcome(adapter, request, single) == outcome(adapter, request, [recording.body]), (
        f"{recording.name}: byte by byte the events differ"
    )


@cache
def _first_bad_cut(framing: Framing, body: bytes) -> int | None:
    """Return a place where a cut changes the frames; the same for all adapters of a framing."""
    whole = framed(framing, [body])
    return next(
        (cut for cut in cuts(len(body)) if framed(framing, [body[:cut], body[cut:]]) != whole), None
    )


def check_truncation(adapter: Adapter, recording: Recording) -> None:
    """Check that a truncated body is an error, unless all content came before the cut.

    A dialect without an end mark declares that by its framing; there only a cut inside a frame
    (or before the first) is detectable, and the transport must detect all others.
    """
    request = request_for(recording)
    assert not isinstance(request, Unsampled), f"{recording.name}: this does not stream"
    if _is_error(adapter, recording, request):
        return
    whole = _content(translate(adapter, request, [recording.body]))
    unmarked = recording.streamed and adapter.framing == "sse-unmarked"
    for cut in _truncations(recording):
        if cut and unmarked and recording.body[:cut].endswith(b"\n\n"):
            continue
        try:
            events = translate(adapter, request, [recording.body[:cut]])
        except UpstreamError:
            continue
        problem = f"{recording.name}: cut at byte {cut} it is accepted as a complete answer"
        assert not unmarked, problem
        assert _content(events) == whole, problem


def check_whole(adapter: Adapter, recording: Recording) -> None:
    """Check that choices end and have content, and calls have id, name and an arguments object.

    For embeddings: one vector per input.
    """
    request = request_for(recording)
    if isinstance(request, EmbeddingsRequest):
        found, expected = (
            len(adapter.embeddings(request, recording.body).vectors),
            len(request.inputs),
        )
        assert found == expected, f"{recording.name}: {found} vectors for {expected} inputs"
        return
    if isinstance(request, TaskRequest):
        decode_task(adapter, request, recording.body)  # each checks its answer for completeness
        return
    if _is_error(adapter, recording, request):
        return
    fold = Fold()
    fold.add(translate(adapter, request, [recording.body]))
    choices = fold.answer().choices
    assert choices, f"{recording.name}: no choices"
    for choice in choices:
        _check_choice(f"{recording.name}: choice {choice.index}", choice)


def check_error_reported(adapter: Adapter, recording: Recording) -> None:
    """Check that a recorded error maps to the error tree and keeps the vendor's message."""
    error = adapter.error(recording.status, recording.headers, recording.body)
    assert isinstance(error, UpstreamError | UpstreamRejected), f"{recording.name}: {error!r}"
    assert error.message.removeprefix("contract: "), f"{recording.name}: the message is empty"
    where, kind = f"{recording.name}: {recording.status}", type(error).__name__
    if recording.status in CALLERS:
        fair = isinstance(error, CallerError | UpstreamRefused)
        assert fair, f"{where} is the caller's fault or the operator's, not {kind}"
    else:
        fair = not isinstance(error, CallerError)
        assert fair, f"{where} is not the caller's fault, but became {kind}"
    _check_expected(recording, error)


def check_recorded(adapter: Adapter, recorded: Sequence[Recording]) -> None:
    """Check that each offered task has at least one recorded answer.

    Those of `schemas/tasks` may share their forms with other vendors, whose recordings are enough.
    """
    answered = {
        task_of(request_for(recording)) for recording in recorded if recording.status == 200
    }
    shared = {kind.task for kind in TASK_TYPES}
    for task in TASKS:
        if task in shared:
            continue
        there = offered(adapter.supports, task) is None or task in answered
        assert there, f"{task} is offered, but has no recording"


def _check_choice(where: str, choice: Choice) -> None:
    finish = choice.finish
    assert finish is not None, f"{where} never finishes"
    shown = choice.text is not None or choice.tool_calls or choice.refusal or choice.opaque
    assert shown or finish.reason == "content_filter", f"{where} has no content"
    for call in choice.tool_calls:
        assert call.id, f"{where} calls {call.name!r} without an id"
        assert call.name, f"{where} calls a tool without a name"
        arguments: object = msgspec.json.decode(call.arguments)
        assert isinstance(arguments, dict), f"{where}: {call.arguments!r} is not a JSON object"


def _is_error(adapter: Adapter, recording: Recording, request: GenerateRequest) -> bool:
    """Return whether it is a failure inside a 200, marked by `error` in its folder's name."""
    try:
        translate(adapter, request, [recording.body])
    except GatewayError as exc:
        if "error" not in recording.name:
            raise AssertionError(
                f"{recording.name}: should be an answer (or have `error` in its name): {exc}"
            ) from exc
        _check_expected(recording, exc)
        return True
    return False


def _check_expected(recording: Recording, error: GatewayError) -> None:
    """Check an error against the file `error` of the recording, if there is one."""
    became = error_word(error)
    assert recording.error in ("", became), f"{recording.name}: {recording.error}, not {became}"


def error_word(error: GatewayError) -> str:
    """Return what a recording's file `error` says of an error: class, and what is refused."""
    kind = type(error).__name__
    return f"{kind} {error.about}" if isinstance(error, UpstreamRefused) else kind


def _content(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, CONTENT)]


def _truncations(recording: Recording) -> Iterator[int]:
    """Yield cuts after every line end, frame ends included, and a seeded sample of others."""
    length = len(recording.body)
    ends = {place + 1 for place in range(length - 1) if recording.body[place] == _LINE_END}
    chosen = random.Random(length).sample(range(length), min(length, 100))
    yield from sorted(ends.union(chosen))
