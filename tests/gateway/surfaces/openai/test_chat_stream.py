"""Streamed chat answers."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from openai.types.chat import ChatCompletionChunk

from strowger_gateway.gateway.surfaces.openai.chat_render import ReasoningNames
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    Logits,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    TokenLogprob,
    Tokens,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.tensors import Tensor
from tests.gateway.surfaces.answers import (
    CREATED,
    STOP,
    chat_renderer,
    chat_stream,
    chunks,
    decoded,
    payloads,
    started,
)

FIRST = ToolDelta(tool=0, id="c1", name="weather")


def deltas(*events: Event, reasoning: ReasoningNames = "both") -> list[object]:
    """The deltas after the one with the role, as plain values."""
    data = chat_renderer(reasoning=reasoning).events(events)
    return [chunk.choices[0].delta.model_dump(exclude_unset=True) for chunk in chunks(data)[1:]]


def test_a_short_answer_is_these_very_bytes() -> None:
    renderer = chat_renderer()

    data = renderer.events([started(), TextDelta(text="Hi"), STOP]) + renderer.finish()

    head = (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,'
        b'"model":"ran","choices":[{"index":0,"delta":'
    )
    assert data == (
        head + b'{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
        + head + b'{"content":"Hi"},"finish_reason":null}]}\n\n'
        + head + b'{},"finish_reason":"stop"}]}\n\n'
        + b"data: [DONE]\n\n"
    )  # fmt: skip


def test_every_chunk_has_the_same_id_time_and_model() -> None:
    seen = chat_stream(started(), TextDelta(text="a"), FIRST, TextDelta(text="b", index=1), STOP)

    assert {(chunk.id, chunk.created, chunk.model) for chunk in seen} == {
        ("chatcmpl-1", CREATED, "ran")
    }


def test_the_model_is_the_requested_one_while_the_backend_names_none() -> None:
    (first, _) = chat_stream(Started(), TextDelta(text="a"))

    assert first.model == "asked"


def test_the_role_comes_once_a_choice_and_first() -> None:
    seen = chat_stream(
        TextDelta(text="a"), TextDelta(text="b"), TextDelta(text="c", index=1), TextDelta(text="d")
    )

    roles = [(chunk.choices[0].index, chunk.choices[0].delta.role) for chunk in seen]
    assert roles == [(0, "assistant"), (0, None), (0, None), (1, "assistant"), (1, None), (0, None)]


@pytest.mark.parametrize("batch", [[], [started()], [Usage(prompt_tokens=1)]])
def test_what_shows_a_client_nothing_sends_nothing(batch: list[Event]) -> None:
    assert chat_renderer().events(batch) == b""


def test_logits_have_no_place_in_the_dialect() -> None:
    tensor = Tensor(dtype="float32", shape=(1, 1), data=b"\0\0\0\0")

    assert chat_renderer().events([Logits(of="generation", tensor=tensor)]) == b""


def test_an_empty_delta_sends_no_separate_chunk() -> None:
    assert deltas(TextDelta(text=""), TextDelta(text="a"), TextDelta(text="")) == [{"content": "a"}]


def test_tokens_go_out_as_the_text_that_they_complete() -> None:
    assert deltas(Tokens(ids=(1,), text=""), Tokens(ids=(2,), text="ä")) == [{"content": "ä"}]


def test_a_tool_call_begins_with_id_type_and_name() -> None:
    seen = deltas(
        FIRST,
        ToolDelta(tool=0, arguments='{"city":'),
        ToolDelta(tool=0, arguments='"Oslo"}'),
    )

    assert seen == [
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]},
    ]


def test_an_answer_that_begins_with_a_tool_call_has_no_content_yet() -> None:
    role = chat_stream(FIRST)[0].choices[0].delta

    assert role.role == "assistant"
    assert "content" in role.model_fields_set
    assert role.content is None


def test_parallel_calls_keep_their_places_in_each_choice() -> None:
    seen = chat_stream(
        FIRST,
        ToolDelta(tool=1, id="c2", name="time", arguments="{}"),
        ToolDelta(tool=0, arguments="{}"),
        ToolDelta(tool=0, index=1, id="c3", name="time", arguments="{}"),
    )

    calls = [
        (chunk.choices[0].index, call.index, call.id)
        for chunk in seen
        for call in chunk.choices[0].delta.tool_calls or ()
    ]
    assert calls == [(0, 0, "c1"), (0, 1, "c2"), (0, 0, None), (1, 0, "c3")]


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    seen = deltas(
        FIRST,
        ToolDelta(tool=1, id="c2", name="time", arguments='{"a":1}'),
        ToolDelta(tool=1, arguments=""),
        Finished(reason="tool_calls"),
    )

    assert seen[-2:] == [{"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, {}]
    assert sum("'{}'" in str(delta) for delta in seen) == 1


def test_a_choice_that_called_a_tool_ended_for_that() -> None:
    *_, last = chat_stream(FIRST, STOP)
    *_, other = chat_stream(FIRST, TextDelta(text="x", index=1), Finished(reason="stop", index=1))

    assert last.choices[0].finish_reason == "tool_calls"
    assert other.choices[0].finish_reason == "stop"


def test_a_call_cut_short_by_the_length_stays_so() -> None:
    *_, last = chat_stream(FIRST, Finished(reason="length"))

    assert last.choices[0].finish_reason == "length"


def test_the_vendors_finish_reason_is_next_to_ours() -> None:
    *_, last = decoded(chat_renderer().events([Finished(reason="stop", native="eos_token")]))

    assert msgspec.json.encode(last).endswith(
        b'"finish_reason":"stop","native_finish_reason":"eos_token"}]}'
    )


@pytest.mark.parametrize("match", ["END", 7])
def test_what_stopped_the_answer_is_reported_if_the_backend_reports_it(match: str | int) -> None:
    *_, last = chat_stream(Finished(reason="stop", stop_match=match))

    assert last.choices[0].model_dump()["stop_reason"] == match


def test_a_choice_without_text_still_has_a_role_and_an_end() -> None:
    first, last = chat_stream(STOP)

    assert first.choices[0].delta.role == "assistant"
    assert last.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("names", "delta"),
    [
        ("both", {"reasoning": "hm", "reasoning_content": "hm"}),
        ("reasoning", {"reasoning": "hm"}),
        ("reasoning_content", {"reasoning_content": "hm"}),
    ],
)
def test_thinking_goes_out_under_the_configured_names(
    names: ReasoningNames, delta: dict[str, str]
) -> None:
    assert deltas(ReasoningDelta(text="hm"), reasoning=names) == [delta]


def test_the_proof_of_thinking_goes_out_too() -> None:
    (delta,) = deltas(ReasoningDelta(text="", signature="s"))

    assert isinstance(delta, dict)
    assert delta["reasoning_signature"] == "s"


def test_a_refusal_is_not_content() -> None:
    assert deltas(RefusalDelta(text="I will not")) == [{"refusal": "I will not"}]


def test_unknown_fields_are_in_the_delta() -> None:
    audio = Raw(b'{"id":\n "a1"}')

    assert deltas(OpaqueDelta(fields={"audio": audio})) == [{"audio": {"id": "a1"}}]


def test_short_unknown_fields_are_in_every_chunk_and_long_ones_in_the_first() -> None:
    renderer = chat_renderer()
    first = started(system_fingerprint=b'"fp"', prompt_filter_results=b'[{\r\n"a":1}]')

    data = renderer.events([first, TextDelta(text="a"), TextDelta(text="b")])

    assert [chunk.system_fingerprint for chunk in chunks(data)] == ["fp", "fp", "fp"]
    assert data.count(b"prompt_filter_results") == 1
    assert b'"prompt_filter_results":[{"a":1}]' in payloads(data)[0]


def test_an_unknown_field_never_replaces_one_of_ours() -> None:
    (first, *_) = chat_stream(started(id=b'"other"', choices=b"[]", x=b"1"), TextDelta(text="a"))

    assert first.id == "chatcmpl-1"
    assert first.model_dump()["x"] == 1


def test_usage_comes_last_and_only_on_request() -> None:
    events = [TextDelta(text="a"), STOP, Usage(prompt_tokens=2, completion_tokens=1)]
    asked, silent = chat_renderer(include_usage=True), chat_renderer()

    with_usage = asked.events(events) + asked.finish()
    without = silent.events(events) + silent.finish()

    *others, last = chunks(with_usage)
    assert all("usage" in chunk.model_fields_set and chunk.usage is None for chunk in others)
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (2, 1)
    assert last.usage.total_tokens == 3
    assert b"usage" not in without
    assert with_usage.endswith(b"data: [DONE]\n\n")
    assert without.endswith(b"data: [DONE]\n\n")


def test_no_usage_is_made_up_for_a_silent_backend() -> None:
    renderer = chat_renderer(include_usage=True)

    renderer.events([TextDelta(text="a"), STOP])

    assert renderer.finish() == b"data: [DONE]\n\n"


def test_a_later_usage_replaces_an_earlier_one() -> None:
    renderer = chat_renderer(include_usage=True)

    renderer.events([Usage(prompt_tokens=2, completion_tokens=1)])
    renderer.events([Usage(prompt_tokens=2, completion_tokens=7)])

    (last,) = chunks(renderer.finish())
    assert last.usage is not None
    assert last.usage.completion_tokens == 7


def test_usage_has_no_line_breaks_even_if_the_vendor_sends_them() -> None:
    renderer = chat_renderer(include_usage=True)
    raw = Raw(b'{"completion_tokens_details": {"x": {\n"y": 1}}}')

    renderer.events([TextDelta(text="a"), Usage(prompt_tokens=1, completion_tokens=1, raw=raw)])

    assert len(payloads(renderer.finish())) == 2


def test_a_failure_is_one_frame_and_no_end_mark() -> None:
    error = UpstreamBroken("stream ended early", upstream="claude")

    (payload,) = payloads(chat_renderer().error(error))

    assert msgspec.json.decode(payload) == {
        "error": {
            "message": "claude: stream ended early",
            "type": "api_error",
            "param": None,
            "code": "upstream_broken",
        }
    }


def test_log_probabilities_come_with_their_bytes_and_rivals() -> None:
    rival = TokenLogprob(token=" no", logprob=-2.5)
    item = TokenLogprob(token="ä", logprob=-0.5, top=(rival,))
    broken = TokenLogprob(token="\ufffd", logprob=float("-inf"), bytes=(0xC3,))

    chunk = chat_stream(TextDelta(text="ä", logprobs=(item, broken)))[1]

    assert chunk.choices[0].delta.content == "ä"
    assert chunk.choices[0].logprobs is not None
    assert chunk.choices[0].logprobs.model_dump()["content"] == [
        {
            "token": "ä",
            "logprob": -0.5,
            "bytes": [0xC3, 0xA4],
            "top_logprobs": [{"token": " no", "logprob": -2.5, "bytes": [32, 110, 111]}],
        },
        {"token": "\ufffd", "logprob": -9999.0, "bytes": [0xC3], "top_logprobs": []},
    ]


def test_a_token_that_completes_no_text_still_has_its_log_probability() -> None:
    item = TokenLogprob(token="", logprob=-1.0)

    chunk = chat_stream(Tokens(ids=(1,), text="", logprobs=(item,)))[1]

    assert chunk.choices[0].delta.content == ""
    assert chunk.choices[0].logprobs is not None


@given(st.text(), st.integers(0, 3), st.booleans(), st.text(min_size=1))
def test_the_fast_frame_equals_the_general_one(
    text: str, index: int, include_usage: bool, model: str
) -> None:
    renderer = chat_renderer(include_usage=include_usage)
    renderer.events([Started(model=model), TextDelta(text="first", index=index)])

    data = renderer.events([TextDelta(text=text, index=index)])

    general = ChatCompletionChunk.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": model,
            "choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}],
            **({"usage": None} if include_usage else {}),
        }
    ).model_dump(exclude_unset=True)
    assert decoded(data) == ([general] if text else [])


@given(
    st.lists(
        st.one_of(
            st.builds(TextDelta, text=st.text(), index=st.integers(0, 2)),
            st.builds(ReasoningDelta, text=st.text(), index=st.integers(0, 2)),
            st.builds(Tokens, ids=st.just((1,)), text=st.text(), index=st.integers(0, 2)),
            st.builds(Usage, prompt_tokens=st.integers(0, 9), completion_tokens=st.integers(0, 9)),
            st.builds(Started, model=st.text()),
        ),
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_it_does_not_matter_how_events_are_batched(events: list[Event], cut: int) -> None:
    whole, split = chat_renderer(), chat_renderer()

    at_once = whole.events(events) + whole.finish()
    in_two = split.events(events[:cut]) + split.events(events[cut:]) + split.finish()

    assert at_once == in_two
    text = "".join(e.text for e in events if isinstance(e, TextDelta | Tokens))
    seen = "".join(c.choices[0].delta.content or "" for c in chunks(at_once))
    assert sorted(seen) == sorted(text)
