"""Everything in a vendor's answer reaches the client of the OpenAI surface."""

import json
from collections.abc import Mapping
from typing import cast

import pytest
from msgspec.structs import replace
from openai.types.chat import ChatCompletion

from strowger_gateway.adapters.base import Adapter
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.adapters.testing import contract_endpoint, translate
from strowger_gateway.gateway.surfaces.openai.chat_render import ChatRenderer
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.messages import Message, ResponseFormat
from strowger_gateway.schemas.requests import ChatRequest
from tests.adapters.anthropic.test_anthropic_decode import ANTHROPIC, begun, ended, sse, text
from tests.adapters.bedrock.bedrock_doubles import BEDROCK
from tests.adapters.openai.openai_doubles import delta, stream
from tests.stand_ins.bedrock_server import event

Json = dict[str, object]
WHOLE = ChatRequest(model="m", messages=(Message(role="user", content="hi"),))
STREAM = replace(WHOLE, stream=True, include_usage=True)
STOP = delta(finish="stop")
MEGABYTE = "x" * 1_000_000


def built(name: str) -> Adapter:
    url = "https://vendor.test/openai/v1" if name == "azure" else "https://vendor.test/v1"
    return Registry().build(name, contract_endpoint(url))


OPENAI = built("openai")


def answer(adapter: Adapter, body: object) -> Json:
    """Return the client's body for a vendor's complete answer; the official client can read it."""
    fold = Fold()
    fold.add(translate(adapter, WHOLE, [json.dumps(body).encode()]))
    found = ChatRenderer(WHOLE, id="c", created=1).answer(fold.answer())
    ChatCompletion.model_validate_json(found)
    return json.loads(found)


def message(adapter: Adapter, body: object) -> Json:
    (choice,) = cast("list[Json]", answer(adapter, body)["choices"])
    return cast("Json", choice["message"])


def choices(answered: Json) -> list[Json]:
    return cast("list[Json]", answered["choices"])


def chunks(adapter: Adapter, body: bytes, request: ChatRequest = STREAM) -> list[Json]:
    """Return the client's chunks for a vendor's stream."""
    renderer = ChatRenderer(request, id="c", created=1)
    sent = renderer.events(translate(adapter, request, [body])) + renderer.finish()
    found = [line[6:] for line in sent.split(b"\n\n") if line and line != b"data: [DONE]"]
    return [json.loads(one) for one in found]


def deltas(adapter: Adapter, body: bytes) -> list[Json]:
    choices = [cast("list[Json]", one["choices"]) for one in chunks(adapter, body)]
    return [cast("Json", one[0]["delta"]) for one in choices if one]


def custom(**fields: object) -> Mapping[str, object]:
    return delta({"tool_calls": [{"index": 0, **fields}]})


def test_the_input_of_a_custom_tool_comes_piece_by_piece() -> None:
    called = custom(id="call_9", type="custom", custom={"name": "grep", "input": ""})
    pieces = [custom(custom={"input": piece}) for piece in ("RA", "W")]

    found = deltas(OPENAI, stream(called, *pieces, delta(finish="tool_calls")))

    assert [one["tool_calls"] for one in found if "tool_calls" in one] == [
        [{"index": 0, "id": "call_9", "type": "custom", "custom": {"name": "grep", "input": ""}}],
        [{"index": 0, "custom": {"input": "RA"}}],
        [{"index": 0, "custom": {"input": "W"}}],
    ]


def test_custom_and_function_calls_of_one_stream_have_separate_indexes() -> None:
    function = {"index": 1, "id": "f", "type": "function", "function": {"name": "look"}}

    found = deltas(
        OPENAI,
        stream(
            custom(id="c", type="custom", custom={"name": "grep", "input": "x"}),
            delta({"tool_calls": [function]}),
            delta({"tool_calls": [{"index": 1, "function": {"arguments": '{"a":1}'}}]}),
            delta(finish="tool_calls"),
        ),
    )

    entries = [cast("list[Json]", one["tool_calls"])[0] for one in found if "tool_calls" in one]
    assert [entry["index"] for entry in entries] == [0, 1, 1]


def test_custom_and_function_calls_of_a_complete_answer_keep_their_order() -> None:
    calls = [
        {"id": "a", "type": "custom", "custom": {"name": "grep", "input": "x"}},
        {"id": "b", "type": "function", "function": {"name": "look", "arguments": "{}"}},
        {"id": "c", "type": "custom", "custom": {"name": "grep", "input": "y"}},
    ]
    choice = {"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}

    assert message(OPENAI, {"choices": [choice]})["tool_calls"] == calls


def test_unknown_members_of_a_call_stay_with_it() -> None:
    function = {"name": "look", "arguments": "{}", "origin": "cache"}
    call = {"id": "b", "type": "function", "function": function, "confidence": 0.5}
    google = {"google": {"thought_signature": "c2ln"}}
    signed = {**call, "id": "c", "extra_content": google}
    choice = {"message": {"tool_calls": [call, signed]}, "finish_reason": "tool_calls"}

    assert message(OPENAI, {"choices": [choice]})["tool_calls"] == [call, signed]


@pytest.mark.parametrize("name", ["databricks", "openai"])
def test_citations_of_a_text_reach_the_client_with_it(name: str) -> None:
    part = {"type": "text", "text": "Blue", "citations": [{"cited_text": "blue", "index": 0}]}
    plain: Json = {"type": "text", "text": ".", "citations": None, "annotations": []}
    content: Json = {"role": "assistant", "content": [part, plain]}

    whole = message(built(name), {"choices": [{"message": content, "finish_reason": "stop"}]})
    streamed = deltas(built(name), stream(delta(content), STOP))

    assert (whole["content"], whole["content_parts"]) == ("Blue.", [part])
    assert {"content_parts": [part]} in streamed


def test_a_summary_of_claudes_that_is_streamed_can_be_sent_back() -> None:
    block: Json = {"type": "compaction", "content": None, "encrypted_content": None}
    summary = {"content": "We met.", "encrypted_content": "ZW5j"}
    body = sse(
        begun(),
        {"type": "content_block_start", "index": 1, "content_block": block},
        {
            "type": "content_block_delta",
            "index": 1,
            "delta": {"type": "compaction_delta", **summary},
        },
        {"type": "content_block_stop", "index": 1},
        *text("Hi"),
        *ended("end_turn"),
    )

    (found,) = [one["content_blocks"] for one in deltas(ANTHROPIC, body) if "content_blocks" in one]

    assert cast("list[Json]", found)[1] == {"type": "compaction", **summary}


def test_log_probabilities_of_a_refusal_are_reported() -> None:
    token = {"token": "No.", "logprob": -0.5, "bytes": [78, 111, 46], "top_logprobs": []}
    logprobs = {"content": None, "refusal": [token]}
    choice = {"message": {"refusal": "No."}, "logprobs": logprobs, "finish_reason": "stop"}

    (whole,) = cast("list[Json]", answer(OPENAI, {"choices": [choice]})["choices"])
    streamed = chunks(OPENAI, stream(delta({"refusal": "No."}, logprobs=logprobs), STOP))

    assert whole["logprobs"] == logprobs
    told = [cast("list[Json]", one["choices"])[0].get("logprobs") for one in streamed]
    assert logprobs in told


def delta_of(piece: Json) -> Json:
    return {"type": "content_block_delta", "index": 0, "delta": piece}


@pytest.mark.parametrize("name", ["azure", "databricks", "openrouter", "sglang", "vllm", "xai"])
def test_a_stream_whose_last_frames_are_missing_is_an_error_where_they_always_come(
    name: str,
) -> None:
    complete = stream(delta({"content": "Hi"}), STOP, done=False)

    with pytest.raises(UpstreamBroken, match=r"without \[DONE\]"):
        translate(built(name), STREAM, [complete])
    assert translate(OPENAI, STREAM, [complete]), "another server may forget its mark"


JSON_CALL: Json = {"type": "tool_use", "id": "t", "name": "answer_in_json"}
JSON_ANSWER = '{"a": [1, "\u00e9"]}'


def test_a_json_object_of_claudes_is_the_text_of_the_answer() -> None:
    asked = replace(WHOLE, response_format=ResponseFormat(type="json_object"))
    pieces: list[Json] = [
        {"type": "input_json_delta", "partial_json": JSON_ANSWER[at : at + 4]}
        for at in range(0, len(JSON_ANSWER), 4)
    ]
    streamed = sse(
        begun(),
        {"type": "content_block_start", "index": 0, "content_block": {**JSON_CALL, "input": {}}},
        *[delta_of(piece) for piece in pieces],
        {"type": "content_block_stop", "index": 0},
        *ended("tool_use"),
    )
    block = {**JSON_CALL, "input": json.loads(JSON_ANSWER)}
    whole = json.dumps({"content": [block], "stop_reason": "tool_use"}).encode()

    for request, body in ((asked, whole), (replace(asked, stream=True), streamed)):
        fold = Fold()
        fold.add(translate(ANTHROPIC, request, [body]))
        (choice,) = fold.answer().choices
        assert json.loads(choice.text or "") == json.loads(JSON_ANSWER)
        assert choice.finish is not None
        assert (choice.finish.reason, choice.tool_calls, choice.opaque) == ("stop", [], {})


def test_unknown_members_of_a_choice_reach_the_client_beside_its_message() -> None:
    known: Json = {"finish_reason": "stop", "token_ids": None}
    beyond: Json = {"token_ids": [5, 6], "verdict": {"safe": True}, "rank": 0}
    choice = {**known, **beyond, "index": 0}

    (told,) = choices(answer(OPENAI, {"choices": [{**choice, "message": {"content": "Hi"}}]}))
    streamed = [
        one
        for chunk in chunks(
            OPENAI,
            stream(
                delta({"content": "H"}, token_ids=[5], rank=0),
                delta({"content": "i"}, token_ids=[5], rank=0),
                delta(finish="stop", verdict={"safe": True}),
            ),
        )
        for one in choices(chunk)
    ]

    assert {name: told[name] for name in beyond} == beyond
    assert cast("Json", told["message"]) == {"role": "assistant", "content": "Hi", "refusal": None}
    assert [(one["token_ids"], one["rank"]) for one in streamed if "rank" in one] == [([5], 0)] * 2
    assert [one["verdict"] for one in streamed if "verdict" in one] == [{"safe": True}]
    assert "".join(str(cast("Json", one["delta"]).get("content", "")) for one in streamed) == "Hi"


@pytest.mark.parametrize("stream", [False, True])
def test_anthropics_fields_of_a_message_reach_the_client(stream: bool) -> None:
    beyond: Json = {"diagnostics": {"a": [1]}, "input_transformations": [{"type": "x"}]}
    details: Json = {"container": {"id": "c"}, "stop_details": {"x": 1}}
    if stream:
        start, end = begun(), ended("end_turn", **details)
        cast("Json", start["message"])["diagnostics"] = beyond["diagnostics"]
        end[0]["input_transformations"] = beyond["input_transformations"]
        (told,) = [
            one for one in deltas(ANTHROPIC, sse(start, *text("Hi"), *end)) if "diagnostics" in one
        ]
    else:
        content = [{"type": "text", "text": "Hi"}]
        counts = {"input_tokens": 1, "output_tokens": 1}
        head: Json = {"type": "message", "content": content, "usage": counts}
        told = message(ANTHROPIC, {**head, "stop_reason": "end_turn", **beyond, **details})
        told = {name: told[name] for name in (*beyond, *details)}

    assert told == {**beyond, **details}


LATE = {"web_search": [{"link": "https://a.test"}], "service_tier": "flex", "search_info": {"n": 1}}


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("name", ["groq", "zai", "dashscope", "openai", "azure", "vllm"])
def test_fields_of_the_complete_answer_reach_the_client_from_any_frame(
    name: str, place: int, asked: bool
) -> None:
    frames = [delta({"role": "assistant", "content": "a"}), delta({"content": "b"}), STOP]
    counts = {"prompt_tokens": 1, "completion_tokens": 2}
    frames.append({**STOP, "choices": [], "usage": counts})
    frames[place] = {**frames[place], **LATE}
    request = replace(STREAM, include_usage=asked)

    found = chunks(built(name), stream(*frames), request)

    for field, value in LATE.items():
        assert value in [one.get(field) for one in found], field
    text = [cast("list[Json]", one["choices"])[0]["delta"] for one in found if one["choices"]]
    assert "".join(str(cast("Json", one).get("content", "")) for one in text) == "ab"


def test_a_field_is_reported_again_only_if_it_changes() -> None:
    found = chunks(
        OPENAI,
        stream(
            {**delta({"content": "a"}), "timings": {"n": 1}},
            {**delta({"content": "b"}), "timings": {"n": 1}},
            {**STOP, "timings": {"n": 2}},
        ),
    )

    assert [one["timings"] for one in found if "timings" in one] == [{"n": 1}, {"n": 2}]


USAGES: dict[str, Json] = {
    "openai": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    "databricks": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    "mistral": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    "anthropic": {"input_tokens": 5, "output_tokens": 3},
    "bedrock": {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8},
    "gemini": {"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8},
    "cohere": {"tokens": {"input_tokens": 5, "output_tokens": 3}},
}
THEIRS: Json = {"cost": 0.25, "service_tier": "standard", "cost_details": {"upstream": [1, None]}}


def whole_body(name: str, usage: Json) -> Json:
    content = [{"type": "text", "text": "Hi"}]
    match name:
        case "anthropic":
            return {"content": content, "stop_reason": "end_turn", "usage": usage}
        case "bedrock":
            said = {"message": {"role": "assistant", "content": [{"text": "Hi"}]}}
            return {"output": said, "stopReason": "end_turn", "usage": usage}
        case "gemini":
            said = {"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}
            return {"candidates": [said], "usageMetadata": usage}
        case "cohere":
            return {"message": {"content": content}, "finish_reason": "COMPLETE", "usage": usage}
        case _:
            said = {"message": {"content": "Hi"}, "finish_reason": "stop"}
            return {"choices": [said], "usage": usage}


def streamed_body(name: str, usage: Json) -> bytes:
    match name:
        case "anthropic":
            end = ended("end_turn")
            end[0]["usage"] = usage
            return sse(begun(), *text("Hi"), *end)
        case "bedrock":
            return b"".join(
                (
                    event("messageStart", {"role": "assistant"}),
                    event("contentBlockDelta", {"delta": {"text": "Hi"}, "contentBlockIndex": 0}),
                    event("messageStop", {"stopReason": "end_turn"}),
                    event("metadata", {"usage": usage, "metrics": {"latencyMs": 5}}),
                )
            )
        case "gemini":
            return b"data: " + json.dumps(whole_body(name, usage)).encode() + b"\n\n"
        case "cohere":
            frames: list[Json] = [
                {"type": "message-start", "id": "c", "delta": {"message": {"role": "assistant"}}},
                {
                    "type": "content-delta",
                    "index": 0,
                    "delta": {"message": {"content": {"text": "Hi"}}},
                },
                {"type": "message-end", "delta": {"finish_reason": "COMPLETE", "usage": usage}},
            ]
            return sse(*frames)
        case _:
            return stream(delta({"content": "Hi"}), STOP, {"choices": [], "usage": usage})


def adapter_of(name: str) -> Adapter:
    return BEDROCK if name == "bedrock" else built(name)


@pytest.mark.parametrize("name", USAGES)
def test_members_of_usage_that_only_a_vendor_has_reach_the_client(name: str) -> None:
    usage = {**USAGES[name], **THEIRS}

    whole = answer(adapter_of(name), whole_body(name, usage))["usage"]
    (streamed,) = [
        one["usage"]
        for one in chunks(adapter_of(name), streamed_body(name, usage))
        if one.get("usage")
    ]

    for found in (whole, streamed):
        counts = cast("Json", found)
        assert counts.items() >= THEIRS.items()
        totals = [counts[f"{kind}_tokens"] for kind in ("prompt", "completion", "total")]
        assert totals == [5, 3, 8] or name == "anthropic"


def test_ollamas_durations_reach_the_client_with_its_counts() -> None:
    durations = {"total_duration": 9, "load_duration": 1, "eval_duration": 5}
    counts = {"prompt_eval_count": 5, "eval_count": 3, **durations}
    body = {"message": {"content": "Hi"}, "done": True, "done_reason": "stop", **counts}

    whole = answer(built("ollama"), body)["usage"]
    found = chunks(built("ollama"), json.dumps(body).encode() + b"\n")
    (streamed,) = [one["usage"] for one in found if one.get("usage")]

    for usage in (whole, streamed):
        assert cast("Json", usage).items() >= durations.items()
        assert cast("Json", usage)["total_tokens"] == 8


@pytest.mark.parametrize("name", USAGES)
def test_a_usage_of_a_megabyte_is_reduced_to_its_counts(name: str) -> None:
    usage = {**USAGES[name], "note": MEGABYTE}

    found = cast("Json", answer(adapter_of(name), whole_body(name, usage))["usage"])

    assert found == {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


def test_a_vendors_member_never_replaces_one_of_ours() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 10, "reasoning_tokens": 2}
    details = {"reasoning_tokens": 99, "audio_tokens": 1}
    body = whole_body("openai", {**usage, "completion_tokens_details": details})

    found = cast("Json", answer(OPENAI, body)["usage"])

    assert found["completion_tokens_details"] == details
    assert found["reasoning_tokens"] == 2
