"""Finish reasons and errors of Gemini's answers."""

import json

import pytest

from strowger_gateway.adapters.gemini.finish_reasons import FAILED, FINISH
from strowger_gateway.adapters.testing import recordings, translate
from strowger_gateway.schemas.errors import (
    UpstreamBroken,
    UpstreamBusy,
    UpstreamError,
    UpstreamFailed,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
    UpstreamTimeout,
)
from strowger_gateway.schemas.events import Finished, RefusalDelta, TextDelta
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.chats import folded, only_choice
from tests.adapters.gemini.gemini_doubles import (
    GEMINI,
    STREAM,
    WHOLE,
    Json,
    candidate,
    chat,
    read,
    streamed,
    whole,
)
from tests.adapters.traffic import RECORDINGS, fixture

FILTERED = [
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "OTHER",
    "IMAGE_OTHER",
    "NO_IMAGE",
]
UNUSABLE = ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"]


@pytest.mark.parametrize(
    ("word", "reason", "native"),
    [
        ("STOP", "stop", ""),
        ("MAX_TOKENS", "length", "MAX_TOKENS"),
        ("FINISH_REASON_UNSPECIFIED", "stop", "FINISH_REASON_UNSPECIFIED"),
        ("SOMETHING_NEW", "stop", "SOMETHING_NEW"),
        *((word, "content_filter", word) for word in FILTERED),
    ],
)
def test_every_end_has_a_reason(word: str, reason: str, native: str) -> None:
    (end,) = [
        one
        for one in whole(candidate({"text": "a"}, finishReason=word))
        if isinstance(one, Finished)
    ]

    assert (end.reason, end.native) == (reason, native)


@pytest.mark.parametrize("word", UNUSABLE)
def test_an_unusable_answer_is_a_failure(word: str) -> None:
    frame = candidate({"text": "a"}, finishReason=word, finishMessage="Undeclared: ls")
    frame["usageMetadata"] = {"promptTokenCount": 5, "candidatesTokenCount": 2}

    with pytest.raises(UpstreamFailed, match=f"{word}: Undeclared: ls") as caught:
        streamed(frame)

    assert caught.value.code == word
    assert caught.value.usage is not None, "it is charged for"
    assert (caught.value.usage.prompt_tokens, caught.value.usage.completion_tokens) == (5, 2)


def test_no_finish_reason_is_both_an_end_and_a_failure() -> None:
    assert not FAILED & set(FINISH)


def test_a_stop_after_calls_in_earlier_frames_is_tool_calls() -> None:
    events = streamed(
        candidate({"functionCall": {"name": "clock", "args": {}}}),
        candidate({"text": ""}, finishReason="STOP"),
    )

    assert events[-1] == Finished(reason="tool_calls", native="STOP")


def test_a_length_after_calls_stays_a_length() -> None:
    call: Json = {"functionCall": {"name": "clock"}}

    assert streamed(candidate(call, finishReason="MAX_TOKENS"))[-1] == Finished(
        reason="length", native="MAX_TOKENS"
    )


def test_a_reason_with_every_frame_ends_the_answer_once() -> None:
    found = streamed(
        candidate({"text": "a"}, finishReason="STOP"), candidate({"text": "b"}, finishReason="STOP")
    )

    assert only_choice(found).text == "ab"
    assert [one for one in found if isinstance(one, Finished)] == [Finished(reason="stop")]


def test_an_answer_without_content_is_an_empty_text() -> None:
    found = only_choice(whole({"candidates": [{"finishReason": "MAX_TOKENS"}]}))

    assert found.text == ""
    assert found.finish is not None
    assert found.finish.reason == "length"


def test_a_blocked_prompt_ends_every_choice() -> None:
    case = fixture("gemini/prompt-blocked-stream")

    events = translate(GEMINI, chat(stream=True, sampling=Sampling(n=2)), [case.body])

    found = folded(events)
    assert [one.refusal for one in found.choices] == ["The prompt was blocked."] * 2
    assert [one.finish.native for one in found.choices if one.finish] == ["PROHIBITED_CONTENT"] * 2
    assert {one.finish.reason for one in found.choices if one.finish} == {"content_filter"}
    assert found.usage is not None
    assert found.usage.completion_tokens == 0


def test_a_filtered_answer_has_the_reason() -> None:
    events = whole(candidate(finishReason="SPII", finishMessage="Names a person."))

    assert RefusalDelta(text="Names a person.") in events
    assert TextDelta(text="") in events


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [candidate({"text": "a"})],
        [{"usageMetadata": {"totalTokenCount": 3}}],
        [{"candidates": [{"index": 0, "finishReason": "STOP"}, {"index": 1}]}],
    ],
)
def test_a_stream_whose_candidates_have_not_all_ended_is_cut_short(frames: list[Json]) -> None:
    with pytest.raises(UpstreamBroken, match="stream ended early"):
        streamed(*frames)


def test_a_stream_that_lacks_a_candidate_is_cut_short() -> None:
    frame = candidate({"text": "a"}, finishReason="STOP")
    data = b"data: " + json.dumps(frame).encode() + b"\n\n"

    with pytest.raises(UpstreamBroken, match="stream ended early"):
        translate(GEMINI, chat(stream=True, sampling=Sampling(n=2)), [data])


def test_a_list_of_frames_is_an_answer_too() -> None:
    frames = [candidate({"text": "a"}), candidate({"text": "b"}, finishReason="STOP")]

    events = translate(GEMINI, WHOLE, [json.dumps(frames).encode()])

    assert only_choice(events).text == "ab"


def test_an_error_in_a_stream_keeps_its_meaning() -> None:
    with pytest.raises(UpstreamFailed, match="google: The model is overloaded"):
        read("error-inside-stream")


@pytest.mark.parametrize("listed", [False, True])
def test_an_error_in_place_of_a_stream_keeps_its_meaning(listed: bool) -> None:
    error = {"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}
    data = json.dumps([error] if listed else error, indent=2).encode()

    with pytest.raises(UpstreamBusy, match="Slow down"):
        translate(GEMINI, STREAM, [data])


def failure(status: int, word: str, *details: Json, listed: bool = False) -> Exception:
    error = {"error": {"code": status, "message": "No.", "status": word, "details": details}}
    return GEMINI.error(status, {}, json.dumps([error] if listed else error).encode())


@pytest.mark.parametrize(
    ("status", "word", "kind"),
    [
        (400, "INVALID_ARGUMENT", UpstreamRejected),
        (400, "FAILED_PRECONDITION", UpstreamRefused),
        (401, "UNAUTHENTICATED", UpstreamRefused),
        (403, "PERMISSION_DENIED", UpstreamRefused),
        (404, "NOT_FOUND", UpstreamRefused),
        (429, "RESOURCE_EXHAUSTED", UpstreamBusy),
        (499, "CANCELLED", UpstreamFailed),
        (500, "INTERNAL", UpstreamFailed),
        (503, "UNAVAILABLE", UpstreamOverloaded),
        (504, "DEADLINE_EXCEEDED", UpstreamTimeout),
    ],
)
def test_every_status_of_googles_has_its_place(status: int, word: str, kind: type) -> None:
    assert type(failure(status, word)) is kind


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(("delay", "seconds"), [("17s", 17.0), ("34.4s", 34.4), ("0s", 0.0)])
def test_the_time_to_wait_is_in_the_body(delay: str, seconds: float, listed: bool) -> None:
    detail: Json = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}

    error = failure(429, "RESOURCE_EXHAUSTED", {"@type": "x"}, detail, listed=listed)

    assert isinstance(error, UpstreamBusy)
    assert error.retry_after == seconds


def test_a_bad_key_is_the_operators() -> None:
    error = failure(400, "INVALID_ARGUMENT", {"reason": "API_KEY_INVALID"})

    assert type(error) is UpstreamRefused


def test_an_error_in_the_request_names_googles_reason() -> None:
    error = failure(400, "INVALID_ARGUMENT")

    assert isinstance(error, UpstreamRejected)
    assert (error.status, error.type, error.message) == (400, "INVALID_ARGUMENT", "No.")


def test_what_the_contract_passes_over_means_what_it_says() -> None:
    found = {one.name: one for one in recordings(RECORDINGS / "gemini")}
    if not found:
        pytest.skip("the recordings are not here")
    key, call = found["gemini/error-400-key"], found["gemini/finish-unexpected-tool-call"]

    error = GEMINI.error(key.status, key.headers, key.body)

    assert isinstance(error, UpstreamRefused)
    with pytest.raises(UpstreamError, match="undeclared function: list_files"):
        translate(GEMINI, WHOLE, [call.body])
