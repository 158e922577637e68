"""OpenAI requests are encoded for Anthropic, or rejected if it has no such field."""

import json
from typing import cast

import msgspec
import pytest
from msgspec import UNSET, UnsetType

from strowger_gateway.adapters.anthropic.adapter import AnthropicAdapter
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.schemas.messages import (
    FunctionTool,
    OpaqueTool,
    ResponseFormat,
    ToolChoice,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from tests.adapters.anthropic.anthropic_doubles import (
    ANTHROPIC,
    ENDPOINT,
    LOOK,
    Json,
    chat,
    raw,
    refused,
    sent,
)


def test_a_request_goes_to_the_messages_route_with_key_and_version() -> None:
    outbound = ANTHROPIC.encode(chat(), "claude-opus-4-6")

    assert outbound.target == "/v1/messages"
    headers = dict(outbound.headers)
    assert headers["x-api-key"] == "sk-ant-0123456789"
    assert headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in headers
    assert json.loads(outbound.body) == {
        "model": "claude-opus-4-6",
        "max_tokens": 2000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    }


def test_the_operators_headers_replace_ours() -> None:
    endpoint = msgspec.structs.replace(
        ENDPOINT,
        key=Secret(""),
        headers=(
            ("Anthropic-Beta", "files-api-2025-04-14,x"),
            ("anthropic-version", "2027-01-01"),
            ("Authorization", "Bearer t"),
        ),
    )

    headers = dict(AnthropicAdapter(endpoint).encode(chat(), "m").headers)

    assert headers["anthropic-beta"] == "files-api-2025-04-14,x"
    assert headers["anthropic-version"] == "2027-01-01"
    assert headers["authorization"] == "Bearer t"
    assert "x-api-key" not in headers


def test_a_token_limit_is_required_and_no_default_is_sent() -> None:
    bare = chat(sampling=Sampling())

    assert [one.field for one in unsupported(bare, ANTHROPIC.supports)] == ["max_tokens"]
    assert refused(bare) == "max_tokens"


def test_a_later_version_gets_no_sampling_fields() -> None:
    endpoint = msgspec.structs.replace(ENDPOINT, headers=(("Anthropic-Version", "2026-10-21"),))
    later = AnthropicAdapter(endpoint)
    request = chat(sampling=Sampling(max_tokens=9, temperature=0.5, top_k=5, stop=("END",)))
    neutral = chat(sampling=Sampling(max_tokens=9, top_p=1.0))

    assert [one.field for one in unsupported(request, later.supports)] == ["temperature", "top_k"]
    assert not unsupported(neutral, later.supports)
    assert b"top_p" not in later.encode(neutral, "m").body


@pytest.mark.parametrize("temperature", [1.5, -0.1])
def test_temperatures_that_anthropic_does_not_take_are_reported(temperature: float) -> None:
    request = chat(sampling=Sampling(max_tokens=5, temperature=temperature))

    assert [one.field for one in unsupported(request, ANTHROPIC.supports)] == ["temperature"]


def test_tools_have_an_object_schema_and_the_other_fields_that_anthropic_reads() -> None:
    schema: Json = {"properties": {"at": {"$ref": "#/$defs/at"}}, "$defs": {"at": {}}}
    web: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    fields = {"function": {"input_examples": [{"at": "Bern"}]}, "defer_loading": True}
    body = sent(
        chat(
            tools=(
                LOOK,
                FunctionTool(
                    name="find",
                    description="Look for it.",
                    parameters=raw(schema),
                    strict=True,
                    raw=raw(fields),
                ),
                OpaqueTool(type="web_search_20250305", raw=raw(web)),
            )
        )
    )

    assert body["tools"] == [
        {"name": "look", "input_schema": {"type": "object", "properties": {}}},
        {
            "name": "find",
            "description": "Look for it.",
            "input_schema": {"type": "object", **schema},
            "strict": True,
            "defer_loading": True,
            "input_examples": [{"at": "Bern"}],
        },
        web,
    ]


@pytest.mark.parametrize(
    ("choice", "single", "expected"),
    [
        (None, False, None),
        (None, True, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice(mode="auto"), False, {"type": "auto"}),
        (
            ToolChoice(mode="required"),
            True,
            {"type": "any", "disable_parallel_tool_use": True},
        ),
        (ToolChoice(mode="none"), True, {"type": "none"}),
        (ToolChoice(mode="named", name="look"), False, {"type": "tool", "name": "look"}),
        (ToolChoice(mode="opaque", raw=raw({"type": "any"})), False, {"type": "any"}),
        (
            ToolChoice(mode="opaque", raw=raw({"type": "any"})),
            True,
            {"type": "any", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_the_choice_of_tools_has_anthropics_values(
    choice: ToolChoice | None, single: bool, expected: Json | None
) -> None:
    request = chat(tools=(LOOK,))
    if choice is not None:
        request = msgspec.structs.replace(request, tool_choice=choice)
    if single:
        request = msgspec.structs.replace(request, parallel_tool_calls=False)

    assert sent(request).get("tool_choice") == expected


def test_a_schema_binds_the_answer_and_none_is_refused_by_name() -> None:
    schema = {"type": "object", "additionalProperties": False}
    form = ResponseFormat(type="json_schema", name="x", schema=raw(schema), strict=True)

    body = sent(chat(response_format=form, reasoning_effort="high"))

    assert body["output_config"] == {
        "format": {"type": "json_schema", "schema": schema},
        "effort": "high",
    }
    assert refused(chat(response_format=ResponseFormat(type="json_schema", name="x"))) == (
        "response_format.json_schema.schema"
    )


ANY_OBJECT = {"type": "object", "additionalProperties": True}
IN_JSON = ResponseFormat(type="json_object")


def test_any_json_object_is_returned_by_a_tool_that_the_model_must_call() -> None:
    body = sent(chat(response_format=IN_JSON))

    (tool,) = cast("list[Json]", body["tools"])
    assert (tool["name"], tool["input_schema"]) == ("answer_in_json", ANY_OBJECT)
    assert body["tool_choice"] == {"type": "tool", "name": "answer_in_json"}
    assert "output_config" not in body


@pytest.mark.parametrize(
    ("choice", "tools", "expected"),
    [
        (UNSET, ["look", "answer_in_json"], {"type": "any"}),
        (ToolChoice(mode="none"), ["look", "answer_in_json"], {"type": "tool"}),
        (ToolChoice(mode="required"), ["look"], {"type": "any"}),
        (ToolChoice(mode="named", name="look"), ["look"], {"type": "tool", "name": "look"}),
    ],
)
def test_json_objects_and_the_clients_own_functions_go_together(
    choice: ToolChoice | UnsetType, tools: list[str], expected: Json
) -> None:
    body = sent(chat(response_format=IN_JSON, tools=(LOOK,), tool_choice=choice))

    assert [one["name"] for one in cast("list[Json]", body["tools"])] == tools
    assert cast("Json", body["tool_choice"]).items() >= expected.items()


def test_a_json_object_is_refused_by_name_only_with_a_thinking_budget() -> None:
    budget = {"thinking": raw({"type": "enabled", "budget_tokens": 1024})}
    adaptive = {"thinking": raw({"type": "adaptive"})}

    assert refused(chat(response_format=IN_JSON, extra=budget)) == "response_format.type"
    assert "tools" in sent(chat(response_format=IN_JSON, extra=adaptive))
    assert "tools" in sent(chat(response_format=IN_JSON, reasoning_effort="none"))


def test_openais_own_forms_are_refused_by_name_and_anthropics_are_sent() -> None:
    custom = OpaqueTool(type="custom", raw=raw({"type": "custom", "custom": {"name": "grep"}}))
    own = {"type": "custom", "name": "grep", "input_schema": {"type": "object"}}
    allowed = raw({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}})
    choice = ToolChoice(mode="opaque", raw=allowed)

    assert refused(chat(tools=(custom,))) == "tools[0].custom"
    assert refused(chat(tools=(LOOK,), tool_choice=choice)) == "tool_choice.type"
    assert refused(chat(extra={"service_tier": raw("flex")})) == "service_tier"
    assert sent(chat(tools=(OpaqueTool(type="custom", raw=raw(own)),)))["tools"] == [own]
    tier = sent(chat(extra={"service_tier": raw("standard_only")}))["service_tier"]
    assert tier == "standard_only"


@pytest.mark.parametrize(
    ("effort", "model", "thinking", "word"),
    [
        ("low", "claude-opus-4-6", {"type": "adaptive"}, "low"),
        ("minimal", "claude-sonnet-5", {"type": "adaptive"}, "low"),
        ("max", "claude-opus-4-7", {"type": "adaptive"}, "max"),
        ("none", "claude-opus-4-6", {"type": "disabled"}, None),
        ("none", "claude-sonnet-4-5", {"type": "disabled"}, None),
        ("high", "claude-sonnet-4-5", {"type": "enabled", "budget_tokens": 1600}, None),
        ("low", "claude-haiku-4-5-20251001", {"type": "enabled", "budget_tokens": 1024}, None),
        ("low", "claude-sonnet-4-20250514", {"type": "enabled", "budget_tokens": 1024}, None),
        ("low", "eu/claude-3-7-sonnet-latest", {"type": "enabled", "budget_tokens": 1024}, None),
    ],
)
def test_effort_is_sent_in_the_models_format(
    effort: str, model: str, thinking: Json, word: str | None
) -> None:
    body = sent(chat(reasoning_effort=effort), model)

    assert body["thinking"] == thinking
    assert body.get("output_config") == (None if word is None else {"effort": word})


def test_effort_that_cannot_be_expressed_is_refused() -> None:
    small = chat(reasoning_effort="low", sampling=Sampling(max_tokens=1024))
    both = chat(reasoning_effort="low", extra={"thinking": raw({"type": "adaptive"})})

    assert refused(chat(reasoning_effort="huge")) == "reasoning_effort"
    assert refused(small, "claude-sonnet-4-5") == "reasoning_effort"
    assert refused(both) == "thinking"


def test_stop_strings_users_and_streams_have_their_own_names() -> None:
    body = sent(
        chat(
            sampling=Sampling(max_tokens=9, stop=("END",), top_k=5, top_p=0.5, temperature=0),
            user="u-1",
            stream=True,
        )
    )

    assert body["stop_sequences"] == ["END"]
    assert body["metadata"] == {"user_id": "u-1"}
    assert body["stream"] is True
    assert (body["top_k"], body["top_p"], body["temperature"]) == (5, 0.5, 0)


def test_anthropics_own_fields_are_sent_once() -> None:
    extra = {
        "thinking": raw({"type": "enabled", "budget_tokens": 1024}),
        "service_tier": raw("standard_only"),
        "container": raw("container_1"),
        "output_config": raw({"task_budget": 5}),
    }
    schema = ResponseFormat(type="json_schema", name="x", schema=raw({"type": "object"}))
    twice = {"output_config": raw({"format": {}})}

    body = sent(chat(extra=extra, response_format=schema))

    assert [one.field for one in unsupported(chat(extra=extra), ANTHROPIC.supports)] == [
        "container"
    ]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert (body["service_tier"], body["container"]) == ("standard_only", "container_1")
    assert body["output_config"] == {
        "task_budget": 5,
        "format": {"type": "json_schema", "schema": {"type": "object"}},
    }
    assert refused(chat(extra=twice, response_format=schema)) == "output_config.format"
    assert refused(chat(extra={"output_config": raw(1)}, response_format=schema)) == (
        "output_config"
    )


def test_what_anthropic_cannot_express_is_reported_by_name() -> None:
    request = chat(
        sampling=Sampling(max_tokens=5, seed=1, n=2, presence_penalty=0.5, logprobs=True),
        metadata=raw({"a": "b"}),
        extra={"store": raw(True)},
    )

    assert [one.field for one in unsupported(request, ANTHROPIC.supports)] == [
        "logprobs",
        "metadata",
        "n",
        "presence_penalty",
        "seed",
        "store",
    ]
