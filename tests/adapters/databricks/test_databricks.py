"""Requests and answers of Databricks, where it differs from OpenAI."""

import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.databricks.adapter import DatabricksAdapter
from strowger_gateway.adapters.databricks.messages import databricks_message
from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.errors import (
    UpstreamBusy,
    UpstreamFailed,
    UpstreamRefused,
    UpstreamRejected,
)
from strowger_gateway.schemas.events import Event, Finished, ReasoningDelta, TextDelta, Usage
from strowger_gateway.schemas.messages import (
    CLAUDE,
    FunctionTool,
    Message,
    OpaquePart,
    TextPart,
    Thought,
)
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.openai.openai_doubles import CHAT, HELLO, WHOLE_CHAT, body, sampled
from tests.adapters.traffic import fixture


def databricks(base_url: str = "https://dbc.test") -> DatabricksAdapter:
    return DatabricksAdapter(Endpoint(name="dbx", base_url=base_url, key=Secret("dapi-1")))


def answer(name: str) -> list[Event]:
    case = fixture(f"databricks/{name}")
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    return translate(databricks(), request, [case.body])


def message(one: Message) -> object:
    sent = databricks().encode(ChatRequest(model="m", messages=(one,)), "m1").body
    return msgspec.json.decode(sent)["messages"][0]


@pytest.mark.parametrize(
    "request_",
    [
        WHOLE_CHAT,
        CompletionRequest(model="m", prompts=("x",)),
        EmbeddingsRequest(model="m", inputs=("x",)),
    ],
)
def test_the_endpoint_is_named_in_the_path_and_not_in_the_body(
    request_: ChatRequest | CompletionRequest | EmbeddingsRequest,
) -> None:
    outbound = databricks().encode(request_, "my model")

    assert outbound.target == "/serving-endpoints/my%20model/invocations"
    assert b'"model"' not in outbound.body
    assert ("authorization", "Bearer dapi-1") in outbound.headers


def test_a_base_url_of_the_openai_client_selects_its_paths() -> None:
    outbound = databricks("https://dbc.test/serving-endpoints").encode(WHOLE_CHAT, "m1")

    assert outbound.target == "/serving-endpoints/chat/completions"
    assert msgspec.json.decode(outbound.body)["model"] == "m1"


def test_usage_is_not_requested_in_streams_that_have_it_anyway() -> None:
    assert "stream_options" not in body(databricks(), CHAT)


def test_a_raw_prompt_is_requested_and_a_template_is_the_default() -> None:
    raw = CompletionRequest(model="m", prompts=("x",))
    wrapped = msgspec.structs.replace(raw, template=True)

    assert body(databricks(), raw)["use_raw_prompt"] is True
    assert "use_raw_prompt" not in body(databricks(), wrapped)


def test_completions_have_their_own_field_names() -> None:
    request = CompletionRequest(
        model="m",
        prompts=("x",),
        template=True,
        append_suffix="!",
        error_behavior="truncate",
        sampling=Sampling(top_k=3),
    )

    assert body(databricks(), request) == {
        "prompt": "x",
        "suffix": "!",
        "error_behavior": "truncate",
        "top_k": 3,
        "stream": False,
    }


def test_fill_in_the_middle_is_not_what_its_suffix_means() -> None:
    request = CompletionRequest(model="m", prompts=("x",), suffix="z")

    assert [one.field for one in unsupported(request, databricks().supports)] == ["suffix"]
    assert "suffix" not in body(databricks(), request)


def test_embeddings_take_an_instruction() -> None:
    request = EmbeddingsRequest(model="m", inputs=("x",), instruction="Represent:")

    sent = databricks().encode(request, "m1").body

    assert msgspec.json.decode(sent) == {"input": "x", "instruction": "Represent:"}


def test_the_token_limit_has_one_name() -> None:
    request = msgspec.structs.replace(
        sampled(max_tokens=5), max_tokens_field="max_completion_tokens"
    )

    assert body(databricks(), request)["max_tokens"] == 5


def test_reasoning_is_sent_back_as_a_part_with_its_signature() -> None:
    raw = Raw(b'{"role":"assistant","content":"Yes.","reasoning":"hm","reasoning_signature":"s"}')
    turn = Message(role="assistant", content="Yes.", reasoning="hm", signature="s", raw=raw)
    parts = (TextPart(text="Yes."), OpaquePart(type="x", raw=Raw(b'{"type":"x"}')))
    made = Message(role="assistant", content=parts, reasoning="hm")

    assert message(turn) == {
        "role": "assistant",
        "content": [
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "hm", "signature": "s"}],
            },
            {"type": "text", "text": "Yes."},
        ],
    }
    assert message(made) == {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "text", "text": "Yes."},
            {"type": "x"},
        ],
    }


def test_usage_on_every_chunk_ends_as_the_last_one() -> None:
    found = answer("chat-stream")

    assert [type(one) for one in found].count(Usage) == 2
    assert isinstance(found[-1], Usage)
    assert (found[-1].prompt_tokens, found[-1].completion_tokens) == (12, 3)


def test_reasoning_in_a_list_of_contents_is_reasoning() -> None:
    streamed, whole = answer("chat-stream-reasoning"), answer("chat-reasoning")

    assert [one for one in streamed if isinstance(one, ReasoningDelta)] == [
        ReasoningDelta(text="Let me think"),
        ReasoningDelta(text="", signature="c2ln", format=CLAUDE),
    ]
    assert whole[1:4] == [
        ReasoningDelta(text="Let me think", signature="c2ln", format=CLAUDE),
        TextDelta(text="Yes."),
        Finished(reason="stop"),
    ]


@pytest.mark.parametrize(
    ("tools", "properties", "faults"),
    [(32, 15, 0), (33, 1, 1), (1, 16, 1), (33, 16, 2)],
)
def test_the_limits_on_tools_are_known(tools: int, properties: int, faults: int) -> None:
    schema = {"properties": {f"p{place}": {"type": "string"} for place in range(properties)}}
    tool = FunctionTool(name="f", parameters=Raw(msgspec.json.encode(schema)))
    request = ChatRequest(model="m", messages=(HELLO,), tools=(tool,) * tools)

    found = unsupported(request, databricks().supports)

    assert [one.field for one in found] == ["tools"] * faults


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "BAD_REQUEST", UpstreamRejected),
        (401, "UNAUTHENTICATED", UpstreamRefused),
        (403, "PERMISSION_DENIED", UpstreamRefused),
        (404, "RESOURCE_DOES_NOT_EXIST", UpstreamRefused),
        (429, "REQUEST_LIMIT_EXCEEDED", UpstreamBusy),
        (500, "INTERNAL_ERROR", UpstreamFailed),
        (503, "TEMPORARILY_UNAVAILABLE", UpstreamFailed),
    ],
)
def test_error_codes_have_a_meaning(status: int, code: str, kind: type[Exception]) -> None:
    raw = msgspec.json.encode({"error_code": code, "message": "boom"})

    assert isinstance(databricks().error(status, {}, raw), kind)


def test_a_message_that_is_json_again_is_unwrapped() -> None:
    case = fixture("databricks/error-400-json-in-message")

    fault = databricks().error(case.status, case.headers, case.body)

    assert fault.message.endswith("is exceeded: Input is too long for requested model.")
    assert fault.code == "context_length_exceeded"


def test_blocks_of_thinking_are_sent_back_one_by_one_and_encrypted_ones_as_they_came() -> None:
    thoughts = (Thought(text="hm", signature="s1"), Thought(data="c2VjcmV0"))
    turn = Message(role="assistant", content="Yes.", thoughts=thoughts)

    sent = databricks_message(turn).raw

    assert isinstance(sent, Raw)
    content = msgspec.json.decode(sent)["content"]
    assert [part["type"] for part in content] == ["reasoning", "reasoning", "text"]
    assert [part["summary"] for part in content[:2]] == [
        [{"type": "summary_text", "text": "hm", "signature": "s1"}],
        [{"type": "summary_encrypted_text", "data": "c2VjcmV0"}],
    ]
