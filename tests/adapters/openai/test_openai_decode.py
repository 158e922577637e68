"""Answers of the OpenAI dialect, streamed and complete, decode to events."""

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.schemas.errors import (
    UpstreamFailed,
)
from strowger_gateway.schemas.events import (
    OF_CHOICE,
    Finished,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    TokenLogprob,
    Usage,
)
from strowger_gateway.schemas.requests import CompletionRequest
from tests.adapters.chats import folded
from tests.adapters.openai.openai_doubles import (
    COMPLETION,
    WHOLE_CHAT,
    Json,
    delta,
    events,
    message,
    openai,
    stream,
    streamed,
    whole,
)

ROLE = delta({"role": "assistant", "content": ""})
STOP = delta(finish="stop")


def test_a_plain_stream_gives_start_text_finish_and_usage() -> None:
    found = streamed(
        delta({"role": "assistant", "content": ""}),
        delta({"content": "Hel"}),
        delta({"content": "lo"}),
        STOP,
        {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 0}},
    )

    raw = Raw(b'{"prompt_tokens":2,"completion_tokens":0}')
    assert found == [
        Started(id="c1", model="m", created=5),
        TextDelta(text="Hel"),
        TextDelta(text="lo"),
        Finished(reason="stop"),
        Usage(prompt_tokens=2, completion_tokens=0, raw=raw),
    ]


def test_a_complete_answer_gives_what_a_stream_would_have_given() -> None:
    counts = {"prompt_tokens": 2, "completion_tokens": 1}
    told = {"role": "assistant", "reasoning": "hm", "content": "Hello"}

    answer = whole({**message(told), "usage": counts, "system_fingerprint": "f"})

    last = {"delta": {"refusal": None}, "finish_reason": "stop"}
    assert answer == streamed(
        {"id": "c1", "choices": [], "system_fingerprint": "f"},
        {"id": "c1", "choices": [{"delta": told}]},
        {"choices": [last], "usage": counts},
    )


def test_an_id_that_is_not_utf_8_is_no_id() -> None:
    body = b'{"id":"\xed\xa0\x80","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'

    decoder = openai().decoder(WHOLE_CHAT)

    assert [*decoder.feed("", body)] == [Started(), TextDelta(text="hi"), Finished(reason="stop")]


def test_choices_come_in_any_order_and_keep_their_index() -> None:
    found = events(
        stream(
            delta({"content": "b"}, index=1),
            delta({"content": "a"}),
            delta(finish="length", index=1),
            delta(finish="stop"),
        )
    )

    choices = folded(found).choices
    assert [(one.index, one.text) for one in choices] == [(0, "a"), (1, "b")]
    assert [one.finish.reason for one in choices if one.finish] == ["stop", "length"]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_read_under_both_of_its_names(name: str) -> None:
    found = streamed(ROLE, delta({name: "hm"}), delta({"content": "x"}), STOP)

    assert found[1] == ReasoningDelta(text="hm")
    assert whole(message({name: "hm", "content": "x"}))[1] == ReasoningDelta(text="hm")


def test_a_refusal_is_not_text() -> None:
    found = streamed(ROLE, delta({"refusal": "No."}), STOP)

    assert found[1:] == [RefusalDelta(text="No."), Finished(reason="stop")]
    assert folded(found).choices[0].refusal == "No."


def test_content_as_a_list_is_split_into_reasoning_text_and_refusal() -> None:
    parts = [
        {"type": "reasoning", "summary": [{"text": "so", "signature": "s1"}, {"text": " on"}]},
        {"type": "thinking", "thinking": [{"type": "text", "text": "!"}]},
        {"type": "text", "text": "Yes"},
        {"type": "output_text", "text": "."},
        {"type": "refusal", "refusal": "but no"},
    ]

    found = whole(message({"role": "assistant", "content": parts}))

    assert found[1:-1] == [
        ReasoningDelta(text="so", signature="s1"),
        ReasoningDelta(text=" on", block=1),
        ReasoningDelta(text="!", block=1),
        TextDelta(text="Yes."),
        RefusalDelta(text="but no"),
    ]


def test_a_part_of_an_unknown_kind_is_carried() -> None:
    found = whole(message({"content": [{"type": "hologram", "x": 1}, {"type": "text", "text": 5}]}))

    assert found[1] == OpaqueDelta(
        fields={"content_parts": Raw(b'[{"type":"hologram","x":1},{"type":"text","text":5}]')}
    )


def test_unknown_fields_of_a_message_are_carried() -> None:
    audio = {"id": "a", "data": "AA"}

    found = streamed(ROLE, delta({"content": "x", "audio": audio}), delta({"mood": None}), STOP)

    assert found[1:3] == [
        TextDelta(text="x"),
        OpaqueDelta(fields={"audio": Raw(msgspec.json.encode(audio))}),
    ]
    assert not any(isinstance(one, OpaqueDelta) for one in found[3:])


def test_an_empty_list_of_annotations_is_forwarded_and_changes_nothing_else() -> None:
    told: Json = {"role": "assistant", "content": "Hello", "refusal": None, "annotations": []}
    parts: Json = {**told, "content": [{"type": "text", "text": "Hello"}]}

    found = whole(message(told))

    assert found[1:] == [
        TextDelta(text="Hello"),
        OpaqueDelta(fields={"annotations": Raw(b"[]")}),
        Finished(reason="stop"),
    ]
    assert found == whole(message(parts))


def test_annotations_are_forwarded_as_they_are() -> None:
    cited = [{"type": "url_citation", "url_citation": {"url": "https://example.org"}}]

    found = whole(message({"role": "assistant", "content": "Hello", "annotations": cited}))

    assert found[2] == OpaqueDelta(fields={"annotations": Raw(msgspec.json.encode(cited))})


def test_unknown_fields_of_the_answer_are_in_its_start() -> None:
    first = dict(ROLE) | {"service_tier": "flex", "system_fingerprint": None, "object": "x"}

    found = streamed(first, delta({"content": "x"}), STOP)

    assert found[0] == Started(
        id="c1", model="m", created=5, extra={"service_tier": Raw(b'"flex"')}
    )


def test_a_first_chunk_without_choices_does_not_give_the_answer_its_id() -> None:
    found = streamed(
        {"id": "", "model": "", "choices": [], "prompt_filter_results": [1]}, ROLE, STOP
    )

    assert found[0] == Started(
        id="c1", model="m", created=5, extra={"prompt_filter_results": Raw(b"[1]")}
    )


def test_an_empty_text_is_an_empty_text_and_not_none() -> None:
    assert folded(streamed(ROLE, STOP)).choices[0].text == ""
    assert folded(whole(message({"content": ""}, "length"))).choices[0].text == ""
    assert folded(whole(message({"content": None}))).choices[0].text is None


@pytest.mark.parametrize(
    ("word", "reason", "native"),
    [
        ("stop", "stop", ""),
        ("length", "length", ""),
        ("content_filter", "content_filter", ""),
        ("function_call", "function_call", ""),
        ("eos_token", "stop", "eos_token"),
        ("MAX_TOKENS", "length", "MAX_TOKENS"),
        ("sensitive", "content_filter", "sensitive"),
        ("gone_fishing", "stop", "gone_fishing"),
        ("", "stop", ""),
    ],
)
def test_finish_reasons_become_ours_and_stay_visible(word: str, reason: str, native: str) -> None:
    found = streamed(ROLE, delta({"content": "x"}), delta(finish=word))
    told = [one for one in found if isinstance(one, Finished)]

    assert [(one.reason, one.native) for one in told] == [(reason, native)]


@pytest.mark.parametrize(
    "word", ["error", "insufficient_system_resource", "network_error", "abort"]
)
def test_a_finish_reason_of_a_failed_answer_is_a_failure(word: str) -> None:
    end = {**delta(finish=word), "usage": {"prompt_tokens": 5, "completion_tokens": 2}}

    with pytest.raises(UpstreamFailed, match=f"acme: the answer ended with '{word}'") as caught:
        streamed(ROLE, delta({"content": "x"}), end)
    with pytest.raises(UpstreamFailed):
        whole(message({"content": "x"}, word))

    assert caught.value.usage is not None, "it is charged for"
    assert (caught.value.usage.prompt_tokens, caught.value.usage.completion_tokens) == (5, 2)


def test_a_finish_reason_that_comes_twice_counts_once() -> None:
    found = streamed(ROLE, delta({"content": "x"}, "length"), delta({"content": ""}, "length"))

    assert [type(one) for one in found] == [Started, TextDelta, Finished]


def test_the_native_finish_reason_the_stop_string_and_the_seed_are_kept() -> None:
    more: Json = {"native_finish_reason": "end_turn", "stop_reason": "END", "seed": 7}

    found = whole(message({"content": "x"}, "stop", **more))

    assert found[-1] == Finished(reason="stop", native="end_turn", stop_match="END", seed=7)


def test_chat_logprobs_are_read_with_bytes_only_where_they_add_something() -> None:
    tops = [
        {"token": "4", "logprob": -0.5, "bytes": [52]},
        {"token": "�", "logprob": -9.0, "bytes": [226]},
    ]
    one = {"token": "4", "logprob": -0.5, "bytes": [52], "top_logprobs": tops}

    found = streamed(ROLE, delta({"content": "4"}, logprobs={"content": [one]}), STOP)

    top = (
        TokenLogprob(token="4", logprob=-0.5),
        TokenLogprob(token="�", logprob=-9.0, bytes=(226,)),
    )
    assert found[1] == TextDelta(
        text="4", logprobs=(TokenLogprob(token="4", logprob=-0.5, top=top),)
    )


def test_completion_logprobs_are_read_and_ranked() -> None:
    logprobs = {
        "tokens": ["a", "b"],
        "token_logprobs": [None, -0.5],
        "top_logprobs": [None, {"c": -2.0, "b": -0.5}],
        "text_offset": [7, -1],
    }
    choice = {"text": "ab", "index": 0, "finish_reason": "stop", "logprobs": logprobs}

    found = events(
        msgspec.json.encode({"choices": [choice]}), CompletionRequest(model="m", prompts=("a",))
    )

    top = (TokenLogprob(token="b", logprob=-0.5), TokenLogprob(token="c", logprob=-2.0))
    assert found[1] == TextDelta(
        text="ab",
        logprobs=(
            TokenLogprob(token="a", logprob=None, offset=7),
            TokenLogprob(token="b", logprob=-0.5, top=top),
        ),
    )


def test_completions_of_several_prompts_may_come_out_of_order() -> None:
    choices = [{"text": t, "index": i, "finish_reason": "stop"} for i, t in ((1, "b"), (0, "a"))]
    request = CompletionRequest(model="m", prompts=("x", "y"), batch=True)

    found = events(msgspec.json.encode({"choices": choices}), request)

    assert [one.text for one in folded(found).choices] == ["a", "b"]


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"prompt_tokens": 5, "prompt_tokens_details": None}, Usage(prompt_tokens=5)),
        (
            {
                "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(cached_tokens=0, cache_write_tokens=2, reasoning_tokens=3),
        ),
        (
            {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 1},
            Usage(cached_tokens=4, cache_write_tokens=1),
        ),
        ({"prompt_cache_hit_tokens": 4}, Usage(cached_tokens=4)),
        (
            {"prompt_tokens_details": {"cached_tokens": 2, "cache_creation_tokens": 5}},
            Usage(cached_tokens=2, cache_write_tokens=5),
        ),
        ({"reasoning_tokens": 4}, Usage(reasoning_tokens=4)),
        ({"prompt_tokens": "many"}, Usage()),
    ],
)
def test_counts_are_read_under_every_name_and_kept_raw(counts: Json, usage: Usage) -> None:
    found = streamed(ROLE, STOP, {"choices": [], "usage": counts})

    raw = Raw(msgspec.json.encode(counts))
    assert found[-1] == msgspec.structs.replace(usage, raw=raw)


def test_usage_on_every_chunk_is_reported_when_it_changes() -> None:
    early, late = (
        {"prompt_tokens": 3, "completion_tokens": None},
        {"prompt_tokens": 3, "completion_tokens": 2},
    )

    found = streamed(
        dict(ROLE) | {"usage": early},
        dict(delta({"content": "a"})) | {"usage": early},
        dict(delta({"content": "b"})) | {"usage": early},
        dict(STOP) | {"usage": late},
    )

    assert [one.completion_tokens for one in found if isinstance(one, Usage)] == [None, 2]
    assert folded(found).choices[0].text == "ab"


def test_a_known_field_of_the_wrong_type_is_carried_and_not_lost() -> None:
    found = whole(message({"content": "x", "reasoning": {"effort": 1}}))

    assert found[1:3] == [
        TextDelta(text="x"),
        OpaqueDelta(fields={"reasoning": Raw(b'{"effort":1}')}),
    ]


def test_a_legacy_function_call_is_carried() -> None:
    called = {"name": "f", "arguments": "{}"}

    found = whole(message({"content": None, "function_call": called}, "function_call"))

    assert found[1:] == [
        OpaqueDelta(fields={"function_call": Raw(msgspec.json.encode(called))}),
        Finished(reason="function_call"),
    ]


def test_fields_with_nothing_in_them_are_not_content() -> None:
    hollow = {
        "audio": {"data": "", "expires_at": 0},
        "function_call": {"name": "", "arguments": ""},
    }

    found = whole(message({"content": "x", **hollow}))

    assert found[1:] == [TextDelta(text="x"), Finished(reason="stop")]


@pytest.mark.parametrize(("created", "seconds"), [(7, 7), (7.9, 7), ("now", 0), (None, 0)])
def test_a_time_is_whole_seconds_or_none(created: object, seconds: int) -> None:
    start = whole({**message({"content": "x"}), "created": created})[0]

    assert isinstance(start, Started)
    assert start.created == seconds


def test_an_id_that_is_a_number_is_read() -> None:
    found = events(
        msgspec.json.encode({**message({"content": "x"}), "id": 7}), WHOLE_CHAT, openai()
    )

    assert isinstance(found[0], Started)
    assert found[0].id == "7"


def test_a_completion_stream_is_read() -> None:
    chunks = [
        {"id": "c", "choices": [{"index": 0, "text": text, "finish_reason": finish}]}
        for text, finish in (("a", None), ("b", None), ("", "length"))
    ]

    found = events(stream(*chunks), COMPLETION)

    assert found[1:] == [TextDelta(text="a"), TextDelta(text="b"), Finished(reason="length")]


@pytest.mark.parametrize(
    ("head", "id"),
    [
        ({"id": 7, "created": 1.5, "model": None, "object": None}, "7"),
        ({"id": None, "created": None}, ""),
        ({"id": "a", "created": 10**30}, "a"),
    ],
)
def test_unusual_types_next_to_the_choices_lose_no_text(head: Json, id: str) -> None:
    """And neither does a member of a choice that has the name of one of our own fields."""
    deltas: list[dict[str, object]] = [{"index": 0, "delta": {"content": text}} for text in "abc"]
    deltas[1]["more"] = {"k": 1}

    events = streamed(*({**head, "choices": [delta]} for delta in deltas))

    assert [one.id for one in events if isinstance(one, Started)] == [id]
    assert "".join(one.text for one in events if isinstance(one, TextDelta)) == "abc"
    assert [list(one.fields) for one in events if isinstance(one, OpaqueDelta)] == [
        [f"{OF_CHOICE}more"]
    ]
