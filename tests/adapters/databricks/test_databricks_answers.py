"""Recorded answers of Databricks: reasoning, batches, errors of the vendors behind it."""

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.databricks.adapter import DatabricksAdapter
from strowger_gateway.adapters.databricks.oauth import TOKENS
from strowger_gateway.adapters.testing import Recording, request_for, translate
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.errors import (
    UpstreamBroken,
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.messages import CLAUDE, Message, OpaquePart, TextPart, Thought
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.openai.openai_doubles import HELLO, WHOLE_CHAT
from tests.adapters.traffic import fixture, traffic

ENCRYPTED = (
    b'{"type":"reasoning","summary":[{"type":"summary_encrypted_text","data":"ZW5jcnlwdGVk"}]}'
)


def databricks(base_url: str = "https://dbc.test") -> DatabricksAdapter:
    return DatabricksAdapter(Endpoint(name="dbx", base_url=base_url, key=Secret("dapi-1")))


def answer_of(case: Recording) -> Answer:
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    fold = Fold()
    fold.add(translate(databricks(), request, [case.body]))
    return fold.answer()


def sent(one: Message) -> dict[str, object]:
    """Return the message as it is sent."""
    body = databricks().encode(ChatRequest(model="m", messages=(one,)), "m1").body
    return msgspec.json.decode(body)["messages"][0]


@pytest.mark.parametrize(
    ("base_url", "model", "target", "name"),
    [
        ("https://d", "llama", "/serving-endpoints/llama/invocations", None),
        (
            "https://d",
            "llama/served 1",
            "/serving-endpoints/llama/served-models/served%201/invocations",
            None,
        ),
        (
            "https://d/serving-endpoints",
            "system.ai.claude",
            "/serving-endpoints/chat/completions",
            "system.ai.claude",
        ),
        (
            "https://d/ai-gateway/mlflow/v1",
            "system.ai.claude",
            "/ai-gateway/mlflow/v1/chat/completions",
            "system.ai.claude",
        ),
    ],
)
def test_the_path_of_a_model(base_url: str, model: str, target: str, name: str | None) -> None:
    request = ChatRequest(model="m", messages=(HELLO,))

    outbound = databricks(base_url).encode(request, model)

    assert outbound.target == target
    assert msgspec.json.decode(outbound.body).get("model") == name


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("request_", [WHOLE_CHAT, CompletionRequest(model="m", prompts=("x",))])
def test_stream_is_always_sent(request_: ChatRequest | CompletionRequest, stream: bool) -> None:
    request = msgspec.structs.replace(request_, stream=stream)

    body = databricks().encode(request, "m1").body

    assert msgspec.json.decode(body)["stream"] is stream


def test_a_stream_of_reasoning_and_tools_is_kept_apart() -> None:
    answer = answer_of(fixture("databricks/chat-stream-thought-and-two-tools"))

    [choice] = answer.choices
    assert choice.thoughts == [Thought(text="Two cities", signature="c2ln", format=CLAUDE)]
    assert choice.text == "Looking."
    assert [(call.id, call.name, call.arguments) for call in choice.tool_calls] == [
        ("t1", "weather", '{"at": "Zürich"}'),
        ("t2", "now", "{}"),
    ]
    assert choice.finish is not None
    assert choice.finish.reason == "tool_calls"


def test_reasoning_tokens_are_counted_separately() -> None:
    usage = answer_of(fixture("databricks/chat-stream-thought-and-two-tools")).usage

    assert isinstance(usage, Usage)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (40, 31, 71)
    assert usage.reasoning_tokens == 6
    assert usage.cached_tokens == 0


def test_reasoning_that_only_the_vendor_can_read_is_sent_both_ways() -> None:
    [choice] = answer_of(fixture("databricks/chat-encrypted-thought")).choices
    assert choice.text == "Yes."
    assert choice.thoughts == [Thought(data="ZW5jcnlwdGVk", format=CLAUDE)]

    back = sent(Message(role="assistant", content="Yes.", thoughts=tuple(choice.thoughts)))

    assert back == {
        "role": "assistant",
        "content": [msgspec.json.decode(ENCRYPTED), {"type": "text", "text": "Yes."}],
    }


def test_reasoning_in_databricks_own_format_is_not_doubled() -> None:
    raw = b'{"type":"reasoning","summary":[{"type":"summary_text","text":"hm","signature":"s"}]}'
    parts = (OpaquePart(type="reasoning", raw=Raw(raw)), TextPart(text="Yes."))
    whole = b'{"role":"assistant","content":[' + raw + b',{"type":"text","text":"Yes."}]}'

    back = sent(
        Message(role="assistant", content=parts, reasoning="hm", signature="s", raw=Raw(whole))
    )

    assert back == msgspec.json.decode(whole)


def test_nulls_that_other_clients_write_stay_behind() -> None:
    """Databricks rejects an unknown message field with a 400."""
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    told = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
    told |= {"annotations": None, "audio": None, "function_call": None}

    back = sent(Message(role="assistant", raw=Raw(msgspec.json.encode(told))))

    assert back == {"role": "assistant", "content": None, "tool_calls": [call]}


def test_choices_that_share_their_prompts_index_are_distinguished() -> None:
    answer = answer_of(fixture("databricks/completions-index-of-the-prompt"))

    assert [choice.text for choice in answer.choices] == ["a1", "a2", "b1", "b2"]
    assert answer.choices[1].finish is not None
    assert answer.choices[1].finish.reason == "length"


def test_the_error_of_an_external_vendor_is_passed_on() -> None:
    case = fixture("databricks/error-400-external-model")

    fault = databricks().error(case.status, case.headers, case.body)

    assert isinstance(fault, UpstreamRejected)
    assert fault.message == "The prompt was filtered."
    assert (fault.code, fault.param, fault.type) == (
        "content_filter",
        "prompt",
        "invalid_request_error",
    )


def test_a_vendor_that_refuses_databricks_key_is_for_the_operator_to_fix() -> None:
    case = fixture("databricks/error-403-external-model")

    fault = databricks().error(case.status, case.headers, case.body)

    assert isinstance(fault, UpstreamRefused)
    assert "Invalid request. [ReqId: 1]" in fault.message


def test_another_place_for_the_vendors_error_is_known_too() -> None:
    raw = b'{"error":"Bad Request","external_model_message":{"message":"too long","code":"ctx"}}'

    fault = databricks().error(400, {}, raw)

    assert (fault.message, fault.code) == ("too long", "ctx")


def test_a_rate_limit_has_a_retry_after() -> None:
    case = fixture("databricks/error-429")

    fault = databricks().error(429, {"retry-after": "3"}, case.body)

    assert isinstance(fault, UpstreamBusy)
    assert fault.retry_after == 3


def test_an_error_inside_a_stream_is_not_its_end() -> None:
    with pytest.raises(UpstreamFailed, match="The model is restarting"):
        answer_of(fixture("databricks/error-inside-stream"))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(one, id=one.name)
        for one in traffic("databricks/")
        if one.status == 200 and not isinstance(request_for(one), EmbeddingsRequest)
    ],
)
def test_every_answer_ends_with_the_usage_that_it_carried(case: Recording) -> None:
    """The expected usage is the last usage object in the bytes."""
    objects = [
        msgspec.json.decode(line.removeprefix(b"data: "), type=dict[str, object])
        for line in (case.body.splitlines() if case.streamed else [case.body])
        if line.startswith((b"{", b"data: {"))
    ]
    carried = [found["usage"] for found in objects if "usage" in found]
    if "error" in case.name:
        pytest.skip("it ends as an error")

    usage = answer_of(case).usage

    if not carried:
        assert usage is None or usage.total_tokens is None
        return
    last = msgspec.convert(carried[-1], type=dict[str, int | None])
    assert usage is not None
    assert usage.prompt_tokens == last["prompt_tokens"]
    assert usage.completion_tokens == last["completion_tokens"]
    assert usage.total_tokens == last["total_tokens"]
    assert usage.reasoning_tokens == last.get("reasoning_tokens")


def test_a_stream_that_is_cut_short_is_broken() -> None:
    case = fixture("databricks/chat-stream")
    request = request_for(case)
    assert isinstance(request, ChatRequest)

    with pytest.raises(UpstreamBroken, match="dbx: stream ended early"):
        translate(databricks(), request, [case.body[: case.body.index(b'"stop"')]])


@pytest.mark.parametrize(
    ("status", "raw", "said"),
    [
        (401, b'{"error_code":"UNAUTHENTICATED","message":"x"}', True),
        (403, b'{"error_code":403,"message":"Invalid access token. [ReqId: 1]"}', True),
        (403, b'{"error_code":"403","message":"Invalid access token."}', True),
        (403, b"<html><title>Error 403 Invalid access token.</title></html>", True),
        (403, b'{"error_code":"PERMISSION_DENIED","message":"no"}', False),
        (403, b'{"message":"blocked"}', False),
    ],
)
def test_an_expired_token_is_distinguished_from_a_lack_of_permission(
    status: int, raw: bytes, said: bool
) -> None:
    assert TOKENS.lapsed(status, raw) == said
