"""MindIE's answers decode to events: tokens and text, streamed, complete, aborted."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.errors import (
    GatewayError,
    UpstreamBroken,
    UpstreamFailed,
    UpstreamOverloaded,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta, Tokens, Usage
from strowger_gateway.schemas.requests import CompletionRequest, GenerateRequest
from tests.adapters.mindie.mindie_doubles import (
    CHAT,
    TEXT,
    TOKENS,
    details,
    events,
    frame,
    mindie,
    sampled,
    stream,
    streamed,
    whole,
)
from tests.adapters.traffic import RECORDINGS, fixture, traffic
from tests.stand_ins.mindie_answers import TextAnswer, TokenAnswer

recordings = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings are not here")


def text_of(found: list[Event]) -> str:
    return "".join(one.text for one in found if isinstance(one, Tokens | TextDelta))


def ids_of(found: list[Event]) -> list[int]:
    return [token for one in found if isinstance(one, Tokens) for token in one.ids]


def finish_of(found: list[Event]) -> Finished:
    return next(one for one in found if isinstance(one, Finished))


def test_the_seeds_stream_has_ids_text_and_times() -> None:
    found = translate(mindie(), TOKENS, [fixture("mindie/stream-tokens-seed").body])

    assert found == [
        Started(),
        Tokens(ids=(626,), text="am", elapsed_ms=45.5),
        Tokens(ids=(263,), text=" a", elapsed_ms=12.25),
        Tokens(ids=(5176,), text=" painter", elapsed_ms=11.5),
        Finished(reason="length", seed=846930886),
        Usage(prompt_tokens=3, completion_tokens=3, total_tokens=6),
    ]


def test_a_newer_stream_has_several_ids_a_frame() -> None:
    found = translate(mindie(), TOKENS, [fixture("mindie/stream-tokens").body])

    assert ids_of(found) == [626, 263, 264, 265, 266, 5176, 2]
    assert text_of(found) == "北 京 a naïve"
    assert found[3] == Tokens(ids=(266,), text="", elapsed_ms=9.0)
    assert finish_of(found) == Finished(reason="stop", native="eos_token", seed=7)


def test_the_end_of_the_text_is_the_part_that_was_not_sent() -> None:
    found = streamed(
        frame(1, "na", first=True),
        frame(2, ""),
        frame(3, None, generated_text="naïve", details=details()),
    )

    assert found[-3] == Tokens(ids=(3,), text="ïve", elapsed_ms=16.75)


@pytest.mark.parametrize("last", ["c", None, "<|im_end|>"])
def test_the_last_frames_own_text_counts_only_as_far_as_generated_text_has_it(
    last: str | None,
) -> None:
    found = streamed(
        frame([1], "a", first=True),
        frame([2], "b"),
        frame([3], last, generated_text="abc", details=details()),
        request=TEXT,
    )

    assert text_of(found) == "abc"


def test_the_complete_text_must_start_with_the_text_that_was_sent() -> None:
    frames = [
        frame(1, "He", first=True),
        frame(2, "Hello"),
        frame(3, None, generated_text="Hello!", details=details()),
    ]

    with pytest.raises(UpstreamBroken, match=r"ascend: .*fullTextEnabled must be false"):
        streamed(*frames)


@recordings
@pytest.mark.parametrize("name", ["chat-stream-full-text", "tgi-generate-stream-full-text"])
def test_a_server_that_repeats_its_text_is_detected(name: str) -> None:
    (case,) = traffic(f"mindie/{name}")
    request = CHAT if name.startswith("chat") else TEXT

    with pytest.raises(UpstreamBroken, match="fullTextEnabled must be false"):
        translate(mindie(), request, [case.body])


@recordings
def test_a_documented_answer_in_tgis_dialect_is_text_with_usage() -> None:
    case = next(one for one in traffic("mindie/tgi-generate") if not one.streamed)

    found = whole(msgspec.json.decode(case.body), TEXT)

    assert text_of(found).startswith("am a Frenchman living in the UK.")
    assert finish_of(found) == Finished(reason="length", seed=42)
    assert found[-1] == Usage(prompt_tokens=74, completion_tokens=1, total_tokens=75)


def test_a_complete_answer_with_ids_is_tokens() -> None:
    found = translate(
        mindie(),
        msgspec.structs.replace(TOKENS, stream=False),
        [fixture("mindie/whole-tokens").body],
    )

    assert found[1] == Tokens(ids=(626, 263, 5176), text="am a painter")


def test_a_complete_answer_without_ids_is_none_to_a_client_of_tokens() -> None:
    answer = {"generated_text": "am", "details": details(count=1)}

    with pytest.raises(UpstreamBroken, match="has no token ids"):
        whole(answer)
    assert text_of(whole(answer, TEXT)) == "am"


def test_an_empty_answer_is_an_answer() -> None:
    last = {"generated_text": "", "details": details(count=1)}
    nothing = {"generated_text": "", "details": details(count=0)}

    assert whole(last, TEXT)[1:3] == [
        TextDelta(text=""),
        Finished(reason="stop", native="eos_token", seed=42),
    ]
    assert ids_of(streamed(frame([2], None, first=True, **last))) == [2]
    assert text_of(whole(nothing)) == ""


def test_a_missing_count_is_the_number_of_ids() -> None:
    found = streamed(
        frame([1, 2], "ab", first=True),
        frame(3, None, generated_text="abc", details=details(count=None)),
    )

    assert found[-1] == Usage(prompt_tokens=3, completion_tokens=3, total_tokens=6)


def test_usage_of_text_is_what_the_server_counts() -> None:
    known = whole({"generated_text": "a", "details": details(count=1, prompt_tokens=9)}, TEXT)
    silent = whole({"generated_text": "a", "details": details(count=1)}, TEXT)

    assert known[-1] == Usage(prompt_tokens=9, completion_tokens=1, total_tokens=10)
    assert silent[-1] == Usage(prompt_tokens=None, completion_tokens=1, total_tokens=None)


@pytest.mark.parametrize("word", ["stop_sequence", "invalid flag", "invalid finishReason"])
@pytest.mark.parametrize("request_", [TOKENS, TEXT], ids=["tokens", "text"])
def test_an_answer_that_was_given_up_is_a_failure_and_never_a_stop(
    request_: GenerateRequest, word: str
) -> None:
    last = {"generated_text": "a", "details": details(word, 1)}

    with pytest.raises(UpstreamFailed, match=f"ended with '{word}'") as caught:
        streamed(frame([1], None, first=True, **last), request=request_)

    assert caught.value.usage is not None, "it took its time"
    assert caught.value.usage.completion_tokens == 1


def test_a_requested_stop_string_is_a_stop_unless_nothing_was_generated() -> None:
    request = sampled(TEXT, stop=("b",))

    found = whole({"generated_text": "a", "details": details("stop_sequence", 2)}, request)

    assert finish_of(found) == Finished(reason="stop", native="stop_sequence", seed=42)
    with pytest.raises(UpstreamFailed, match="stop_sequence"):
        whole({"generated_text": "", "details": details("stop_sequence", 0)}, request)


def test_an_unknown_finish_reason_is_a_stop_and_is_reported_as_sent() -> None:
    found = whole({"generated_text": "a", "details": details("budget", 1)}, TEXT)

    assert finish_of(found) == Finished(reason="stop", native="budget", seed=42)


@pytest.mark.parametrize(
    "answer",
    [
        {"generated_text": "a", "details": None},
        {"generated_text": "a"},
        {"generated_text": "a", "details": {"generated_tokens": 1}},
        {"text": ["a"]},
        {"token": {"id": "x", "text": "a"}},
        {"token": {"id": 2**31, "text": "a"}},
        {"token": {"id": [7, -(10**30)], "text": "a"}},
        {"token": None},
    ],
)
def test_a_frame_outside_the_format_is_an_error(answer: dict[str, object]) -> None:
    with pytest.raises(
        UpstreamBroken, match=r"ascend: (cannot read a frame|not a frame|the answer has no)"
    ):
        whole(answer, TEXT)
    with pytest.raises(
        UpstreamBroken, match=r"ascend: (cannot read a frame|not a frame|the answer has no)"
    ):
        streamed(frame(1, "a", first=True), answer, request=TEXT)


def test_a_mark_of_the_end_that_a_proxy_adds_is_ignored() -> None:
    last = frame([1], None, first=True, generated_text="a", details=details(count=1))

    assert events(stream(last, done=True)) == events(stream(last))
    with pytest.raises(UpstreamBroken, match="stream ended early"):
        events(stream(frame(1, "a", first=True), done=True))


def test_nothing_after_the_last_frame_belongs_to_the_answer() -> None:
    last = frame([1], None, first=True, generated_text="a", details=details(count=1))

    assert streamed(last, frame([2], "b"), {}) == streamed(last)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("stream-tokens-error-bare", "Failed to get engine response."),
        ("stream-tokens-error-text", "Engine callback timeout: decode"),
    ],
)
def test_an_error_without_framing_inside_a_stream_is_that_error(name: str, message: str) -> None:
    with pytest.raises(UpstreamFailed, match=f"ascend: {message}"):
        events(fixture(f"mindie/{name}").body)


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Input Validation Error", UpstreamRejected),
        ("NotFoundError", UpstreamRefused),
        ("Bad Request", UpstreamRejected),
        ("Generation Error", UpstreamFailed),
        ("Incomplete Generation", UpstreamFailed),
        ("Service Unavailable", UpstreamFailed),
    ],
)
def test_an_error_inside_a_stream_is_judged_by_its_type(
    kind: str, expected: type[GatewayError], framed: bool
) -> None:
    fault = msgspec.json.encode({"error": "no", "error_type": kind})
    raw = stream(frame(1, "a", first=True)) + (b"data: " + fault + b"\n\n" if framed else fault)

    with pytest.raises(expected, match="no"):
        events(raw)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("error-400", UpstreamRejected),
        ("error-404-model", UpstreamRefused),
        ("error-422", UpstreamRejected),
        ("error-424", UpstreamFailed),
        ("error-500", UpstreamFailed),
        ("error-503", UpstreamOverloaded),
    ],
)
def test_statuses_say_who_must_act(name: str, expected: type[GatewayError]) -> None:
    case = fixture(f"mindie/{name}")

    assert type(mindie().error(case.status, case.headers, case.body)) is expected


SAID = st.lists(st.tuples(st.integers(0, 1024 * 1024), st.text(max_size=4)), min_size=1)


@given(said=SAID, old=st.booleans())
def test_ids_and_text_of_a_stream_are_the_complete_answer(
    said: list[tuple[int, str]], old: bool
) -> None:
    asked = {"stream": True, "parameters": {"details": True, "max_new_tokens": 4096}}
    answer = TokenAnswer(asked, said, old=old)

    found = events("".join(answer.frames()).encode())

    assert ids_of(found) == [one for one, _ in said]
    assert text_of(found) == "".join(text for _, text in said)


@given(said=SAID, stops=st.lists(st.text(min_size=1, max_size=2), max_size=2))
def test_a_stream_of_text_folds_to_the_complete_answer(
    said: list[tuple[int, str]], stops: list[str]
) -> None:
    asked = {"parameters": {"details": True, "max_new_tokens": 4096, "stop": stops}}
    answer = TextAnswer(asked, said, 5, streams=True)
    request = sampled(TEXT, stop=tuple(stops))
    assert isinstance(request, CompletionRequest)
    fold, other = Fold(), Fold()

    fold.add(events("".join(answer.frames()).encode(), request))
    other.add(whole(msgspec.json.decode(answer.whole()), request))

    assert fold.answer() == other.answer()
