"""Frames between worker and engine: complete for any chunks, and errors keep their type."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.local_engine.protocol.frames import (
    KINDS,
    MAX_FRAME_BYTES,
    Batch,
    BrokenFrame,
    Cancel,
    Deltas,
    FrameReader,
    ToWorker,
    decode_request,
    encode_request,
    failed,
    frame,
    raised,
)
from strowger_gateway.schemas.errors import (
    DeadlineExceeded,
    Forbidden,
    GatewayError,
    InvalidRequest,
    UpstreamBusy,
    UpstreamError,
)
from strowger_gateway.schemas.events import Finished, Started, TextDelta, TokenLogprob, Usage
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    GenerateRequest,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tensors import Tensor


@given(st.lists(st.integers(0, 2**40), max_size=8), st.lists(st.integers(0, 60), max_size=12))
def test_frames_are_whole_for_any_cuts_of_the_bytes(ids: list[int], cuts: list[int]) -> None:
    data = b"".join(frame(Cancel(id=id)) for id in ids)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in pairwise(edges)]
    reader = FrameReader()

    bodies = [body for piece in pieces for body in reader.feed(piece)]

    assert [msgspec.msgpack.decode(body, type=Cancel).id for body in bodies] == ids


def test_an_impossible_length_breaks_the_connection() -> None:
    with pytest.raises(BrokenFrame, match="more than the limit of"):
        list(FrameReader().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big")))


def test_events_arrive_as_they_left() -> None:
    logprob = TokenLogprob(token="�", logprob=-0.5, id=3, bytes=(240,))
    events = (
        Started(id="a", model="m", created=5),
        TextDelta(text="é", logprobs=(logprob,)),
        Finished(reason="stop", native="stop_sequence", stop_match=7, seed=2**64 - 1),
        Usage(prompt_tokens=1, completion_tokens=2, total_tokens=3),
    )
    sent = Deltas(batches=(Batch(id=1, events=events, last=True),))

    (body,) = FrameReader().feed(frame(sent))

    assert msgspec.msgpack.Decoder[ToWorker](ToWorker).decode(body) == sent


@pytest.mark.parametrize(
    "request_",
    [
        ChatRequest(model="m", messages=(Message(role="user", content="x"),)),
        CompletionRequest(
            model="m", prompts=("x", (1, 2)), sampling=Sampling(logit_bias={5: 1.5}, seed=2**64 - 1)
        ),
        TokenRequest(
            model="m",
            tokens=(1,),
            sampling=Sampling(embedding_bias=Tensor(dtype="float32", shape=(1,), data=b"\x00" * 4)),
        ),
    ],
    ids=["chat", "completion", "tokens"],
)
def test_requests_arrive_as_they_left(request_: GenerateRequest) -> None:
    assert decode_request(encode_request(request_)) == request_


def test_a_request_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="cannot read"):
        decode_request(b"{}")


@pytest.mark.parametrize("kind", KINDS.values())
def test_an_error_is_raised_again_as_what_it_was(kind: type[GatewayError]) -> None:
    if issubclass(kind, UpstreamError):
        error: GatewayError = kind("why", upstream="local engine", retry_after=2.0)
    else:
        error = kind("why", param="field", code="special")

    again = raised(failed(7, error), "here")

    assert type(again) is kind
    assert again.status == error.status
    assert (again.param, again.code, again.retry_after) == (
        error.param,
        error.code,
        error.retry_after,
    )
    assert str(again) == ("here: why" if isinstance(error, UpstreamError) else "why")


def test_errors_without_a_kind_of_their_own_are_sent_as_their_base_class() -> None:
    assert type(raised(failed(1, Forbidden("not yours")), "here")).__name__ == "CallerError"
    assert isinstance(raised(failed(1, DeadlineExceeded("late")), "here"), DeadlineExceeded)
    busy = UpstreamBusy("full", upstream="local engine", retry_after=1.0)
    assert raised(failed(1, busy), "here").retry_after == 1.0
