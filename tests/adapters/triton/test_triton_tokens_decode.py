"""Answers of Triton's raw-tensor models decode to tokens, scores, logits and an end."""

import json
import random
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.testing import translate
from strowger_gateway.adapters.triton.open_inference_protocol import Output, json_end
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    Logits,
    Started,
    TokenLogprob,
    Tokens,
    Usage,
)
from strowger_gateway.schemas.requests import TokenRequest
from tests.adapters.traffic import fixture
from tests.adapters.triton.triton_doubles import GENERATE, INFER, asking, float32, with_fields


def streaming(**sampling: object) -> TokenRequest:
    return with_fields(asking(**sampling), stream=True)


def event(ids: int | Sequence[int], lengths: int | Sequence[int] = 1, **fields: object) -> bytes:
    body = {"model_name": "m", "output_ids": ids, "sequence_length": lengths, **fields}
    return f"data: {json.dumps(body)}\n\n".encode()


def answer(*outputs: dict[str, object], tail: bytes = b"") -> bytes:
    return json.dumps({"model_name": "m", "outputs": outputs}).encode() + tail


def output(name: str, shape: Sequence[int], data: Sequence[float]) -> dict[str, object]:
    kind = "FP32" if "prob" in name or "logits" in name else "INT32"
    return {"name": name, "datatype": kind, "shape": shape, "data": data}


def in_bytes(name: str, datatype: str, shape: Sequence[int], size: int) -> dict[str, object]:
    parameters = {"binary_data_size": size}
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": parameters}


def ids_of(events: list[Event], index: int = 0) -> list[int]:
    found = [one for one in events if isinstance(one, Tokens) and one.index == index]
    return [token for one in found for token in one.ids]


def finish(events: list[Event]) -> Finished:
    return next(one for one in events if isinstance(one, Finished))


def test_a_complete_answer_has_its_tokens_without_the_padding() -> None:
    events = translate(INFER, asking(), [fixture("triton/infer-json").body])

    assert events == [
        Started(model="tensorrt_llm"),
        Tokens(ids=(11, 12, 13, 14)),
        Finished(reason="stop", native="inferred"),
        Usage(prompt_tokens=3, completion_tokens=4, total_tokens=7),
    ]


def test_beams_are_choices_with_their_own_scores() -> None:
    request = asking(n=2, beam_width=2, logprobs=True)

    events = translate(INFER, request, [fixture("triton/infer-scores").body])

    assert events[1] == Tokens(
        ids=(11, 12, 13),
        logprobs=tuple(TokenLogprob(token="", id=one, logprob=-0.5) for one in (11, 12, 13)),
    )
    assert ids_of(events, 1) == [21, 22]
    assert [one.cum_logprob for one in events if isinstance(one, Finished)] == [-1.5, -2.25]


def test_a_beam_more_than_requested_is_not_shown() -> None:
    events = translate(INFER, asking(beam_width=2), [fixture("triton/infer-scores").body])

    assert not ids_of(events, 1)
    assert events[-1] == Usage(prompt_tokens=3, completion_tokens=3, total_tokens=6)


def test_logits_are_float32_for_every_type_of_the_server() -> None:
    request = with_fields(asking(), return_context_logits=True, return_generation_logits=True)

    events = translate(INFER, request, [fixture("triton/infer-logits").body])

    context, generation = (one for one in events if isinstance(one, Logits))
    assert context.tensor == float32((3, 4), range(12))
    assert generation.tensor == float32((2, 4), [one / 2 for one in range(8)])
    assert (context.of, generation.of) == ("context", "generation")


def test_bfloat16_is_widened_exactly() -> None:
    halves = struct.pack("<4f", 1.0, -2.5, 0.0, 3.140625)
    data = b"".join(halves[place + 2 : place + 4] for place in range(0, 16, 4))

    assert Output(datatype="BF16", shape=(4,), data=data).float32() == halves
    assert Output(datatype="BF16", shape=(4,), data=data).numbers() == [1.0, -2.5, 0.0, 3.140625]


def test_generation_logits_of_a_shorter_beam_end_with_it() -> None:
    values = [float(one) for one in range(8)]
    body = answer(
        output("output_ids", [1, 2, 2], [8, 9, 5, -1]),
        output("sequence_length", [1, 2], [2, 1]),
        output("generation_logits", [1, 2, 2, 2], values),
    )

    events = translate(INFER, asking(n=2, beam_width=2), [body])

    tensors = [one.tensor for one in events if isinstance(one, Logits)]
    assert tensors == [float32((2, 2), values[:4]), float32((1, 2), values[4:6])]


def test_a_stream_has_one_token_an_event_and_ends_by_counting() -> None:
    body = fixture("triton/tokens-stream").body

    events = translate(GENERATE, streaming(max_tokens=3), [body])

    assert [one.ids for one in events if isinstance(one, Tokens)] == [(11,), (12,), (13,)]
    assert finish(events) == Finished(reason="length", native="inferred")


def test_scores_in_a_stream_belong_to_their_tokens() -> None:
    events = translate(
        GENERATE,
        streaming(logprobs=True),
        [
            event(4, output_log_probs=-0.5, cum_log_probs=-0.5),
            event([5, 6], 2, output_log_probs=[-0.25, -1.0], cum_log_probs=-1.75),
        ],
    )

    scored = [score for one in events if isinstance(one, Tokens) for score in one.logprobs]
    assert [(one.id, one.logprob) for one in scored] == [(4, -0.5), (5, -0.25), (6, -1.0)]
    assert finish(events).cum_logprob == -1.75


def test_scores_that_were_not_requested_are_not_shown() -> None:
    events = translate(GENERATE, streaming(), [event(4, output_log_probs=0.0, cum_log_probs=0.0)])

    assert events[1] == Tokens(ids=(4,))
    assert finish(events).cum_logprob is None


FULL = Finished(reason="length", native="inferred")


@pytest.mark.parametrize(
    ("sampling", "wanted"),
    [
        ({"max_tokens": 3}, FULL),
        ({"max_tokens": 4}, Finished(reason="stop", native="inferred")),
        ({"max_tokens": 3, "end_id": 3}, Finished(reason="stop", stop_match=3)),
        ({"stop_token_ids": (3,)}, Finished(reason="stop", stop_match=3)),
        ({"stop_words": ((2, 3),), "max_tokens": 3}, Finished(reason="stop")),
        ({"stop_words": ((1, 2),), "max_tokens": 3}, FULL),
        ({"end_id": 3, "ignore_eos": True, "max_tokens": 3}, FULL),
    ],
)
def test_the_end_is_read_off_the_last_tokens_and_the_length(
    sampling: dict[str, object], wanted: Finished
) -> None:
    events = translate(GENERATE, streaming(**sampling), [event(token) for token in (1, 2, 3)])

    assert finish(events) == wanted


def test_a_prompt_that_an_old_server_puts_first_is_removed() -> None:
    body = event([5, 6, 7, 8, 9], 5).removeprefix(b"data: ")

    events = translate(GENERATE, asking(max_tokens=2), [body])

    assert ids_of(events) == [8, 9]


def test_an_answer_that_begins_like_its_prompt_is_kept() -> None:
    within = event([5, 6, 7, 8], 4).removeprefix(b"data: ")

    assert ids_of(translate(GENERATE, asking(max_tokens=4), [within])) == [5, 6, 7, 8]
    later = [event(1), event([5, 6, 7, 8], 4)]
    assert ids_of(translate(GENERATE, streaming(max_tokens=3), later)) == [1, 5, 6, 7, 8]


@pytest.mark.parametrize(("ids", "length"), [([8, 9, -1, -1], 4), ([8, 9, 0, 0], 2)])
def test_padding_is_recognised_by_its_value_and_by_the_length(ids: list[int], length: int) -> None:
    body = answer(output("output_ids", [1, 1, 4], ids), output("sequence_length", [1, 1], [length]))

    assert ids_of(translate(INFER, asking(), [body])) == [8, 9]


def test_several_answers_come_under_their_sequence_index() -> None:
    body = event([1, 2], 2, sequence_index=1) + event([3], 1, sequence_index=0)

    events = translate(GENERATE, asking(n=2), [body])

    assert (ids_of(events, 0), ids_of(events, 1)) == ([3], [1, 2])
    assert [one.index for one in events if isinstance(one, Finished)] == [0, 1]


def test_an_answer_without_tokens_is_an_answer() -> None:
    events = translate(GENERATE, streaming(), [event([], 0)])

    assert ids_of(events) == []
    assert finish(events).reason == "stop"


@pytest.mark.parametrize("name", ["tokens-stream-error", "infer-error"])
def test_an_error_inside_a_200_is_the_backends_failure(name: str) -> None:
    adapter, request = (GENERATE, streaming()) if "stream" in name else (INFER, asking())

    with pytest.raises(UpstreamFailed, match="triton: Executor failed"):
        translate(adapter, request, [fixture(f"triton/{name}").body])


ONE_TOKEN = output("output_ids", [1, 1, 1], [1])


@pytest.mark.parametrize(
    "body",
    [
        answer(output("sequence_length", [1, 1], [1])),
        answer(output("output_ids", [1, 2, 1], [1, 2, 3]), output("sequence_length", [2], [1, 1])),
        answer({"name": "output_ids", "datatype": "INT32", "shape": [1, 1, 1]}),
        answer({**output("output_ids", [1, 1, 2], [1, 2**31]), "datatype": "INT64"}),
        answer(in_bytes("output_ids", "INT7", [1], 4), tail=bytes(4)),
        answer(in_bytes("output_ids", "INT32", [1], 3), tail=bytes(3)),
        answer(in_bytes("output_ids", "INT32", [1], 8), tail=bytes(4)),
        answer(ONE_TOKEN, output("context_logits", [7], [1.0])),
        answer(ONE_TOKEN, output("context_logits", [1, 2, 2], [1.0])),
    ],
)
def test_tensors_that_do_not_fit_together_are_not_an_answer(body: bytes) -> None:
    with pytest.raises(UpstreamBroken, match="triton: "):
        translate(INFER, asking(), [body])


def test_fewer_answers_than_requested_are_an_error() -> None:
    with pytest.raises(UpstreamBroken, match="1 of 2 answers arrived"):
        translate(GENERATE, asking(n=2), [event(1)])


@given(st.dictionaries(st.text(), st.text(), max_size=3), st.binary(max_size=40), st.booleans())
def test_the_json_ends_where_its_object_ends_before_any_bytes(
    fields: dict[str, str], tail: bytes, plain: bool
) -> None:
    head = json.dumps({"a": [fields, 1]}, ensure_ascii=plain).encode()

    assert json_end(head + tail) == len(head)


def test_bytes_in_the_wild_never_pass_for_an_answer() -> None:
    whole = fixture("triton/infer-logits").body
    places = random.Random(7)

    for _ in range(300):
        broken = bytearray(whole)
        broken[places.randrange(len(whole) - 60)] = places.randrange(256)
        try:
            events = translate(INFER, asking(), [bytes(broken)])
        except (UpstreamBroken, UpstreamFailed):
            continue
        assert any(isinstance(one, Finished) for one in events)


def test_a_tensor_of_tokens_may_come_as_bytes() -> None:
    body = answer(in_bytes("output_ids", "INT32", [1, 1, 2], 8), tail=struct.pack("<2i", 7, 125))

    assert ids_of(translate(INFER, asking(), [body])) == [7, 125]
