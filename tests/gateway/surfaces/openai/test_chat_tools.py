"""Tools, tool choice, and response formats."""

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.schemas.messages import FunctionTool, OpaqueTool, ResponseFormat, ToolChoice
from tests.gateway.surfaces.bodies import chat, refused

SCHEMA: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: dict[str, object] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": SCHEMA,
        "strict": True,
    },
    "cache_control": {"type": "ephemeral"},
}
BARE: dict[str, object] = {"type": "function", "function": {"name": "time"}}
SEARCH: dict[str, object] = {"type": "web_search", "filters": {"domain": "a.test"}}
FORM: dict[str, object] = {"name": "answer", "schema": SCHEMA, "strict": True, "description": "d"}


def json(raw: Raw | UnsetType) -> object:
    assert isinstance(raw, Raw)
    return msgspec.json.decode(raw)


def function(**fields: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": "f", **fields}}


def choice(value: object, *tools: object) -> ToolChoice:
    read = chat(tools=tools or (WEATHER, BARE), tool_choice=value).tool_choice
    assert isinstance(read, ToolChoice)
    return read


def form(**fields: object) -> ResponseFormat:
    read = chat(response_format=fields).response_format
    assert isinstance(read, ResponseFormat)
    return read


def test_a_function_is_read_and_kept() -> None:
    tools = chat(tools=[WEATHER]).tools

    assert isinstance(tools, tuple)
    (tool,) = tools
    assert isinstance(tool, FunctionTool)
    assert (tool.name, tool.description, tool.strict) == ("weather", "Tells the weather.", True)
    assert json(tool.parameters) == SCHEMA
    assert json(tool.raw) == WEATHER


@pytest.mark.parametrize("tool", [BARE, function(description=None, parameters=None, strict=None)])
def test_a_function_needs_no_more_than_a_name(tool: dict[str, object]) -> None:
    tools = chat(tools=[tool]).tools

    assert isinstance(tools, tuple)
    assert isinstance(tools[0], FunctionTool)
    assert tools[0].parameters is UNSET
    assert tools[0].description is UNSET
    assert tools[0].strict is UNSET


def test_a_tool_of_unknown_type_stays_as_it_came() -> None:
    tools = chat(tools=[WEATHER, SEARCH]).tools

    assert isinstance(tools, tuple)
    assert isinstance(tools[1], OpaqueTool)
    assert tools[1].type == "web_search"
    assert json(tools[1].raw) == SEARCH


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ({"type": "function"}, ".function"),
        ({"type": "function", "function": {}}, ".function.name"),
        ({"function": {"name": "f"}}, ".type"),
        ({"type": 5, "function": {"name": "f"}}, ".type"),
        (function(name=""), ".function.name"),
        (function(name="x" * 513), ".function.name"),
        (function(description=5), ".function.description"),
        (function(parameters="{}"), ".function.parameters"),
        (function(parameters=()), ".function.parameters"),
        (function(strict="yes"), ".function.strict"),
        ("weather", ""),
    ],
)
def test_a_tool_that_cannot_be_read_is_named(tool: object, path: str) -> None:
    error = refused(chat, tools=[BARE, tool])

    assert error.param == f"tools[1]{path}"
    assert f"tools[1]{path}" in error.message


@pytest.mark.parametrize("name", ["get weather", "wetter_für", "x" * 65, "docs.search"])
def test_a_name_that_some_vendor_refuses_is_read(name: str) -> None:
    tools = chat(tools=[function(name=name)]).tools

    assert isinstance(tools, tuple)
    assert isinstance(tools[0], FunctionTool)
    assert tools[0].name == name


def test_a_function_name_may_be_as_long_as_this() -> None:
    assert isinstance(chat(tools=[function(name="x-1_" * 16)]).tools, tuple)


def test_an_empty_list_of_tools_has_no_effect() -> None:
    request = chat(tools=(), tool_choice="auto", parallel_tool_calls=True)

    assert request.tools is UNSET
    assert request.tool_choice is UNSET
    assert request.parallel_tool_calls is UNSET


@pytest.mark.parametrize("value", [True, False])
def test_whether_calls_may_be_parallel_arrives(value: bool) -> None:
    assert chat(tools=[BARE], parallel_tool_calls=value).parallel_tool_calls is value


@pytest.mark.parametrize("mode", ["none", "auto", "required"])
def test_a_choice_may_be_a_word(mode: str) -> None:
    read = choice(mode)

    assert read.mode == mode
    assert json(read.raw) == mode


def test_a_choice_may_name_a_function() -> None:
    value: dict[str, object] = {"type": "function", "function": {"name": "time"}}

    read = choice(value)

    assert (read.mode, read.name) == ("named", "time")
    assert json(read.raw) == value


@pytest.mark.parametrize(
    "value",
    [
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
        {"type": "custom", "custom": {"name": "x"}},
    ],
)
def test_a_choice_of_another_form_stays_as_it_came(value: dict[str, object]) -> None:
    read = choice(value)

    assert read.mode == "opaque"
    assert json(read.raw) == value


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("any", "tool_choice"),
        (True, "tool_choice"),
        ([], "tool_choice"),
        ({}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.function"),
        ({"type": "function", "function": {}}, "tool_choice.function.name"),
        ({"type": "function", "function": {"name": "elsewhere"}}, "tool_choice.function.name"),
    ],
)
def test_a_choice_that_cannot_be_met_is_refused(value: object, param: str) -> None:
    error = refused(chat, tools=[WEATHER, BARE], tool_choice=value)

    assert error.param == param


@pytest.mark.parametrize("value", ["required", {"type": "function", "function": {"name": "time"}}])
def test_a_choice_needs_tools(value: object) -> None:
    assert refused(chat, tool_choice=value).param in {"tool_choice", "tool_choice.function.name"}


@pytest.mark.parametrize("kind", ["text", "json_object"])
def test_the_answer_may_be_text_or_some_json(kind: str) -> None:
    read = form(type=kind)

    assert read.type == kind
    assert json(read.raw) == {"type": kind}


def test_the_answer_may_follow_a_schema() -> None:
    read = form(type="json_schema", json_schema=FORM)

    assert (read.type, read.name, read.strict) == ("json_schema", "answer", True)
    assert read.description == "d"
    assert json(read.schema) == SCHEMA
    assert json(read.raw) == {"type": "json_schema", "json_schema": FORM}


def test_a_schema_needs_no_more_than_a_name() -> None:
    read = form(type="json_schema", json_schema={"name": "answer", "schema": None, "strict": None})

    assert (read.schema, read.strict, read.description) == (UNSET, UNSET, UNSET)


def test_a_form_that_we_do_not_know_stays_as_it_came() -> None:
    read = form(type="grammar", grammar="root ::= x")

    assert read.type == "opaque"
    assert json(read.raw) == {"type": "grammar", "grammar": "root ::= x"}


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("json_object", "response_format"),
        ({}, "response_format.type"),
        ({"type": "json_schema"}, "response_format.json_schema"),
        ({"type": "json_schema", "json_schema": {"name": 5}}, "response_format.json_schema.name"),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": "y"}},
            "response_format.json_schema.schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "strict": "y"}},
            "response_format.json_schema.strict",
        ),
    ],
)
def test_a_form_that_cannot_be_read_is_named(value: object, param: str) -> None:
    assert refused(chat, response_format=value).param == param
