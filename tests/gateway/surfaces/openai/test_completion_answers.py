"""Completion answers, whole and streamed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import GatewayError, UpstreamTimeout
from strowger_gateway.schemas.events import (
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
    completion_answer,
    completion_renderer,
    decoded,
    folded,
    payloads,
    started,
)

FIRST = TokenLogprob(token="One", logprob=None)
SECOND = TokenLogprob(
    token=" two",
    logprob=-0.5,
    top=(
        TokenLogprob(token=" two", logprob=-0.5),
        TokenLogprob(token=" too", logprob=float("-inf")),
    ),
)


def test_a_short_stream_is_these_very_bytes() -> None:
    renderer = completion_renderer()

    data = renderer.events([started(), TextDelta(text="a"), TextDelta(text="b"), STOP])
    data += renderer.finish()

    head = (
        b'data: {"id":"cmpl-1","object":"text_completion","created":1700000000,'
        b'"model":"ran","choices":[{"index":0,"text":'
    )
    assert data == (
        head + b'"a","logprobs":null,"finish_reason":null}]}\n\n'
        + head + b'"b","logprobs":null,"finish_reason":null}]}\n\n'
        + head + b'"","logprobs":null,"finish_reason":"stop"}]}\n\n'
        + b"data: [DONE]\n\n"
    )  # fmt: skip


def test_an_answer_is_these_very_bytes() -> None:
    answer = folded(
        started(system_fingerprint=b'"fp"'),
        TextDelta(text="a"),
        Finished(reason="length", native="max_tokens"),
        Usage(prompt_tokens=2, completion_tokens=1),
    )

    assert completion_renderer().answer(answer) == (
        b'{"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"ran",'
        b'"choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":"length",'
        b'"native_finish_reason":"max_tokens"}],'
        b'"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3},'
        b'"system_fingerprint":"fp"}'
    )


def test_the_official_client_reads_an_answer() -> None:
    answer = completion_answer(
        Tokens(ids=(1,), text="a"), STOP, Usage(prompt_tokens=1, completion_tokens=1)
    )

    assert (answer.id, answer.created, answer.model) == ("cmpl-1", CREATED, "asked")
    assert answer.choices[0].text == "a"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None


def test_choices_of_several_prompts_interleave_by_index() -> None:
    data = completion_renderer().events(
        [TextDelta(text="a", index=3), TextDelta(text="b"), TextDelta(text="c", index=3)]
    )

    assert [b'"index":3' in payload for payload in payloads(data)] == [True, False, True]


def test_log_probabilities_are_columns() -> None:
    answer = completion_answer(TextDelta(text="One two", logprobs=(SECOND, SECOND)), STOP)

    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens == [" two", " two"]
    assert logprobs.token_logprobs == [-0.5, -0.5]
    assert logprobs.top_logprobs == [{" two": -0.5, " too": -9999.0}] * 2
    assert logprobs.text_offset == [0, 4]


def test_the_first_token_of_an_echo_has_no_log_probability() -> None:
    body = completion_renderer().answer(
        folded(TextDelta(text="One two", logprobs=(FIRST, SECOND)), STOP)
    )

    assert b'"token_logprobs":[null,-0.5]' in body
    assert b'"top_logprobs":[null,{' in body


def test_offsets_run_on_through_a_stream_for_each_choice() -> None:
    renderer = completion_renderer()

    data = renderer.events(
        [
            TextDelta(text="One", logprobs=(FIRST,)),
            TextDelta(text="One", logprobs=(FIRST,), index=1),
            TextDelta(text=" two", logprobs=(SECOND,)),
        ]
    )
    data += renderer.events([TextDelta(text=" two", logprobs=(SECOND,))])

    offsets = [payload.partition(b'"text_offset":')[2][:3] for payload in payloads(data)]
    assert offsets == [b"[0]", b"[0]", b"[3]", b"[7]"]


def test_without_alternatives_there_is_no_column_of_them() -> None:
    item = TokenLogprob(token="x", logprob=-1.0)

    answer = completion_answer(TextDelta(text="x", logprobs=(item,)), STOP)

    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.top_logprobs is None


def test_usage_comes_last_and_only_on_request() -> None:
    events = [TextDelta(text="a"), STOP, Usage(prompt_tokens=2, completion_tokens=1)]
    asked, silent = completion_renderer(include_usage=True), completion_renderer()

    with_usage = asked.events(events) + asked.finish()
    without = silent.events(events) + silent.finish()

    *chunks, last, done = payloads(with_usage)
    assert all(chunk.endswith(b',"usage":null}') for chunk in chunks)
    assert b'"choices":[],"usage":{"prompt_tokens":2' in last
    assert done == b"[DONE]"
    assert b"usage" not in without


def test_thinking_and_unknown_fields_are_in_the_choice() -> None:
    data = completion_renderer().events(
        [ReasoningDelta(text="hm"), OpaqueDelta(fields={"x": Raw(b'{"y":\n1}')})]
    )

    thought, unknown = payloads(data)
    assert b'"text":"","logprobs":null,"finish_reason":null,"reasoning":"hm"}]' in thought
    assert b'"x":{"y":1}}]' in unknown


def test_thinking_and_unknown_fields_are_in_the_choice_of_a_whole_answer() -> None:
    answer = completion_answer(
        ReasoningDelta(text="hm"), OpaqueDelta(fields={"x": Raw(b"1")}), TextDelta(text="a"), STOP
    )

    choice = answer.choices[0].model_dump()
    assert (choice["text"], choice["reasoning"], choice["x"]) == ("a", "hm", 1)


def test_a_refusal_is_text_here() -> None:
    renderer = completion_renderer()

    assert b'"text":"no"' in renderer.events([RefusalDelta(text="no")])
    assert completion_answer(RefusalDelta(text="no"), STOP).choices[0].text == "no"


def test_what_shows_a_client_nothing_sends_nothing() -> None:
    tensor = Tensor(dtype="float32", shape=(1, 1), data=b"\0\0\0\0")

    data = completion_renderer().events(
        [
            Started(),
            Usage(prompt_tokens=1),
            TextDelta(text=""),
            ReasoningDelta(text=""),
            ToolDelta(tool=0, id="c", name="f"),
            Logits(of="context", tensor=tensor),
        ]
    )

    assert data == b""


def test_a_failure_is_one_frame_and_no_end_mark() -> None:
    (payload,) = payloads(completion_renderer().error(UpstreamTimeout("slow", upstream="u")))

    assert payload.startswith(b'{"error":{"message":"u: slow","type":"api_error"')


def test_an_unfinished_choice_is_never_rendered() -> None:
    choice = Choice(index=0, tool_calls=[], logprobs=[], token_ids=[], opaque={})

    with pytest.raises(GatewayError, match="before it was finished"):
        completion_renderer().answer(Answer(started=Started(), choices=[choice]))


@given(st.lists(st.text(), max_size=6), st.integers(0, 3))
def test_frames_carry_any_text(texts: list[str], index: int) -> None:
    data = completion_renderer().events([TextDelta(text=text, index=index) for text in texts])

    assert decoded(data) == [
        {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": CREATED,
            "model": "asked",
            "choices": [{"index": index, "text": t, "logprobs": None, "finish_reason": None}],
        }
        for t in texts
        if t
    ]
