"""Ends of OpenAI-dialect answers: complete, truncated, or with an error."""

import msgspec
import pytest

from strowger_gateway.schemas.errors import (
    UpstreamBroken,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import Finished, Started, TextDelta
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.chats import folded
from tests.adapters.openai.openai_doubles import (
    CHAT,
    Json,
    delta,
    events,
    message,
    stream,
    streamed,
    whole,
)

ROLE = delta({"role": "assistant", "content": ""})
STOP = delta(finish="stop")


def test_a_stream_without_done_is_complete_if_every_choice_finished() -> None:
    assert folded(streamed(ROLE, delta({"content": "x"}), STOP, done=False)).choices[0].text == "x"


@pytest.mark.parametrize("last", [ROLE, delta({"content": "x"})])
def test_a_stream_cut_short_is_an_error_and_not_a_short_answer(last: Json) -> None:
    with pytest.raises(UpstreamBroken, match="acme: stream ended early"):
        streamed(ROLE, last, done=False)


def test_a_stream_without_done_must_have_all_requested_choices() -> None:
    request = msgspec.structs.replace(CHAT, sampling=Sampling(n=2))

    with pytest.raises(UpstreamBroken, match="stream ended early"):
        events(stream(ROLE, delta({"content": "x"}), STOP, done=False), request)


def test_done_ends_a_choice_without_a_finish_reason() -> None:
    found = streamed(ROLE, delta({"content": "x"}))

    assert found[-1] == Finished(reason="stop")


@pytest.mark.parametrize("chunks", [[], [ROLE]])
def test_done_after_nothing_is_not_an_answer(chunks: list[Json]) -> None:
    with pytest.raises(UpstreamBroken, match="acme: stream ended empty"):
        streamed(*chunks)


def test_an_answer_without_choices_is_not_an_answer() -> None:
    with pytest.raises(UpstreamBroken, match="acme: the answer has no choices"):
        whole({"id": "c", "choices": []})


def test_unknown_events_are_skipped() -> None:
    found = streamed(": hi", 'event: ping\ndata: {"type": "ping"}', ROLE, "data:", STOP)

    assert [type(one) for one in found] == [Started, TextDelta, Finished]


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ('data: {"error":{"message":"boom","code":502}}', UpstreamFailed),
        ('data: {"error":{"message":"boom","type":"rate_limit_error"}}', UpstreamBusy),
        ('data: {"error":{"message":"boom","code":400}}', UpstreamRejected),
        ('data: {"error":{"message":"boom","code":"insufficient_quota"}}', UpstreamRefused),
        ('data: {"error":"boom"}', UpstreamFailed),
        ('data: {"object":"error","message":"boom","code":429}', UpstreamBusy),
        ('data: {"error_code":"REQUEST_LIMIT_EXCEEDED","message":"boom"}', UpstreamBusy),
        ('event: error\ndata: {"message":"boom"}', UpstreamFailed),
        ("event: error\ndata: boom", UpstreamFailed),
        ('error: {"code":500,"message":"boom","type":"server_error"}', UpstreamFailed),
        ('error: {"code":503,"message":"boom","type":"unavailable_error"}', UpstreamFailed),
        ('error: {"error":{"code":429,"message":"boom"}}', UpstreamBusy),
        ("error: boom", UpstreamFailed),
        ('{"error":"boom","error_type":"Incomplete Generation"}', UpstreamFailed),
        ('{\n  "error": {"message": "boom"}\n}', UpstreamFailed),
        ("boom at the proxy", UpstreamFailed),
    ],
)
def test_an_error_inside_a_stream_is_an_error(frame: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="boom"):
        streamed(ROLE, delta({"content": "x"}), frame)
    with pytest.raises(kind, match="boom"):
        streamed(frame, done=False)


def test_an_error_next_to_choices_is_an_error() -> None:
    with pytest.raises(UpstreamRejected, match="Token limit reached"):
        streamed(ROLE, dict(STOP) | {"error": {"code": 400, "message": "Token limit reached"}})


def test_an_error_in_a_complete_200_is_an_error() -> None:
    with pytest.raises(UpstreamBusy, match="acme: slow down"):
        whole({"error": {"message": "slow down", "code": 429}})


def test_a_complete_answer_to_a_stream_request_is_read_all_the_same() -> None:
    found = events(msgspec.json.encode(message({"content": "x"})) + b"\n", CHAT)

    assert folded(found).choices[0].text == "x"


def test_a_frame_that_cannot_be_read_is_quoted() -> None:
    with pytest.raises(UpstreamBroken, match=r"acme: cannot read a frame: \{oops"):
        streamed(ROLE, "data: {oops")


def test_bytes_that_are_not_utf8_are_an_error() -> None:
    with pytest.raises(UpstreamBroken, match="cannot read a frame"):
        events(
            stream(ROLE, done=False) + b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n', CHAT
        )


def test_an_answer_in_another_dialect_is_not_read_as_its_error() -> None:
    other = {"model": "m", "message": {"role": "assistant", "content": "x"}, "done": True}

    with pytest.raises(UpstreamBroken, match="acme: cannot read the answer"):
        whole(other)
