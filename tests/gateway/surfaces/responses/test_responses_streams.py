"""Answers of the Responses surface: what clients read, however the events are cut."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from strowger_gateway.adapters.testing import Recording, contract_endpoint, request_for, translate
from strowger_gateway.schemas.errors import GatewayError, UpstreamBroken, UpstreamBusy
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
from strowger_gateway.schemas.messages import CLAUDE, GEMINI
from strowger_gateway.schemas.requests import ChatRequest, Original
from tests.adapters.conformance.test_contract import REGISTRY, recorded
from tests.examples import FirstOnly
from tests.gateway.backends.vendors.dialect import dicts, inner
from tests.gateway.surfaces.responses.streams import (
    NOW,
    Json,
    asked,
    frames,
    helped,
    last_response,
    put_together,
    renderer,
    response_stream,
    whole_response,
)

STOP = Finished(reason="stop")
PATCH = {"type": "custom", "name": "patch"}


def found(*events: Event, request: ChatRequest | None = None) -> list[Json]:
    """The items of a stream with these events, which are those of its last event."""
    data = response_stream([[*events, STOP]], request)
    seen = frames(data)
    items = put_together(seen)
    assert last_response(data)["output"] == items
    return items


def test_a_short_answer_is_these_events() -> None:
    data = response_stream([[Started(model="ran"), TextDelta(text="Hi")], [STOP]])

    assert [one["type"] for one in frames(data)] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert data.endswith(b"\n\ndata: [DONE]\n\n")
    assert (
        b"event: response.output_text.delta\n"
        b'data: {"type":"response.output_text.delta","item_id":"msg_r1_0","output_index":0,'
        b'"content_index":0,"delta":"Hi","logprobs":[],"sequence_number":4}\n\n'
    ) in data


def test_the_last_event_has_the_whole_response() -> None:
    counts = Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=60, reasoning_tokens=3)
    events = [Started(model="ran"), TextDelta(text="Hi"), STOP, counts]
    request = asked(
        instructions="Be brief.",
        metadata={"run": "7"},
        temperature=0.5,
        tools=[{"type": "function", "name": "f"}],
        reasoning={"effort": "low"},
        text={"verbosity": "low"},
        max_output_tokens=50,
        prompt_cache_key="k",
    )

    whole = whole_response(events, request)

    assert last_response(response_stream([events], request)) == whole
    assert whole == {
        "id": "resp_r1",
        "object": "response",
        "created_at": NOW - 2,
        "background": False,
        "status": "completed",
        "completed_at": NOW,
        "error": None,
        "incomplete_details": None,
        "model": "ran",
        "output": [
            {
                "id": "msg_r1_0",
                "type": "message",
                "status": "completed",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}
                ],
            }
        ],
        "service_tier": "default",
        "previous_response_id": None,
        "instructions": "Be brief.",
        "tools": [
            {"type": "function", "name": "f"}
            | {"description": None, "parameters": None, "strict": None}
        ],
        "tool_choice": "auto",
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "top_logprobs": 0,
        "temperature": 0.5,
        "reasoning": {"effort": "low", "summary": None},
        "max_output_tokens": 50,
        "max_tool_calls": None,
        "store": False,
        "metadata": {"run": "7"},
        "safety_identifier": None,
        "prompt_cache_key": "k",
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 107,
        },
    }


@pytest.mark.parametrize(
    ("exc", "code"),
    [
        (UpstreamBroken("cut off", upstream="remote"), "server_error"),
        (UpstreamBusy("slow down", upstream="remote"), "rate_limit_exceeded"),
    ],
)
def test_a_failure_is_a_failed_response_and_an_error_and_no_end(
    exc: GatewayError, code: str
) -> None:
    writer = renderer()
    call = ToolDelta(tool=0, id="a", name="f", arguments="{}")
    begun = writer.events([Started(model="ran"), call, TextDelta(text="hel")])

    data = writer.error(exc)

    *_, failed, error = frames(begun + data)
    response = inner(failed, "response")
    assert (failed["type"], response["status"]) == ("response.failed", "failed")
    assert response["error"] == {"code": code, "message": exc.message}
    assert [one["type"] for one in dicts(response["output"])] == ["function_call"]
    assert (error["type"], error["code"], error["message"]) == ("error", exc.code, exc.message)
    assert b"[DONE]" not in data


def test_a_failure_before_any_event_begins_the_response_first() -> None:
    data = renderer().error(UpstreamBroken("cut off", upstream="remote"))

    assert [one["type"] for one in frames(data)] == [
        "response.created",
        "response.in_progress",
        "response.failed",
        "error",
    ]


def test_calls_whose_arguments_come_in_turns_are_one_item_each() -> None:
    items = found(
        ToolDelta(tool=0, id="a", name="one"),
        ToolDelta(tool=0, arguments='{"x"'),
        ToolDelta(tool=1, id="b", name="two", arguments='{"y":'),
        TextDelta(text="meanwhile"),
        ToolDelta(tool=0, arguments=":1}"),
        ToolDelta(tool=1, arguments="2}"),
        TextDelta(text=" done"),
    )

    assert [one["type"] for one in items] == ["function_call", "function_call", "message"]
    assert [one.get("arguments") for one in items[:2]] == ['{"x":1}', '{"y":2}']


def test_a_complete_call_ends_when_the_next_item_begins() -> None:
    writer = renderer()
    first = ToolDelta(tool=0, id="a", name="one", arguments="{}")
    writer.events([first])

    data = writer.events([ToolDelta(tool=1, id="b", name="two")])

    assert b"response.function_call_arguments.done" in data
    assert data.index(b"output_item.done") < data.index(b"output_item.added")


def test_a_call_without_arguments_has_an_empty_object() -> None:
    (item,) = found(ToolDelta(tool=0, id="a", name="clock"))

    assert item == {
        "id": "fc_r1_0",
        "type": "function_call",
        "status": "completed",
        "call_id": "a",
        "name": "clock",
        "arguments": "{}",
    }


def test_a_custom_tool_gets_its_input_and_no_json() -> None:
    call = ToolDelta(tool=0, id="a", name="patch", arguments='{"input":"*** \\"x\\""}')
    request = asked(tools=[PATCH])

    (item,) = found(call, request=request)

    assert (item["type"], item["input"]) == ("custom_tool_call", '*** "x"')
    assert whole_response([call, STOP], request)["output"] == [item]


def test_a_custom_tool_gets_what_the_model_wrote_if_that_is_not_the_function() -> None:
    call = ToolDelta(tool=0, id="a", name="patch", arguments="*** Begin")

    (item,) = found(call, request=asked(tools=[PATCH]))

    assert item["input"] == "*** Begin"


def test_reasoning_has_its_text_and_what_its_vendor_wants_back() -> None:
    items = found(
        ReasoningDelta(text="Hm", signature="sig", format=CLAUDE),
        ReasoningDelta(text="", block=1, data="ZGF0YQ==", format=GEMINI),
        ReasoningDelta(text="plain", block=2),
        ToolDelta(tool=0, id="c:1", name="f", arguments="{}", signature="proof"),
    )

    assert [one["type"] for one in items] == [*["reasoning"] * 4, "function_call"]
    assert [one.get("content") for one in items[:3]] == [
        [{"type": "reasoning_text", "text": "Hm"}],
        None,
        [{"type": "reasoning_text", "text": "plain"}],
    ]
    formats = [str(one.get("encrypted_content", "")).partition(":")[0] for one in items[:4]]
    assert formats == [CLAUDE, GEMINI, "", GEMINI]


def test_reasoning_is_a_summary_for_clients_that_want_summaries() -> None:
    request = asked(reasoning={"summary": "auto"})

    (thought, _) = found(
        ReasoningDelta(text="H"), ReasoningDelta(text="m"), TextDelta(text="a"), request=request
    )

    assert thought["summary"] == [{"type": "summary_text", "text": "Hm"}]
    assert "content" not in thought


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("content_filter", "incomplete", {"reason": "content_filter"}),
    ],
)
def test_an_answer_says_why_it_is_incomplete(reason: str, status: str, details: object) -> None:
    end = Finished(reason=reason)  # type: ignore[arg-type]  from the table
    events = [ReasoningDelta(text="Hm"), TextDelta(text="a"), end]

    data = response_stream([events])

    for answer in (last_response(data), whole_response(events)):
        assert (answer["status"], answer["incomplete_details"]) == (status, details)
        assert [one["status"] for one in dicts(answer["output"])] == ["completed", status]
        assert (answer["completed_at"] is None) == (details is not None)
    assert frames(data)[-1]["type"] == f"response.{status}"


def test_a_refusal_is_a_part_of_the_message() -> None:
    (item,) = found(TextDelta(text="Well,"), RefusalDelta(text="I can"), RefusalDelta(text="not."))

    assert item["content"] == [
        {"type": "output_text", "text": "Well,", "annotations": [], "logprobs": []},
        {"type": "refusal", "refusal": "I cannot."},
    ]


def test_an_answer_without_content_is_an_empty_message() -> None:
    (item,) = found()

    assert whole_response([STOP])["output"] == [item]
    assert item["type"] == "message"


def test_log_probabilities_are_in_the_deltas_and_the_part() -> None:
    rated = TokenLogprob(token="a", logprob=-0.5)
    events: list[Event] = [TextDelta(text="a", logprobs=(rated,)), TextDelta(text="b"), STOP]
    wanted = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}

    seen = frames(response_stream([events]))

    (first, second) = [one for one in seen if one["type"] == "response.output_text.delta"]
    assert (first["logprobs"], second["logprobs"]) == ([wanted], [])
    (part,) = [inner(one, "part") for one in seen if one["type"] == "response.content_part.done"]
    assert part["logprobs"] == [wanted]


def test_what_the_schema_does_not_have_is_still_there_unless_it_means_something_else() -> None:
    tier, mark, prompt = Raw(b'"flex"'), Raw(b'"f"'), Raw(b"[]")
    fields = {"service_tier": tier, "system_fingerprint": mark, "prompt": prompt, "store": prompt}
    started = Started(extra=fields)
    events = [started, TextDelta(text="a"), OpaqueDelta(fields={"audio": Raw(b"[1]")}), STOP]

    for answer in (whole_response(events), last_response(response_stream([events]))):
        assert (answer["audio"], answer["system_fingerprint"]) == ([1], "f")
        assert (answer["service_tier"], answer["store"]) == ("flex", False)
        assert "prompt" not in answer


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
            name=st.sampled_from(["f", "patch"]),
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
    request = asked(
        tools=[PATCH], reasoning={"summary": data.draw(st.sampled_from([None, "auto"]))}
    )

    whole = response_stream([[*events, STOP]], request)

    assert response_stream([*batches, [STOP]], request) == whole
    assert put_together(frames(whole)) == last_response(whole)["output"]


@given(
    text=st.text(min_size=1, max_size=30), arguments=st.dictionaries(pieces, pieces), data=st.data()
)
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

    data_sent = response_stream([events])

    assert last_response(data_sent) == whole_response(events)
    streamed = helped(data_sent)
    assert streamed.output_text == "a" + text
    assert [
        json.loads(one.arguments) for one in streamed.output if one.type == "function_call"
    ] == [arguments]


FIRST = FirstOnly()
RECORDED = [
    pytest.param(name, one, id=f"{name} {one.name}", marks=FIRST.marks(one.name, name))
    for name in REGISTRY.names
    for one in recorded(name)
    if one.status == 200 and isinstance(request_for(one), ChatRequest)
    # One has no text (test_responses_to_openai.py), and one has more at its end than in its events.
    if not one.name.endswith(("chat-stream-search", "chat-stream-own-fields"))
]


@pytest.mark.parametrize(("name", "recording"), RECORDED)
def test_every_recorded_answer_is_one_that_the_official_client_reads(
    name: str, recording: Recording
) -> None:
    adapter = REGISTRY.build(name, contract_endpoint())
    request = request_for(recording)
    assert isinstance(request, ChatRequest)
    original = Original(dialect="openai-responses", fields={}, read=request)
    request = replace(request, original=original)
    try:
        events = translate(adapter, request, [recording.body])
    except GatewayError:
        pytest.skip("a recorded failure")
    events = [one for one in events if getattr(one, "index", 0) == 0]

    data = response_stream([events])

    streamed, whole = helped(data), whole_response(events)
    items = put_together(frames(data))
    assert last_response(data)["output"] == items
    assert [(one.type, one.id) for one in streamed.output] == [
        (one["type"], one["id"]) for one in items
    ]
    assert (streamed.status, streamed.usage and streamed.usage.to_dict()) == (
        whole["status"],
        whole["usage"],
    )

    def shown(output: object) -> list[str]:
        return sorted(
            f"{one['type']} {one.get('name')} {one.get('arguments')}" for one in dicts(output)
        )

    # Claude writes text between calls, Gemini signs its thoughts after the text, and servers of
    # this API have their own items either in the events of a stream or in a whole answer.
    if name not in ("anthropic", "vertex-anthropic", "gemini") and not name.endswith("-responses"):
        assert shown(items) == shown(whole["output"])
