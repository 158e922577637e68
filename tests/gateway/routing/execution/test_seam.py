"""At the seam of two backends nothing is repeated and nothing lost, whatever the text."""

from collections.abc import Sequence
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.routing.execution.continuation import Continuation
from strowger_gateway.gateway.routing.execution.seam import Seam
from strowger_gateway.gateway.routing.execution.shown_answer import ShownAnswer
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.local_engine.text.stop_strings import StopStrings
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta, Usage
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling

LETTERS = st.text(alphabet="ab \n猫é🐈", max_size=12)
STOPS = st.lists(st.text(alphabet="ab\n猫", min_size=1, max_size=4), max_size=3)


def record() -> RequestRecord:
    broken = AttemptRecord(backend="p/m", outcome="upstream_broken", continued=True, deltas=2)
    return RequestRecord(request_id="r", started=0.0, attempts=[broken])


def seam(shown: str, stops: Sequence[str], begun: str = "", trimmed: str = "") -> Seam:
    answer = ShownAnswer()
    answer.add([TextDelta(text=shown)])
    request = ChatRequest("m", (), Sampling(stop=tuple(stops)), stream=True)
    continued = Continuation(candidate=cast("Candidate", None), begun=begun, trimmed=trimmed)
    return Seam(request, answer, continued, record(), 0.0)


def pieces(text: str, sizes: Sequence[int]) -> list[str]:
    found: list[str] = []
    for size in sizes:
        found, text = [*found, text[:size]], text[size:]
    return [*found, text]


def joined(one: Seam, texts: Sequence[str], *, end: bool = True) -> tuple[str, bool]:
    """What the client gets of a continuation in these pieces, and whether it ended at a stop."""
    events: list[Event] = one.join([Started(id="other")])
    for text in texts:
        events += one.join([TextDelta(text=text)] if text else [])
    if end:
        events += one.join([Finished(reason="length")])
    assert not any(isinstance(event, Started) for event in events)
    ends = [event for event in events if isinstance(event, Finished)]
    assert len(ends) == 1
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    return text, ends[0].reason == "stop"


SIZES = st.lists(st.integers(0, 4), max_size=6)


@given(shown=LETTERS, rest=LETTERS, sizes=SIZES)
def test_a_continuation_is_passed_on_as_it_is(shown: str, rest: str, sizes: list[int]) -> None:
    assert joined(seam(shown, ()), pieces(rest, sizes)) == (rest, False)


@given(shown=LETTERS.filter(bool), rest=LETTERS, sizes=SIZES)
def test_a_repeated_beginning_is_not_shown_again(shown: str, rest: str, sizes: list[int]) -> None:
    one = seam(shown, (), begun=shown)

    assert joined(one, pieces(shown + rest, sizes)) == (rest, False)


@given(shown=LETTERS, rest=LETTERS, sizes=SIZES)
def test_white_space_that_was_not_sent_is_not_shown_twice(
    shown: str, rest: str, sizes: list[int]
) -> None:
    begun = shown.rstrip()
    one = seam(shown, (), trimmed=shown[len(begun) :])

    assert joined(one, pieces(shown[len(begun) :] + rest, sizes)) == (rest, False)


@given(shown=LETTERS.filter(bool), rest=LETTERS, sizes=SIZES)
def test_a_repeated_beginning_may_be_cut_anywhere_else(
    shown: str, rest: str, sizes: list[int]
) -> None:
    """A model that repeats nothing is not cut either, as long as its text is another."""
    other = "x" + rest

    assert joined(seam(shown, (), begun=shown), pieces(other, sizes)) == (other, False)


@given(whole=LETTERS, stops=STOPS, cut=st.integers(0, 12), sizes=SIZES)
def test_a_stop_string_across_the_seam_ends_the_answer(
    whole: str, stops: list[str], cut: int, sizes: list[int]
) -> None:
    """A backend that finds stop strings in its own text alone: the client sees none of their end.

    What it has already received of one's beginning cannot be taken back.
    """
    before, after = whole[:cut], whole[cut:]
    first = StopStrings(stops).feed(before)
    if first.match is not None:
        return
    second = StopStrings(stops)
    found = second.feed(after)
    sent = found.text + ("" if found.match is not None else second.close())

    text, stopped = joined(seam(before, stops), pieces(sent, sizes))

    spans = [
        stop
        for stop in stops
        for size in range(1, len(stop))
        if before.endswith(stop[:size]) and sent.startswith(stop[size:])
    ]
    assert (text, stopped) == (("", True) if spans else (sent, False))


@given(
    before=st.lists(st.integers(0, 9), min_size=1, max_size=3),
    prompt=st.integers(30, 50),
    completion=st.integers(0, 9),
)
def test_usage_is_that_of_all_attempts(before: list[int], prompt: int, completion: int) -> None:
    """Each prompt after the first has what the attempts before it produced."""
    one = seam("a", ())
    own = record()
    own.attempts = [
        AttemptRecord(backend="p/m", outcome="upstream_broken", continued=True, deltas=deltas)
        for deltas in before
    ]
    one = Seam(
        ChatRequest("m", (), stream=True),
        ShownAnswer(),
        Continuation(candidate=cast("Candidate", None)),
        own,
        0.0,
    )

    (usage,) = one.join([Usage(prompt_tokens=prompt, completion_tokens=completion)])

    assert isinstance(usage, Usage)
    prompts = [prompt - sum(before[place:]) for place in range(len(before))]
    assert usage.prompt_tokens == sum(prompts) + prompt
    assert usage.completion_tokens == sum(before) + completion
