"""Chat answers without streaming."""

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import GatewayError
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolDelta,
    Usage,
)
from tests.gateway.surfaces.answers import (
    CREATED,
    STOP,
    chat_answer,
    chat_renderer,
    folded,
    started,
)

CALLED = Finished(reason="tool_calls")


def message(*events: Event) -> dict[str, object]:
    """The message of the only choice, without what the backend was silent about."""
    return chat_answer(*events).choices[0].message.model_dump(exclude_unset=True)


def test_an_answer_is_these_very_bytes() -> None:
    answer = folded(
        started(system_fingerprint=b'"fp"'),
        TextDelta(text="Hi"),
        TextDelta(text="!"),
        STOP,
        Usage(prompt_tokens=2, completion_tokens=1),
    )

    assert chat_renderer().answer(answer) == (
        b'{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"ran",'
        b'"choices":[{"index":0,"message":{"role":"assistant","content":"Hi!","refusal":null},'
        b'"logprobs":null,"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3},'
        b'"system_fingerprint":"fp"}'
    )


def test_the_official_client_reads_an_answer() -> None:
    answer = chat_answer(TextDelta(text="Hi"), STOP, Usage(prompt_tokens=2, completion_tokens=1))

    assert answer.id == "chatcmpl-1"
    assert answer.created == CREATED
    assert answer.model == "asked"
    assert answer.choices[0].message.content == "Hi"
    assert answer.usage is not None


def test_choices_are_in_the_order_of_their_index() -> None:
    answer = chat_answer(
        TextDelta(text="b", index=1),
        TextDelta(text="a"),
        Finished(reason="length", index=1),
        STOP,
    )

    assert [(c.index, c.message.content, c.finish_reason) for c in answer.choices] == [
        (0, "a", "stop"),
        (1, "b", "length"),
    ]


def test_a_pure_tool_call_has_null_for_content() -> None:
    read = message(ToolDelta(tool=0, id="c1", name="f", arguments='{"a":1}'), CALLED)

    assert read == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
        ],
    }


def test_empty_text_next_to_a_tool_call_is_null_too() -> None:
    read = message(TextDelta(text=""), ToolDelta(tool=0, id="c1", name="f"), CALLED)

    assert read["content"] is None


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    read = chat_answer(ToolDelta(tool=0, id="c1", name="f"), CALLED)

    (call,) = read.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert call.function.arguments == "{}"


def test_a_choice_that_called_a_tool_ended_for_that() -> None:
    answer = chat_answer(ToolDelta(tool=0, id="c1", name="f"), STOP)

    assert answer.choices[0].finish_reason == "tool_calls"


def test_a_choice_without_text_has_empty_content() -> None:
    assert message(STOP)["content"] == ""


def test_a_refusal_has_its_own_field() -> None:
    read = message(RefusalDelta(text="I will not"), STOP)

    assert (read["content"], read["refusal"]) == (None, "I will not")


def test_thinking_is_next_to_the_text() -> None:
    read = message(ReasoningDelta(text="hm", signature="s"), TextDelta(text="4"), STOP)

    assert read["content"] == "4"
    assert read["reasoning"] == read["reasoning_content"] == "hm"
    assert read["reasoning_signature"] == "s"


def test_unknown_fields_are_in_the_message() -> None:
    read = message(OpaqueDelta(fields={"annotations": Raw(b"[]")}), TextDelta(text="4"), STOP)

    assert read["annotations"] == []


def test_log_probabilities_are_next_to_the_message() -> None:
    item = TokenLogprob(token="4", logprob=-0.5)

    answer = chat_answer(TextDelta(text="4", logprobs=(item,)), STOP)

    assert answer.choices[0].logprobs is not None
    assert answer.choices[0].logprobs.content is not None
    assert answer.choices[0].logprobs.content[0].bytes == [52]


def test_the_vendors_finish_reason_is_next_to_ours() -> None:
    answer = chat_answer(Finished(reason="stop", native="eos_token", stop_match="END"))

    choice = answer.choices[0].model_dump()
    assert choice["native_finish_reason"] == "eos_token"
    assert choice["stop_reason"] == "END"


@pytest.mark.parametrize(
    ("usage", "wire"),
    [
        (
            Usage(prompt_tokens=5, completion_tokens=3, total_tokens=9),
            {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 9},
        ),
        (
            Usage(prompt_tokens=5),
            {"prompt_tokens": 5, "completion_tokens": None, "total_tokens": None},
        ),
        (
            Usage(
                prompt_tokens=5,
                completion_tokens=3,
                cached_tokens=0,
                cache_write_tokens=2,
                reasoning_tokens=1,
            ),
            {
                "prompt_tokens": 5,
                "completion_tokens": 3,
                "total_tokens": 8,
                "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 1},
            },
        ),
        (
            Usage(
                prompt_tokens=5,
                completion_tokens=3,
                cached_tokens=4,
                raw=Raw(
                    b'{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":1,'
                    b'"audio_tokens":2},"completion_tokens_details":null}'
                ),
            ),
            {
                "prompt_tokens": 5,
                "completion_tokens": 3,
                "total_tokens": 8,
                "prompt_tokens_details": {"cached_tokens": 4, "audio_tokens": 2},
            },
        ),
        (
            Usage(
                prompt_tokens=5, completion_tokens=3, raw=Raw(b'{"prompt_tokens_details":[1,2]}')
            ),
            {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
        ),
    ],
)
def test_usage_has_what_is_known(usage: Usage, wire: dict[str, object]) -> None:
    body = chat_renderer().answer(folded(TextDelta(text="4"), STOP, usage))

    read = msgspec.json.decode(body, type=dict[str, Raw])
    assert msgspec.json.decode(read["usage"]) == wire


def test_no_usage_is_made_up_for_a_silent_backend() -> None:
    assert b"usage" not in chat_renderer().answer(folded(TextDelta(text="4"), STOP))


def test_an_unfinished_choice_is_never_rendered() -> None:
    choice = Choice(index=0, tool_calls=[], logprobs=[], token_ids=[], opaque={})

    with pytest.raises(GatewayError, match="before it was finished"):
        chat_renderer().answer(Answer(started=Started(), choices=[choice]))
