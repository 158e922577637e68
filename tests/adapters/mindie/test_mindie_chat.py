"""Requests and answers of MindIE's chat, where it differs from OpenAI."""

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.errors import InvalidRequest, UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import Event, Finished, ReasoningDelta, TextDelta, Usage
from strowger_gateway.schemas.messages import FunctionTool, ImagePart, Message, TextPart, ToolCall
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.mindie.mindie_doubles import (
    CHAT,
    HELLO,
    Json,
    body,
    events,
    mindie,
    sampled,
    stream,
)
from tests.adapters.traffic import RECORDINGS, fixture, traffic
from tests.stand_ins.mindie_checks import check_chat

WHOLE = ChatRequest(model="m", messages=(HELLO,))
HEAD: Json = {"id": "endpoint_common_1", "model": "m", "created": 5}
recordings = pytest.mark.skipif(not RECORDINGS.is_dir(), reason="the recordings are not here")


def message(one: Message) -> object:
    return msgspec.convert(body(ChatRequest(model="m", messages=(one,)))["messages"], list[Json])[0]


def tool(name: str) -> FunctionTool:
    return FunctionTool(name=name, parameters=Raw(b'{"type":"object"}'))


def delta(fields: Json, finish: str | None = None, index: int = 0, **more: object) -> Json:
    choice = {"index": index, "delta": fields, "logprobs": None, "finish_reason": finish}
    return {**HEAD, "choices": [choice], **more}


def counts(prompt: int, completion: int, cached: int = 0) -> Json:
    return {
        "prompt_tokens": prompt,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens": completion,
        "completion_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": prompt + completion,
    }


def whole(fields: Json, finish: str = "stop") -> list[Event]:
    choice = {"index": 0, "message": fields, "logprobs": None, "finish_reason": finish}
    answer = {**HEAD, "choices": [choice], "usage": counts(9, 3)}
    return events(msgspec.json.encode(answer), WHOLE)


def fold(found: list[Event]) -> Answer:
    one = Fold()
    one.add(found)
    return one.answer()


def test_the_token_limit_has_one_name_and_the_model_is_the_servers() -> None:
    request = msgspec.structs.replace(
        WHOLE,
        sampling=Sampling(max_tokens=5, temperature=0.0),
        max_tokens_field="max_completion_tokens",
    )

    assert body(request) == {
        "model": "m1",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 5,
        "temperature": 0.0,
    }


def test_usage_is_not_requested_in_streams_that_have_it_anyway() -> None:
    assert body(CHAT) == {
        "model": "m1",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
    }


def test_a_nucleus_of_nothing_is_greedy() -> None:
    sent = body(sampled(WHOLE, top_p=0.0, top_k=3))

    assert (sent["temperature"], sent["top_k"]) == (0.0, 3)
    assert "top_p" not in sent


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_parts_that_are_all_text_become_one_string(role: str) -> None:
    parts = (TextPart(text="Hello, "), TextPart(text="you."))
    one = Message(role=msgspec.convert(role, Message.__annotations__["role"]), content=parts)

    sent = msgspec.convert(message(one), dict[str, object])

    assert sent["content"] == "Hello, you."
    assert check_chat({"model": "m1", "messages": [sent]}, "m1") is None


def test_an_image_is_a_bare_url_next_to_its_text() -> None:
    raw = Raw(b'{"type":"text","text":"What is this?"}')
    parts = (TextPart(text="What is this?", raw=raw), ImagePart(url="https://x/y.png"))

    assert message(Message(role="user", content=parts)) == {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": "https://x/y.png"},
        ],
    }


def test_a_way_to_look_at_images_that_the_server_lacks_is_refused_by_name() -> None:
    looked = Message(role="user", content=(ImagePart(url="https://x/y.png", detail="high"),))
    plain = Message(role="user", content=(ImagePart(url="https://x/y.png", detail="auto"),))

    assert message(plain)
    with pytest.raises(InvalidRequest, match=r"^messages\[0\]\.content: .*image_url\.detail"):
        message(looked)


@pytest.mark.parametrize("name", ["look_up-2", "查天气"])
def test_tool_names_may_be_chinese(name: str) -> None:
    sent = body(msgspec.structs.replace(WHOLE, tools=(tool(name),)))

    assert check_chat(sent, "m1") is None


@pytest.mark.parametrize("name", ["look up", "a.b", "x" * 65, "naïve", ""])
def test_tool_names_that_the_server_refuses_are_refused_with_their_place(name: str) -> None:
    request = msgspec.structs.replace(WHOLE, tools=(tool("ok"), tool(name)))

    with pytest.raises(InvalidRequest, match=r"^tools\[1\]\.function\.name: ") as caught:
        mindie().encode(request, "m")

    assert caught.value.param == "tools[1].function.name"


def test_what_the_server_ignores_silently_is_reported() -> None:
    request = msgspec.structs.replace(
        sampled(WHOLE, logit_bias={5: 1.0}, min_p=0.1, bad_words=("x",)),
        parallel_tool_calls=False,
        user="u",
        metadata=Raw(b"{}"),
        reasoning_effort="low",
        priority=1,
        extra={"stream_options": Raw(b'{"x":true,"y":false}'), "service_tier": Raw(b'"x"')},
    )

    found = {one.field for one in unsupported(request, mindie().supports)}

    assert found == {
        "bad_words",
        "logit_bias",
        "metadata",
        "min_p",
        "parallel_tool_calls",
        "priority",
        "reasoning_effort",
        "service_tier",
        "stream_options.x",
        "user",
    }


def test_fields_that_only_mindie_reads_are_forwarded() -> None:
    extra = {
        "chat_template_kwargs": Raw(b'{"enable_thinking":true}'),
        "skip_special_tokens": Raw(b"false"),
        "include_stop_str_in_output": Raw(b"true"),
    }
    request = msgspec.structs.replace(WHOLE, extra=extra)

    sent = body(request)

    assert unsupported(request, mindie().supports) == ()
    assert sent["chat_template_kwargs"] == {"enable_thinking": True}
    assert sent["skip_special_tokens"] is False


def test_usage_in_the_chunk_that_ends_the_answer_is_its_usage() -> None:
    found = translate(mindie(), CHAT, [fixture("mindie/stream-chat").body])

    assert found[1:4] == [
        ReasoningDelta(text="Hm. "),
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
    ]
    usage = found[-1]
    assert isinstance(usage, Usage)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (9, 4, 13)


def test_usage_of_several_choices_adds_up_and_the_prompt_counts_once() -> None:
    request = sampled(CHAT, n=2, temperature=0.5)

    found = events(
        stream(
            delta({"content": "a"}),
            delta({"content": "b"}, index=1),
            delta({}, "stop", 1, usage=counts(24, 5, cached=8)),
            delta({}, "length", usage=counts(24, 7, cached=8)),
            done=True,
        ),
        request,
    )

    assert found[-1] == Usage(
        prompt_tokens=24,
        completion_tokens=12,
        total_tokens=36,
        cached_tokens=8,
        reasoning_tokens=2,
    )


def test_equal_usage_of_two_choices_still_counts_twice() -> None:
    request = sampled(CHAT, n=2)

    answer = fold(events(fixture("mindie/stream-chat-two-choices").body, request))

    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (24, 10)
    assert [choice.text for choice in answer.choices] == ["You are", "We were"]


@pytest.mark.parametrize("place", ["with both ends", "after them"])
def test_usage_of_a_chunk_that_is_not_of_one_choice_is_already_a_total(place: str) -> None:
    ends = [
        {"index": index, "delta": {"content": "a"}, "finish_reason": "stop"} for index in (0, 1)
    ]
    last: Json = {**HEAD, "choices": ends}
    total: Json = {"usage": counts(24, 10)}
    after: Json = {**HEAD, "choices": list[Json](), **total}
    chunks = [{**last, **total}] if place == "with both ends" else [last, after]

    usage = fold(events(stream(*chunks, done=True), sampled(CHAT, n=2))).usage

    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (24, 10)


def test_usage_of_a_complete_answer_is_already_a_total() -> None:
    choices = [
        {"index": place, "message": {"content": "a"}, "finish_reason": "stop"} for place in (0, 1)
    ]
    raw = msgspec.json.encode({**HEAD, "choices": choices, "usage": counts(24, 10)})

    usage = fold(events(raw, sampled(WHOLE, n=2))).usage

    assert usage is not None
    assert usage.completion_tokens == 10


def test_an_empty_list_of_tool_calls_is_none() -> None:
    choice = fold(whole({"role": "assistant", "content": "Hello!", "tool_calls": []})).choices[0]

    assert choice.tool_calls == []
    assert choice.opaque == {}
    assert choice.finish == Finished(reason="stop")


def test_a_tool_call_is_a_tool_call_and_an_empty_content_no_text() -> None:
    answer = fold(
        translate(mindie(), WHOLE, [fixture("mindie/whole-chat-tool-call").body]),
    )

    choice = answer.choices[0]
    assert choice.text is None
    assert choice.tool_calls == [
        ToolCall(id="call_8Fh2", name="weather", arguments='{"city": "Oslo"}')
    ]
    assert choice.finish == Finished(reason="tool_calls")


@pytest.mark.parametrize(
    ("word", "reason", "native"),
    [("stop", "stop", ""), ("length", "length", ""), ("eos_token", "stop", "eos_token")],
)
def test_ends_have_the_newer_finish_reasons_and_the_seeds(
    word: str, reason: str, native: str
) -> None:
    finish = fold(whole({"content": "a"}, word)).choices[0].finish

    assert finish is not None
    assert (finish.reason, finish.native) == (reason, native)


@pytest.mark.parametrize("word", ["stop_sequence", "invalid flag", "invalid finishReason"])
def test_an_answer_that_was_given_up_is_a_failure(word: str) -> None:
    with pytest.raises(UpstreamFailed, match=f"ended with '{word}'"):
        whole({"content": ""}, word)
    with pytest.raises(UpstreamFailed, match=f"ended with '{word}'"):
        events(stream(delta({"content": "a"}), delta({}, word), done=True), CHAT)


@pytest.mark.parametrize("fields", [{"stop": ("b",)}, {"stop_token_ids": (3,)}])
def test_the_seeds_stop_sequence_is_a_stop_if_one_was_requested(
    fields: dict[str, object],
) -> None:
    request = sampled(CHAT, **fields)

    found = events(stream(delta({"content": "a"}), delta({}, "stop_sequence"), done=True), request)

    assert found[-1] == Finished(reason="stop", native="stop_sequence")


def test_a_bare_error_over_several_lines_inside_a_stream_is_that_error() -> None:
    with pytest.raises(UpstreamFailed, match="Failed to get engine response"):
        events(fixture("mindie/stream-chat-error-bare").body, CHAT)


def test_cumulative_text_is_an_error_that_names_the_remedy() -> None:
    frames = (
        delta({"content": "He"}),
        delta({"content": "Hello"}),
        delta({"content": "Hello"}, "stop", full_text="Hello", usage=counts(1, 2)),
    )

    with pytest.raises(UpstreamBroken, match=r"ascend: .*fullTextEnabled must be false"):
        events(stream(*frames, done=True), CHAT)


def test_an_answer_about_cumulative_text_is_only_text() -> None:
    text = 'The field "full_text" repeats the answer.'
    chunks = (delta({"content": text}), delta({}, "stop", full_text=None))

    found = events(stream(*chunks, done=True), CHAT)

    assert fold(found).choices[0].text == text


@recordings
def test_the_documented_stream_of_two_choices_counts_ten_tokens() -> None:
    (case,) = traffic("mindie/chat-stream-n2")

    answer = fold(translate(mindie(), sampled(CHAT, n=2), [case.body]))

    assert [one.text for one in answer.choices] == ["You are a helpful assistant"] * 2
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (24, 10)
