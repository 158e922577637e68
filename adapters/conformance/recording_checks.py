"""What every adapter keeps of the answers that were recorded: none is cut short, lost or changed.

A check returns nothing and raises AssertionError with a sentence that says what is wrong.
"""

import random
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from adapters.base import Adapter
from adapters.capabilities import offered
from adapters.conformance.checks import TASKS
from adapters.conformance.recordings import Case, request_for
from adapters.conformance.replay import frames, outcome, translate
from schemas.answers import Choice, Fold
from schemas.errors import (
    CallerError,
    GatewayError,
    UpstreamError,
    UpstreamRefused,
    UpstreamRejected,
)
from schemas.events import CONTENT, Event
from schemas.fields import task_of
from schemas.requests import EmbeddingsRequest, GenerateRequest

SMALL = 8 * 1024
"""Bytes up to which a stream is cut at every place."""

EDGE = 2 * 1024
RANDOM_CUTS = 500

_LINE_END = ord("\n")

CALLERS = (400, 413, 422)
"""Statuses that may blame the request; any other blames the operator or the vendor."""


def cuts(length: int) -> Iterator[int]:
    """Places to cut a body at: all of them, or the edges and a seeded choice of the rest."""
    if length <= SMALL:
        yield from range(1, length)
        return
    yield from range(1, EDGE)
    yield from random.Random(length).sample(range(EDGE, length - EDGE), RANDOM_CUTS)
    yield from range(length - EDGE, length)


def check_cuts(adapter: Adapter, case: Case) -> None:
    """However the network cuts a stream, the frames stay the same, and so do the events."""
    whole, request = frames(adapter, [case.body]), request_for(case)
    assert not isinstance(request, EmbeddingsRequest), f"{case.name}: embeddings do not stream"
    for cut in cuts(len(case.body)):
        halves = frames(adapter, [case.body[:cut], case.body[cut:]])
        assert halves == whole, f"{case.name}: cut at byte {cut} the frames differ"
    single = [case.body[place : place + 1] for place in range(len(case.body))]
    assert outcome(adapter, request, single) == outcome(adapter, request, [case.body]), (
        f"{case.name}: byte by byte the events differ"
    )


def check_truncation(adapter: Adapter, case: Case) -> None:
    """A body cut short is an error, unless nothing that a client is shown came after the cut.

    A dialect without an end mark declares that by its framing; there only a cut inside a frame
    (or before the first) shows, and the transport must notice all others.
    """
    request = request_for(case)
    assert not isinstance(request, EmbeddingsRequest), f"{case.name}: embeddings do not stream"
    if _tells_error(adapter, case, request):
        return
    whole = _content(translate(adapter, request, [case.body]))
    unmarked = case.streamed and adapter.framing == "sse-unmarked"
    for cut in _truncations(case):
        if cut and unmarked and case.body[:cut].endswith(b"\n\n"):
            continue
        try:
            events = translate(adapter, request, [case.body[:cut]])
        except UpstreamError:
            continue
        problem = f"{case.name}: cut short at byte {cut} it passes for a whole answer"
        assert not unmarked, problem
        assert _content(events) == whole, problem


def check_whole(adapter: Adapter, case: Case) -> None:
    """Every choice ends and shows something; calls have an id, a name and an object of arguments.

    Of embeddings: one vector an input.
    """
    request = request_for(case)
    if isinstance(request, EmbeddingsRequest):
        found, wanted = len(adapter.embeddings(request, case.body).vectors), len(request.inputs)
        assert found == wanted, f"{case.name}: {found} vectors for {wanted} inputs"
        return
    if _tells_error(adapter, case, request):
        return
    fold = Fold()
    fold.add(translate(adapter, request, [case.body]))
    choices = fold.answer().choices
    assert choices, f"{case.name}: no choice at all"
    for choice in choices:
        _check_choice(f"{case.name}: choice {choice.index}", choice)


def check_told(adapter: Adapter, case: Case) -> None:
    """A recorded error lands in the tree with the vendor's own words in its message."""
    error = adapter.error(case.status, case.headers, case.body)
    assert isinstance(error, UpstreamError | UpstreamRejected), f"{case.name}: {error!r}"
    assert error.message.removeprefix("contract: "), f"{case.name}: the message is empty"
    kind = type(error).__name__
    if case.status in CALLERS:
        fair = isinstance(error, CallerError | UpstreamRefused)
        assert fair, (
            f"{case.name}: {case.status} is the caller's fault or the operator's, not {kind}"
        )
    else:
        fair = not isinstance(error, CallerError)
        assert fair, f"{case.name}: {case.status} is not the caller's fault, but became {kind}"


def check_recorded(adapter: Adapter, recorded: Sequence[Case]) -> None:
    """Each task that the adapter offers was answered once at least."""
    answered = {task_of(request_for(case)) for case in recorded if case.status == 200}
    for task in TASKS:
        there = offered(adapter.supports, task) is None or task in answered
        assert there, f"{task} is offered, and no recording answers it"


def _check_choice(where: str, choice: Choice) -> None:
    finish = choice.finish
    assert finish is not None, f"{where} never finishes"
    shown = choice.text is not None or choice.tool_calls or choice.refusal or choice.opaque
    assert shown or finish.reason == "content_filter", f"{where} shows nothing"
    for call in choice.tool_calls:
        assert call.id, f"{where} calls {call.name!r} without an id"
        assert call.name, f"{where} calls a tool without a name"
        arguments: object = msgspec.json.decode(call.arguments)
        assert isinstance(arguments, dict), f"{where}: {call.arguments!r} is no JSON object"


def _tells_error(adapter: Adapter, case: Case, request: GenerateRequest) -> bool:
    """A failure inside a 200: its folder's name has the word `error`."""
    try:
        translate(adapter, request, [case.body])
    except GatewayError as exc:
        if "error" not in case.name:
            raise AssertionError(
                f"{case.name}: should be an answer (or have `error` in its name): {exc}"
            ) from exc
        return True
    return False


def _content(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, CONTENT)]


def _truncations(case: Case) -> Iterator[int]:
    """Behind every line end, frame ends among them, and a seeded choice of other places."""
    length = len(case.body)
    ends = {place + 1 for place in range(length - 1) if case.body[place] == _LINE_END}
    chosen = random.Random(length).sample(range(length), min(length, 100))
    yield from sorted(ends.union(chosen))
