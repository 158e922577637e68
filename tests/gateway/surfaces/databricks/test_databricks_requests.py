"""Databricks requests: accepted fields and their parsed form."""

import msgspec
import pytest
from msgspec import UNSET, Raw

from strowger_gateway.gateway.surfaces.databricks.parse import parse_invocation, parse_task
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.fields import Task
from strowger_gateway.schemas.messages import Message, TextPart
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.gateway.surfaces.databricks.databricks_seed import (
    BODIES,
    SEED,
    TABLES,
    Field,
    flat,
    sent,
)

TASKS: dict[str, Task] = {
    "chat": "chat",
    "completions": "completion",
    "embeddings": "embeddings",
}
ROWS = [(table, field) for table, fields in TABLES.items() for field in fields]
GOOD = [(table, field, value) for table, field in ROWS for value in field.accepted]
BAD = [(table, field, value) for table, field in ROWS for value in field.bad]


def invoked(**body: object) -> ChatRequest | CompletionRequest | EmbeddingsRequest:
    request = parse_invocation(msgspec.json.encode(body), model="m")
    assert isinstance(request, ChatRequest | CompletionRequest | EmbeddingsRequest)
    return request


def chat(*messages: object, **fields: object) -> ChatRequest:
    request = invoked(messages=messages, **fields)
    assert isinstance(request, ChatRequest)
    return request


def completion(**fields: object) -> CompletionRequest:
    request = invoked(**{"prompt": "once", **fields})
    assert isinstance(request, CompletionRequest)
    return request


def refused(**body: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse_invocation(msgspec.json.encode(body), model="m")
    return caught.value


@pytest.mark.parametrize(("table", "field"), ROWS, ids=lambda one: getattr(one, "name", one))
def test_the_fields_are_quoted_from_the_seed(table: str, field: Field) -> None:
    if not SEED.exists():
        pytest.skip("the seeds are not here")

    assert flat(field.quote) in flat(SEED.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("table", "field", "value"), GOOD)
def test_every_value_of_the_seeds_tables_is_taken(table: str, field: Field, value: object) -> None:
    body = sent(table, field, value)

    assert parse_invocation(msgspec.json.encode(body), model="m").model == "m"
    assert parse_task(TASKS[table], msgspec.json.encode({**body, "model": "n"}), model="")


@pytest.mark.parametrize(("table", "field", "value"), BAD)
def test_every_other_value_is_refused_by_the_fields_name(
    table: str, field: Field, value: object
) -> None:
    error = refused(**sent(table, field, value))

    assert error.param is not None
    assert error.param.startswith(field.name)
    assert error.param in error.message


@pytest.mark.parametrize(
    ("body", "task"),
    [
        ({"messages": [{"role": "user", "content": "x"}]}, ChatRequest),
        ({"prompt": "x"}, CompletionRequest),
        ({"input": "x"}, EmbeddingsRequest),
        ({"input": "x", "prompt": None, "messages": None}, EmbeddingsRequest),
    ],
)
def test_an_invocations_task_is_recognised_by_its_field(
    body: dict[str, object], task: type
) -> None:
    assert type(invoked(**body)) is task


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({}, "none"),
        ({"messages": None}, "none"),
        ({"prompt": "x", "input": "y"}, "prompt, input"),
        ({"messages": [], "prompt": "x", "input": "y"}, "messages, prompt, input"),
        ({"dataframe_records": [{"a": 1}]}, "dataframe_records"),
        ({"inputs": {"a": [1]}}, "inputs"),
    ],
)
def test_an_invocation_has_exactly_one_task(body: dict[str, object], found: str) -> None:
    error = refused(**body)

    assert "exactly one of messages (chat), prompt (completion) and input" in error.message
    assert error.message.endswith(f"it has {found}")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"messages":', b'{"model":5}', b"\xff"])
def test_what_is_not_a_request_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_invocation(body, model="m")


def test_the_path_names_the_endpoint_and_the_body_may_only_repeat_it() -> None:
    assert completion(model="m").model == "m"
    assert completion(model=None).model == "m"
    assert refused(prompt="x", model="other").param == "model"


def test_a_path_without_a_name_leaves_it_to_the_body() -> None:
    body = msgspec.json.encode(BODIES["chat"])

    with pytest.raises(InvalidRequest, match="model is required"):
        parse_task("chat", body, model="")


def test_tokens_are_not_of_this_surface() -> None:
    with pytest.raises(InvalidRequest, match="accepts text, not tokens"):
        parse_task("tokens", b"{}", model="m")


def test_a_client_that_is_silent_gets_no_default_of_ours() -> None:
    request = chat({"role": "user", "content": "x"})

    assert request.sampling == Sampling()
    assert not request.stream
    assert (request.tools, request.tool_choice, request.response_format) == (UNSET,) * 3


def test_a_completion_has_no_limit_of_tokens_by_default() -> None:
    assert completion().sampling.max_tokens is None
    assert completion(max_tokens=None).sampling.max_tokens is None
    assert completion(max_tokens=7).sampling.max_tokens == 7


@pytest.mark.parametrize(
    ("sent", "template", "optional"),
    [(None, True, ("template",)), (False, True, ()), (True, False, ())],
)
def test_a_prompt_is_wrapped_unless_it_is_raw_and_always_on_request(
    sent: bool | None, template: bool, optional: tuple[str, ...]
) -> None:
    request = completion(use_raw_prompt=sent)

    assert request.template is template
    assert request.optional == optional


def test_a_suffix_is_put_behind_the_answer_and_fills_no_middle() -> None:
    request = completion(suffix="the end")

    assert request.append_suffix == "the end"
    assert request.suffix is UNSET
    assert completion().append_suffix is UNSET


def test_a_batch_is_bounded_by_prompts_times_choices() -> None:
    body = msgspec.json.encode({"prompt": ["a", "b", "c"], "n": 2})

    assert parse_invocation(body, model="m", max_choices=6)
    with pytest.raises(InvalidRequest, match="3 prompts x n 2"):
        parse_invocation(body, model="m", max_choices=5)


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_system_message_can_only_be_the_first(role: str) -> None:
    hello: dict[str, object] = {"role": "user", "content": "x"}
    first = chat({"role": role, "content": "be brief"}, hello)

    error = refused(messages=[hello, {"role": role, "content": "be brief"}])
    twice = refused(messages=[{"role": role, "content": "a"}] * 2)

    assert first.messages[0].role == role
    assert error.param == twice.param == "messages[1].role"
    assert "can only be the first one" in error.message


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_only_a_tools_message_answers_a_call(role: str) -> None:
    message = {"role": role, "content": "x", "tool_call_id": "c"}

    assert refused(messages=[message]).param == "messages[0].tool_call_id"
    assert chat({**message, "tool_call_id": ""}, {"role": "user", "content": "y"})
    assert chat({**message, "tool_call_id": None})


def test_tool_calls_and_their_results_come_back_in() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    request = chat(
        {"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "2"},
    )

    assert request.messages[1].tool_calls[0].name == "f"
    assert request.messages[2].tool_call_id == "c"


def test_thinking_that_comes_back_as_a_part_of_the_content_is_thinking() -> None:
    summary = [
        {"type": "summary_text", "text": "hm, ", "signature": "sig"},
        {"type": "summary_text", "text": "yes"},
    ]
    said = {"type": "text", "text": "42"}
    thought = {"type": "reasoning", "summary": summary}
    request = chat(
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [thought, said], "mine": 1},
        {"role": "assistant", "content": [thought]},
        {"role": "assistant", "content": [said]},
    )

    _, both, alone, plain = request.messages
    known = {"role": "assistant", "reasoning_content": "hm, yes", "reasoning_signature": "sig"}
    assert (both.reasoning, both.signature) == (alone.reasoning, alone.signature)
    assert (both.reasoning, both.signature) == ("hm, yes", "sig")
    assert both.content == (TextPart(text="42", raw=Raw(msgspec.json.encode(said))),)
    assert alone.content is None
    assert plain.reasoning is UNSET
    assert written(both) == {**known, "content": [said], "mine": 1}
    assert written(alone) == known


def test_a_thought_that_only_its_vendor_can_read_stays_what_it_is() -> None:
    closed = {"type": "reasoning", "summary": [{"type": "summary_encrypted_text", "data": "x"}]}
    message = chat({"role": "assistant", "content": [closed]}).messages[0]

    assert message.reasoning is UNSET
    assert written(message) == {"role": "assistant", "content": [closed]}


def written(message: Message) -> object:
    assert isinstance(message.raw, Raw)
    return msgspec.json.decode(message.raw)


def test_a_thought_of_another_shape_is_refused_by_its_place() -> None:
    part = {"type": "reasoning", "summary": "hm"}
    error = refused(messages=[{"role": "assistant", "content": [part]}])

    assert error.param == "messages[0].content[0].summary"


def test_notes_for_the_services_tables_travel_on_and_need_not_arrive() -> None:
    request = completion(client_request_id="r", usage_context={"team": "a"}, other=1)

    assert set(request.extra) == {"client_request_id", "usage_context", "other"}
    assert request.optional == ("template", "client_request_id", "usage_context")


def test_what_the_sdk_has_no_argument_for_comes_as_strings() -> None:
    fields = {"top_k": "1", "echo": "true", "suffix": "5", "seed": "null", "other": "x y"}

    request = completion(extra_params=fields)

    assert request == completion(top_k=1, echo=True, suffix="5", other="x y")
    assert completion(extra_params={}) == completion(extra_params=None) == completion()


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        (5, "extra_params"),
        (["top_k"], "extra_params"),
        ({"top_k": 1}, "extra_params"),
        ({"n": "2"}, "extra_params.n"),
        ({"top_k": "0"}, "top_k"),
        ({"top_k": "many"}, "top_k"),
        ({"top_k": "[" * 5000}, "top_k"),
    ],
)
def test_extra_params_that_cannot_be_right_are_refused(extra: object, param: str) -> None:
    error = refused(prompt="x", n=1, extra_params=extra)

    assert error.param == param
    assert param in error.message
