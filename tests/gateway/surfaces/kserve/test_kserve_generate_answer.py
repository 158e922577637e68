"""Answers of generate and generate_stream: one JSON object, or frames of them.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_generate.md
"""

import json
import math
from collections.abc import Sequence

import msgspec
import pytest

from strowger_gateway.gateway.surfaces.kserve.generate_render import GenerateRenderer
from strowger_gateway.gateway.surfaces.kserve.requests import (
    GenerateReply,
    GenerateTextRequest,
    GenerateTokensRequest,
)
from strowger_gateway.gateway.surfaces.kserve.tensors import float32
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamLost
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    Logits,
    Started,
    TextDelta,
    TokenLogprob,
    Tokens,
    Usage,
)

HEAD = {"model_name": "m", "model_version": "1"}
REPLY = GenerateReply()
ALL = GenerateReply(
    id="7",
    log_probs=True,
    num_input_tokens=True,
    num_output_tokens=True,
    finish_reason=True,
)


def logprob(value: float) -> TokenLogprob:
    return TokenLogprob(token="t", logprob=value)


TEXT_EVENTS: list[Event] = [
    Started(id="x", model="other"),
    TextDelta(text="Hel", logprobs=(logprob(-0.5),)),
    TextDelta(text="lo", logprobs=(logprob(-0.25), logprob(-0.25))),
    Finished(reason="stop"),
    Usage(prompt_tokens=4, completion_tokens=3),
]
TOKEN_EVENTS: list[Event] = [
    Started(),
    Tokens(ids=(5,), text="a", logprobs=(logprob(-0.5),)),
    Tokens(ids=(6, 7), text="bc", logprobs=(logprob(-0.25), logprob(-0.25))),
    Finished(reason="length"),
    Usage(prompt_tokens=2, completion_tokens=3),
]


def text(reply: GenerateReply) -> GenerateRenderer:
    return GenerateRenderer(GenerateTextRequest(model="m", prompts=("p",), reply=reply))


def tokens(reply: GenerateReply) -> GenerateRenderer:
    return GenerateRenderer(GenerateTokensRequest(model="m", tokens=(1, 2), reply=reply))


def whole(renderer: GenerateRenderer, events: Sequence[Event]) -> dict[str, object]:
    fold = Fold()
    fold.add(events)
    return json.loads(renderer.answer(fold.answer()))


def streamed(renderer: GenerateRenderer, events: Sequence[Event]) -> list[dict[str, object]]:
    data = b"".join(renderer.events([event]) for event in events) + renderer.finish()
    frames = data.decode().split("\n\n")
    assert frames.pop() == ""
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def test_text_is_one_object() -> None:
    assert whole(text(REPLY), TEXT_EVENTS) == {**HEAD, "text_output": "Hello"}


def test_requested_outputs_come_with_the_text() -> None:
    assert whole(text(ALL), TEXT_EVENTS) == {
        **HEAD,
        "id": "7",
        "text_output": "Hello",
        "output_log_probs": [-0.5, -0.25, -0.25],
        "cum_log_probs": -1.0,
        "num_input_tokens": 4,
        "num_output_tokens": 3,
        "finish_reason": "stop",
    }


def test_tokens_are_flat_tensors_and_one_element_is_itself() -> None:
    assert whole(tokens(ALL), TOKEN_EVENTS) == {
        **HEAD,
        "id": "7",
        "text_output": "abc",
        "output_ids": [5, 6, 7],
        "sequence_length": 3,
        "output_log_probs": [-0.5, -0.25, -0.25],
        "cum_log_probs": -1.0,
        "num_input_tokens": 2,
        "num_output_tokens": 3,
        "finish_reason": "length",
    }


def test_a_backend_of_only_tokens_has_no_text_and_none_is_shown() -> None:
    events: list[Event] = [Tokens(ids=(5, 6)), Finished(reason="length")]

    whole_answer = whole(tokens(REPLY), events)
    frames = streamed(tokens(msgspec.structs.replace(REPLY, pieces=True)), events)

    assert whole_answer == {**HEAD, "output_ids": [5, 6], "sequence_length": 2}
    assert frames == [{**HEAD, "output_ids": id, "sequence_length": 1} for id in (5, 6)]


def test_several_beams_are_lists() -> None:
    events: list[Event] = [
        Tokens(ids=(5, 6), text="ab"),
        Tokens(ids=(9,), text="z", index=1),
        Finished(reason="length"),
        Finished(reason="stop", index=1),
    ]

    found = whole(tokens(msgspec.structs.replace(REPLY, pad=3, finish_reason=True)), events)

    assert found == {
        **HEAD,
        "text_output": ["ab", "z"],
        "output_ids": [5, 6, 9, 3],
        "sequence_length": [2, 1],
        "finish_reason": ["length", "stop"],
    }


def test_a_stream_without_pieces_is_one_frame_with_the_whole_answer() -> None:
    assert streamed(text(ALL), TEXT_EVENTS) == [whole(text(ALL), TEXT_EVENTS)]
    assert streamed(tokens(ALL), TOKEN_EVENTS) == [whole(tokens(ALL), TOKEN_EVENTS)]


def test_sequences_without_pieces_are_a_frame_each() -> None:
    several = msgspec.structs.replace(REPLY, sequences=True)
    events: list[Event] = [
        TextDelta(text="b", index=1),
        TextDelta(text="a"),
        Finished(reason="stop", index=1),
        Finished(reason="stop"),
    ]

    assert streamed(text(several), events) == [
        {**HEAD, "sequence_index": 0, "text_output": "a"},
        {**HEAD, "sequence_index": 1, "text_output": "b"},
    ]


def test_pieces_of_text_are_frames_and_the_counts_come_last() -> None:
    frames = streamed(text(msgspec.structs.replace(ALL, pieces=True)), TEXT_EVENTS)

    head = {**HEAD, "id": "7"}
    assert frames == [
        {**head, "text_output": "Hel", "output_log_probs": -0.5, "cum_log_probs": -0.5},
        {**head, "text_output": "lo", "output_log_probs": [-0.25, -0.25], "cum_log_probs": -1.0},
        {**head, "text_output": "", "finish_reason": "stop"},
        {**head, "text_output": "", "num_input_tokens": 4, "num_output_tokens": 3},
    ]


def test_tokens_stream_one_by_one() -> None:
    """The seed: "When streaming is enabled, this is a single token." and "this will be 1"."""
    reply = msgspec.structs.replace(REPLY, pieces=True, log_probs=True)

    frames = streamed(tokens(reply), TOKEN_EVENTS)

    assert [frame["output_ids"] for frame in frames] == [5, 6, 7]
    assert [frame["sequence_length"] for frame in frames] == [1, 1, 1]
    assert [frame.get("text_output") for frame in frames] == ["a", None, "bc"]
    sums = [frame["cum_log_probs"] for frame in frames]
    assert sums == [-0.5, -0.75, -1.0]


def test_logits_of_a_stream_are_separate_frames() -> None:
    reply = msgspec.structs.replace(REPLY, pieces=True)
    events: list[Event] = [
        Logits(of="context", tensor=float32((1, 2), (0.5, 1.5))),
        Tokens(ids=(5,), text="a"),
        Logits(of="generation", tensor=float32((1, 1), (2.5,))),
        Finished(reason="length"),
    ]

    frames = streamed(tokens(reply), events)

    assert frames == [
        {**HEAD, "context_logits": [0.5, 1.5]},
        {**HEAD, "text_output": "a", "output_ids": 5, "sequence_length": 1},
        {**HEAD, "generation_logits": 2.5},
    ]


def test_an_answer_without_any_text_is_still_a_frame() -> None:
    reply = msgspec.structs.replace(REPLY, pieces=True)

    assert streamed(text(reply), [Started(), Finished(reason="stop")]) == [
        {**HEAD, "text_output": ""}
    ]


def test_a_failure_after_output_is_an_error_frame() -> None:
    renderer = text(msgspec.structs.replace(REPLY, pieces=True))
    renderer.events(TEXT_EVENTS[:2])

    last = renderer.error(UpstreamLost("it died", upstream="here"))

    assert last == b'data: {"error":"here: it died"}\n\n'


def test_a_backend_that_omits_what_was_requested_is_an_error() -> None:
    bare: list[Event] = [Tokens(ids=(5,), text="a"), Finished(reason="stop")]
    plain: list[Event] = [TextDelta(text="a"), Finished(reason="stop")]

    with pytest.raises(UpstreamBroken, match="lacks the requested output_log_probs"):
        whole(tokens(ALL), bare)
    with pytest.raises(UpstreamBroken, match="lacks the requested num_input_tokens"):
        whole(text(ALL), plain)


def test_sums_that_a_backend_reports_are_taken_from_it() -> None:
    events: list[Event] = [
        TextDelta(text="a", logprobs=(logprob(-0.5),)),
        Finished(reason="stop", cum_logprob=-2.0),
    ]

    found = whole(text(msgspec.structs.replace(REPLY, log_probs=True)), events)

    assert found["cum_log_probs"] == -2.0
    assert math.isclose(float(str(found["output_log_probs"])), -0.5)
