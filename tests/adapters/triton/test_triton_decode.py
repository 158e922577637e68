"""Answers of Triton's text models decode to events."""

import json
from collections.abc import Sequence

import msgspec
import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.testing import translate
from strowger_gateway.adapters.triton.ensemble import TritonTextAdapter
from strowger_gateway.schemas.answers import Choice, Fold
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta, Usage
from strowger_gateway.schemas.requests import CompletionRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.traffic import fixture

TRITON = TritonTextAdapter(Endpoint(name="triton", base_url="http://gpu.test:8000"))


def asked(*, stream: bool = False, **sampling: object) -> CompletionRequest:
    return CompletionRequest(
        model="m",
        prompts=("Why?",),
        stream=stream,
        sampling=msgspec.structs.replace(Sampling(max_tokens=6), **sampling),
    )


def event(text: str | Sequence[str], model: str = "ensemble", **fields: object) -> bytes:
    body = {"model_name": model, "model_version": "1", "text_output": text, **fields}
    return f"data: {json.dumps(body)}\n\n".encode()


def streamed(*events: bytes, **sampling: object) -> list[Event]:
    return translate(TRITON, asked(stream=True, **sampling), events)


def choices(events: list[Event]) -> list[Choice]:
    fold = Fold()
    fold.add(events)
    return fold.answer().choices


def pieces(events: list[Event]) -> list[str]:
    return [one.text for one in events if isinstance(one, TextDelta)]


def finish(events: list[Event]) -> Finished:
    return next(one for one in events if isinstance(one, Finished))


def test_a_complete_answer_has_its_text_its_counts_and_an_inferred_reason() -> None:
    events = translate(TRITON, asked(), [fixture("triton/generate-counts").body])

    assert events == [
        Started(model="ensemble"),
        TextDelta(text=" Because of how air scatters light"),
        Finished(reason="length", native="inferred"),
        Usage(prompt_tokens=7, completion_tokens=6, total_tokens=13),
    ]


def test_an_answer_under_its_limit_has_ended() -> None:
    events = translate(TRITON, asked(max_tokens=7), [fixture("triton/generate-counts").body])

    assert finish(events) == Finished(reason="stop", native="inferred")


def test_a_stream_of_pieces_is_passed_on_piece_by_piece_and_its_counts_are_added() -> None:
    events = translate(TRITON, asked(stream=True), [fixture("triton/generate-stream").body])

    assert pieces(events) == [" Because", " of", " scattered", " li", "ght", "."]
    assert finish(events).reason == "length"
    assert events[-1] == Usage(prompt_tokens=7, completion_tokens=6, total_tokens=13)


def test_a_stream_that_repeats_its_text_is_detected_and_shown_once() -> None:
    events = translate(TRITON, asked(stream=True), [fixture("triton/generate-stream-growing").body])

    (choice,) = choices(events)
    assert choice.text == " Le café est bleu"
    assert "\ufffd" not in "".join(pieces(events))


def test_an_ensemble_never_repeats_its_text_even_if_it_looks_so() -> None:
    texts = [" a", " ab", " abc", " abcd"]

    assert pieces(streamed(*map(event, texts))) == texts
    assert "".join(pieces(streamed(*(event(one, "my_bls") for one in texts)))) == " abcd"


def test_a_server_that_does_not_count_does_not_report_a_length() -> None:
    events = translate(TRITON, asked(stream=True), [fixture("triton/generate-stream-old").body])

    assert finish(events) == Finished(reason="stop", native="inferred")
    assert events[-1] == Usage()


def test_an_error_inside_a_stream_is_the_backends_failure() -> None:
    with pytest.raises(UpstreamFailed, match=r"triton: Executor failed .* out of memory"):
        translate(TRITON, asked(stream=True), [fixture("triton/generate-stream-error").body])


def test_an_error_inside_a_complete_200_is_the_backends_failure() -> None:
    with pytest.raises(UpstreamFailed, match="exactly 1 response"):
        translate(TRITON, asked(), [fixture("triton/generate-error-responses").body])


def test_a_stop_string_that_the_server_returns_is_not_shown() -> None:
    events = streamed(event(" a b"), event(" EN"), event("D"), stop=("END",))

    assert "".join(pieces(events)) == " a b "
    assert finish(events) == Finished(reason="stop", stop_match="END")


def test_a_stop_string_that_the_server_overlooks_ends_the_answer() -> None:
    events = streamed(event(" one"), event(" two. th"), event("ree"), stop=(".", "three"))

    assert "".join(pieces(events)) == " one two"
    assert finish(events).stop_match == "."


def test_text_that_only_began_a_stop_string_is_shown_in_the_end() -> None:
    events = streamed(event(" a EN"), event("T"), event(" E"), stop=("END",))

    assert "".join(pieces(events)) == " a ENT E"
    assert finish(events).native == "inferred"


def test_several_answers_come_under_their_sequence_index() -> None:
    body = b"".join(
        event(f" {index}", sequence_index=index, num_output_tokens=6, num_input_tokens=4)
        for index in (1, 0)
    )

    events = translate(TRITON, asked(n=2), [body])

    assert [choice.text for choice in choices(events)] == [" 0", " 1"]
    assert events[-1] == Usage(prompt_tokens=4, completion_tokens=12, total_tokens=16)


def test_beams_come_in_one_answer_and_only_those_requested_are_shown() -> None:
    whole = event([" a", " b", " c"], num_output_tokens=12).removeprefix(b"data: ")

    events = translate(TRITON, asked(n=2, beam_width=3), [whole])

    assert [choice.text for choice in choices(events)] == [" a", " b"]
    assert {one.reason for one in events if isinstance(one, Finished)} == {"length"}


def test_beams_of_which_one_ended_early_are_not_reported_as_full() -> None:
    whole = event([" a", " b"], num_output_tokens=11).removeprefix(b"data: ")

    events = translate(TRITON, asked(n=2, beam_width=2), [whole])

    assert {one.reason for one in events if isinstance(one, Finished)} == {"stop"}


def test_fewer_answers_than_requested_are_an_error() -> None:
    with pytest.raises(UpstreamBroken, match="triton: 1 of 2 answers arrived"):
        translate(TRITON, asked(n=2), [event(" only one")])


@pytest.mark.parametrize("body", [b"", b": ping\n\n"])
def test_a_stream_without_any_event_is_an_error(body: bytes) -> None:
    with pytest.raises(UpstreamBroken, match="0 of 1 answers"):
        streamed(body)


@pytest.mark.parametrize("cut", [1, 9, 40, -1, -2])
def test_a_stream_that_ends_inside_a_frame_is_an_error(cut: int) -> None:
    body = event(" a") + event(" b")

    with pytest.raises(UpstreamBroken, match="inside a frame"):
        streamed(body[: len(event(" a")) + cut] if cut > 0 else body[:cut])


def test_an_empty_answer_is_an_answer() -> None:
    events = streamed(event("", num_output_tokens=0))

    assert choices(events)[0].text == ""
    assert finish(events).reason == "stop"
