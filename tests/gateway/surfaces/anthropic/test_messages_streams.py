"""Answers of the Messages surface: what clients read, however the events are cut."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.testing import Recording, contract_endpoint, request_for, translate
from strowger_gateway.gateway.surfaces.anthropic.render import MessagesRenderer
from strowger_gateway.schemas.errors import GatewayError, UpstreamBroken
from strowger_gateway.schemas.events import (
    Event,
    Finished,
    OpaqueDelta,
    ReasoningDelta,
    RefusalDelta,
    Started,
    TextDelta,
    ToolDelta,
    Usage,
)
from strowger_gateway.schemas.messages import CLAUDE, GEMINI
from strowger_gateway.schemas.requests import ChatRequest, Original
from tests.adapters.conformance.test_contract import REGISTRY, recorded
from tests.examples import FirstOnly
from tests.gateway.surfaces.anthropic.streams import (
    REQUEST,
    helped,
    in_order,
    messages_stream,
    read_strictly,
    whole_message,
)

STOP = Finished(reason="stop")


def found(*events: Event) -> list[dict[str, object]]:
    """The blocks of a stream with these events."""
    data = messages_stream([[*events, STOP]])
    in_order(read_strictly(data))
    return [one.to_dict() for one in helped(data).content]


def test_a_short_answer_is_these_very_bytes() -> None:
    data = messages_stream([[Started(model="ran"), TextDelta(text="Hi")], [STOP]])

    assert data == (
        b"event: message_start\n"
        b'data: {"type":"message_start","message":{"id":"msg_1","type":"message",'
        b'"role":"assistant","model":"ran","content":[],"stop_reason":null,"stop_sequence":null,'
        b'"usage":{"input_tokens":5,"output_tokens":0}}}\n\n'
        b"event: content_block_start\n"
        b'data: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":""}}\n\n'
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"Hi"}}\n\n'
        b"event: content_block_stop\n"
        b'data: {"type":"content_block_stop","index":0}\n\n'
        b"event: message_delta\n"
        b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
        b'"usage":{"input_tokens":0,"output_tokens":0}}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    )  # fmt: skip


def test_counts_that_a_backend_writes_on_several_lines_end_no_frame() -> None:
    counts = Usage(raw=Raw(b'{"input_tokens":3,"output_tokens":1,"server_tool_use":{\n}}'))

    data = messages_stream([[counts, TextDelta(text="Hi")], [counts, STOP]])

    frames = [frame for frame in data.split(b"\n\n") if b'"server_tool_use":{' in frame]
    assert [frame.count(b"\n") for frame in frames] == [1, 1]


def test_an_error_is_an_event_and_no_end() -> None:
    exc = UpstreamBroken("cut off", upstream="remote")
    exc.request_id = "r-1"

    data = MessagesRenderer(REQUEST, id="msg_1").error(exc)

    name, payload = data.removesuffix(b"\n\n").split(b"\n")
    assert name == b"event: error"
    assert json.loads(payload.removeprefix(b"data: ")) == {
        "type": "error",
        "error": {"type": "api_error", "message": "remote: cut off", "code": "upstream_broken"},
        "request_id": "r-1",
    }


def test_calls_whose_arguments_come_in_turns_are_one_block_each() -> None:
    blocks = found(
        ToolDelta(tool=0, id="a", name="one"),
        ToolDelta(tool=0, arguments='{"x"'),
        ToolDelta(tool=1, id="b", name="two", arguments='{"y":'),
        TextDelta(text="meanwhile"),
        ToolDelta(tool=0, arguments=":1}"),
        ToolDelta(tool=1, arguments="2}"),
        TextDelta(text=" done"),
    )

    assert [one["type"] for one in blocks] == ["tool_use", "tool_use", "text"]
    assert [one.get("input") for one in blocks[:2]] == [{"x": 1}, {"y": 2}]
    assert blocks[2]["text"] == "meanwhile done"


def test_a_call_that_is_cut_off_ends_with_its_block() -> None:
    data = messages_stream(
        [[ToolDelta(tool=0, id="a", name="f", arguments='{"x'), Finished(reason="length")]]
    )

    in_order(read_strictly(data))
    assert helped(data).stop_reason == "max_tokens"


def test_a_call_without_arguments_has_an_empty_object() -> None:
    (block,) = found(ToolDelta(tool=0, id="a", name="clock"))

    assert block == {"type": "tool_use", "id": "a", "name": "clock", "input": {}}


def test_a_call_ends_an_answer_with_tool_use_whatever_the_vendor_says() -> None:
    call = ToolDelta(tool=0, id="a", name="f", arguments="{}")

    assert helped(messages_stream([[call, STOP]])).stop_reason == "tool_use"
    assert whole_message([call, STOP]).stop_reason == "tool_use"


def test_signatures_name_the_vendor_that_made_them_unless_it_is_claude() -> None:
    blocks = found(
        ReasoningDelta(text="Hm", signature="sig", format=CLAUDE),
        ReasoningDelta(text="", block=1, data="ZGF0YQ==", format=GEMINI),
        ToolDelta(tool=0, id="c:1", name="f", arguments="{}", signature="proof"),
    )

    assert blocks[:3] == [
        {"type": "thinking", "thinking": "Hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": f"{GEMINI}:ZGF0YQ=="},
        {"type": "thinking", "thinking": "", "signature": f"{GEMINI}:call:c:1:proof"},
    ]


@pytest.mark.parametrize(
    ("end", "reason", "sequence"),
    [
        (Finished(reason="stop"), "end_turn", None),
        (Finished(reason="stop", stop_match="END"), "stop_sequence", "END"),
        (Finished(reason="stop", stop_match=7), "end_turn", None),
        (Finished(reason="length"), "max_tokens", None),
        (Finished(reason="content_filter"), "refusal", None),
        (Finished(reason="stop", native="pause_turn"), "pause_turn", None),
        (
            Finished(reason="length", native="model_context_window_exceeded"),
            "model_context_window_exceeded",
            None,
        ),
    ],
)
def test_an_answer_says_why_it_ended(end: Finished, reason: str, sequence: str | None) -> None:
    events = [TextDelta(text="a"), end]
    for answer in (helped(messages_stream([events])), whole_message(events)):
        assert (answer.stop_reason, answer.stop_sequence) == (reason, sequence)


def test_a_refusal_in_words_is_text_and_the_reason() -> None:
    events = [RefusalDelta(text="I cannot."), STOP]

    for answer in (helped(messages_stream([events])), whole_message(events)):
        assert answer.stop_reason == "refusal"
        assert [one.to_dict() for one in answer.content] == [{"type": "text", "text": "I cannot."}]


def test_cached_tokens_are_not_among_the_input_tokens() -> None:
    counts = Usage(
        prompt_tokens=100,
        completion_tokens=7,
        cached_tokens=60,
        cache_write_tokens=30,
        cache_write_1h_tokens=10,
        reasoning_tokens=3,
    )
    events = [TextDelta(text="a"), STOP, counts]

    for answer in (helped(messages_stream([events])), whole_message(events)):
        usage = answer.usage
        assert (usage.input_tokens, usage.output_tokens) == (10, 7)
        assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (60, 30)
    assert whole_message(events).usage.cache_creation is not None


def test_what_the_schema_does_not_have_is_still_there() -> None:
    events = [TextDelta(text="a"), OpaqueDelta(fields={"annotations": Raw(b"[1]")}), STOP]

    assert whole_message(events).to_dict()["annotations"] == [1]
    assert b'"annotations":[1]' in messages_stream([events])


pieces = st.text(max_size=6)
EVENTS = st.lists(
    st.one_of(
        st.builds(TextDelta, text=pieces),
        st.builds(ReasoningDelta, text=pieces, block=st.integers(0, 2), signature=pieces),
        st.builds(RefusalDelta, text=pieces),
        st.builds(
            ToolDelta,
            tool=st.integers(0, 2),
            id=st.just("id"),
            name=st.just("f"),
            arguments=st.sampled_from(["", "{}", '{"a"', ":1}", "}", "[", "\n"]),
        ),
        st.builds(Usage, prompt_tokens=st.integers(0, 9), completion_tokens=st.integers(0, 9)),
    ),
    max_size=12,
)


@given(events=EVENTS, data=st.data())
def test_batches_never_show(events: list[Event], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    edges = [0, *cuts, len(events)]
    batches = [events[a:b] for a, b in pairwise(edges)]

    whole = messages_stream([[*events, STOP]])

    assert messages_stream([*batches, [STOP]]) == whole
    in_order(read_strictly(whole))


@given(text=st.text(max_size=30), arguments=st.dictionaries(pieces, pieces), data=st.data())
def test_cutting_pieces_again_changes_nothing(
    text: str, arguments: dict[str, str], data: st.DataObject
) -> None:
    def cut(whole: str) -> list[str]:
        at = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
        edges = [0, *at, len(whole)]
        return [whole[a:b] for a, b in pairwise(edges)]

    written = json.dumps(arguments)
    events: list[Event] = [
        *(ReasoningDelta(text=one) for one in cut(text)),
        ReasoningDelta(text="", signature="s", format=CLAUDE),
        *(TextDelta(text=one) for one in ["a", *cut(text)]),
        ToolDelta(tool=0, id="a", name="f"),
        *(ToolDelta(tool=0, arguments=one) for one in cut(written)),
        STOP,
    ]

    streamed, whole = helped(messages_stream([events])), whole_message(events)

    assert [one.to_dict() for one in streamed.content] == [one.to_dict() for one in whole.content]
    assert [one.to_dict() for one in whole.content] == [
        {"type": "thinking", "thinking": text, "signature": "s"},
        {"type": "text", "text": "a" + text},
        {"type": "tool_use", "id": "a", "name": "f", "input": arguments},
    ]


FIRST = FirstOnly()
RECORDED = [
    pytest.param(name, one, id=f"{name} {one.name}", marks=FIRST.marks(one.name, name))
    for name in REGISTRY.names
    for one in recorded(name)
    if one.status == 200 and isinstance(request_for(one), ChatRequest)
]


@pytest.mark.parametrize(("name", "recording"), RECORDED)
def test_every_recorded_answer_is_one_that_the_official_client_reads(
    name: str, recording: Recording
) -> None:
    adapter = REGISTRY.build(name, contract_endpoint())
    request = request_for(recording)
    assert isinstance(request, ChatRequest)
    request = replace(request, original=Original(dialect="anthropic", fields={}, read=request))
    try:
        events = translate(adapter, request, [recording.body])
    except GatewayError:
        pytest.skip("a recorded failure")
    events = [one for one in events if getattr(one, "index", 0) == 0]

    data = messages_stream([events])

    streamed = helped(data)
    if name.endswith("anthropic") and recording.streamed:
        return  # its own blocks are passed on as they are (test_messages_to_claude.py)
    in_order(read_strictly(data))
    whole = whole_message(events)
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    calls = [[b.to_dict() for b in m.content if b.type == "tool_use"] for m in (streamed, whole)]
    texts = ["".join(b.text for b in m.content if b.type == "text") for m in (streamed, whole)]
    assert calls[0] == calls[1]
    assert texts[0] == texts[1]
