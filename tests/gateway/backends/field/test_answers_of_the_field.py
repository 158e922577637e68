"""Answers of vendors as public reports of 2026 describe them (docs/field-log.md)."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.gateway.backends.field.conversations import said, tool
from tests.gateway.backends.field.desk import (
    COUNTED,
    SURFACES,
    USAGE,
    Desk,
    Json,
    Surface,
    bedrock_answer,
    chunk,
    claude_answer,
    cohere_answer,
    desk,
    gemini_answer,
    openai_answer,
    response_answer,
)

pytestmark = pytest.mark.anyio

OF_OPENAIS_DIALECT = ("gpt", "openrouter", "vllm", "llama-cpp", "deepseek")
of_each_vendor = pytest.mark.parametrize("model", OF_OPENAIS_DIALECT)
to_each_client = pytest.mark.parametrize("surface", SURFACES)

HI = {surface: said(surface, ("user", "hi")) for surface in SURFACES}
END = chunk({}, "stop")
CALLED = chunk({}, "tool_calls")
HE, Y = chunk({"role": "assistant", "content": "he"}), chunk({"content": "y"})


@pytest.fixture(scope="module")
async def field(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Desk, None]:
    async with desk(tmp_path_factory.mktemp("run")) as found:
        yield found


@of_each_vendor
@to_each_client
async def test_chunks_without_choices_do_no_harm(field: Desk, model: str, surface: Surface) -> None:
    results: list[Json] = []
    filtered: Json = {"id": "", "object": "", "created": 0, "model": "", "choices": []}
    field.streams([{**filtered, "prompt_filter_results": results}, HE, Y, END, COUNTED])

    reply = await field.ask(surface, model, HI[surface], stream=True)

    assert (reply.text, reply.failed) == ("hey", False)


@of_each_vendor
@to_each_client
async def test_choices_without_a_delta_do_no_harm(
    field: Desk, model: str, surface: Surface
) -> None:
    bare: Json = {"index": 0, "finish_reason": None, "content_filter_results": {}}
    halves = chunk({"content": "y", "tool_calls": None, "role": None})
    field.streams([HE, {**chunk(), "choices": [bare]}, chunk(None), halves, chunk(None, "stop")])

    reply = await field.ask(surface, model, HI[surface], stream=True)

    assert (reply.text, reply.failed) == ("hey", False)


FAULT: Json = {"code": 502, "message": "limit reached (33/32)", "metadata": {}}
BARE_ERROR: Json = {**chunk(), "choices": [], "error": FAULT}
ERROR_AND_CHOICE = chunk({"content": ""}, "error", error=FAULT)


@pytest.mark.parametrize("error", [BARE_ERROR, ERROR_AND_CHOICE], ids=["bare", "with a choice"])
@pytest.mark.parametrize("before", [[], [HE]], ids=["first", "after text"])
@to_each_client
async def test_an_error_inside_a_stream_of_status_200_reaches_the_client(
    field: Desk, surface: Surface, error: Json, before: list[Json]
) -> None:
    for model in OF_OPENAIS_DIALECT:
        for done in (True, False):
            field.streams([*before, error], done=done)

            reply = await field.ask(surface, model, HI[surface], stream=True)

            assert reply.failed, (model, done)
            assert "limit reached (33/32)" in reply.body


@of_each_vendor
@to_each_client
async def test_an_error_inside_a_whole_answer_of_status_200_reaches_the_client(
    field: Desk, model: str, surface: Surface
) -> None:
    field.answers({"error": FAULT, "user_id": "u"})

    reply = await field.ask(surface, model, HI[surface])

    assert reply.status >= 400
    assert "limit reached (33/32)" in reply.body


def call(id: str | None, arguments: str, **more: object) -> Json:
    function: Json = {"arguments": arguments}
    if id is None:
        return {"function": function, **more}
    return {"id": id, "type": "function", "function": {"name": "f", **function}, **more}


@pytest.mark.parametrize("place", [{}, {"index": 0}], ids=["no index", "always index 0"])
@pytest.mark.parametrize("shape", ["one delta", "one delta each", "in pieces"])
@to_each_client
async def test_parallel_calls_stay_apart_whatever_their_indexes(
    field: Desk, surface: Surface, place: Json, shape: str
) -> None:
    first, second = call("c1", '{"a": 1}', **place), call("c2", '{"a": 2}', **place)
    shapes: dict[str, list[list[Json]]] = {
        "one delta": [[first, second]],
        "one delta each": [[first], [second]],
        "in pieces": [
            [call("c1", '{"a":', **place)],
            [call(None, " 1}", **place)],
            [call("c2", '{"a":', **place)],
            [call(None, " 2}", **place)],
        ],
    }
    for model in OF_OPENAIS_DIALECT:
        field.streams([*(chunk({"tool_calls": one}) for one in shapes[shape]), CALLED, COUNTED])

        reply = await field.ask(
            surface, model, {**HI[surface], "tools": [tool(surface)]}, stream=True
        )

        assert reply.calls == [("f", {"a": 1}), ("f", {"a": 2})], model


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@to_each_client
async def test_a_call_that_gemini_could_not_make_is_a_failure(
    field: Desk, surface: Surface, stream: bool, reason: str
) -> None:
    answer = gemini_answer(finish=reason)
    if stream:
        field.streams([answer], done=False)
    else:
        field.answers(answer)

    reply = await field.ask(
        surface, "gemini", {**HI[surface], "tools": [tool(surface)]}, stream=stream
    )

    assert reply.failed


@of_each_vendor
@pytest.mark.parametrize("surface", ["chat", "messages"])
async def test_calls_that_end_with_stop_end_with_calls(
    field: Desk, model: str, surface: Surface
) -> None:
    made = [call("c", "{}", index=0)]
    asked = {**HI[surface], "tools": [tool(surface)]}
    field.answers(openai_answer({"content": None, "tool_calls": made}, "stop"))
    whole = await field.ask(surface, model, asked)
    field.streams([chunk({"tool_calls": made}), END, COUNTED])

    streamed = await field.ask(surface, model, asked, stream=True)

    reason = {"chat": "tool_calls", "messages": "tool_use"}[surface]
    assert f'"{reason}"' in whole.body
    assert streamed.finish == reason


@of_each_vendor
@pytest.mark.parametrize("surface", ["chat", "messages"])
async def test_answers_that_end_with_calls_but_have_none_just_end(
    field: Desk, model: str, surface: Surface
) -> None:
    field.answers(openai_answer({"content": "hey"}, "tool_calls"))
    whole = await field.ask(surface, model, HI[surface])
    field.streams([HE, Y, CALLED, COUNTED])

    streamed = await field.ask(surface, model, HI[surface], stream=True)

    reason = {"chat": "stop", "messages": "end_turn"}[surface]
    assert f'"{reason}"' in whole.body
    assert streamed.finish == reason


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        ("claude", claude_answer(stop="tool_use")),
        ("claude-bedrock", bedrock_answer({"text": "hey"}, stop="tool_use")),
        ("cohere", cohere_answer("hey", "TOOL_CALL")),
    ],
)
@pytest.mark.parametrize("surface", ["chat", "messages"])
async def test_vendors_of_other_dialects_end_without_calls_too(
    field: Desk, surface: Surface, model: str, answer: Json
) -> None:
    field.answers(answer)

    reply = await field.ask(surface, model, HI[surface])

    assert {"chat": '"stop"', "messages": '"end_turn"'}[surface] in reply.body


@of_each_vendor
@to_each_client
async def test_the_rest_of_a_calls_arguments_may_have_an_index_of_its_own(
    field: Desk, model: str, surface: Surface
) -> None:
    begun, rest = call("c", '{"a":', index=0), {"index": 1, "function": {"arguments": " 1}"}}
    more = [call("d", "", index=2), {"index": 3, "function": {"arguments": "{}"}}]
    field.streams([*(chunk({"tool_calls": [one]}) for one in (begun, rest, *more)), CALLED])

    reply = await field.ask(surface, model, {**HI[surface], "tools": [tool(surface)]}, stream=True)

    assert reply.calls == [("f", {"a": 1}), ("f", {})]


@of_each_vendor
@pytest.mark.parametrize("native", ["network_error", "ERROR"])
@to_each_client
async def test_a_failure_that_only_the_native_reason_tells_is_a_failure(
    field: Desk, model: str, surface: Surface, native: str
) -> None:
    failed = openai_answer({"content": ""})
    choice = cast("list[Json]", failed["choices"])[0]
    field.answers({**failed, "choices": [{**choice, "native_finish_reason": native}]})
    whole = await field.ask(surface, model, HI[surface])
    end: Json = {**cast("list[Json]", END["choices"])[0], "native_finish_reason": native}
    field.streams([chunk({"role": "assistant", "content": ""}), {**END, "choices": [end]}, COUNTED])

    streamed = await field.ask(surface, model, HI[surface], stream=True)

    assert (whole.failed, streamed.failed) == (True, True)


@of_each_vendor
@to_each_client
async def test_calls_without_arguments_have_an_empty_object(
    field: Desk, model: str, surface: Surface
) -> None:
    asked = {**HI[surface], "tools": [tool(surface)]}
    field.answers(openai_answer({"content": None, "tool_calls": [call("c", "")]}, "tool_calls"))
    whole = await field.ask(surface, model, asked)
    field.streams([chunk({"tool_calls": [call("c", "", index=0)]}), CALLED, COUNTED])

    streamed = await field.ask(surface, model, asked, stream=True)

    assert ('"input":{}' if surface == "messages" else '"arguments":"{}"') in whole.body
    assert streamed.calls == [("f", {})]


@of_each_vendor
@to_each_client
async def test_a_stream_that_only_stops_is_a_failure(
    field: Desk, model: str, surface: Surface
) -> None:
    field.streams([HE, Y], done=False)

    reply = await field.ask(surface, model, HI[surface], stream=True)

    assert reply.failed


COUNTS: dict[str, object] = {
    "null": None,
    "null counts": dict.fromkeys(USAGE),
    "null details": {**USAGE, "prompt_tokens_details": None, "completion_tokens_details": None},
    "no total": {"prompt_tokens": 3, "completion_tokens": 2},
    "floats": {name: float(count) for name, count in USAGE.items()},
}


@pytest.mark.parametrize("usage", COUNTS.values(), ids=COUNTS)
@to_each_client
async def test_answers_are_complete_whatever_their_usage(
    field: Desk, surface: Surface, usage: object
) -> None:
    for model in OF_OPENAIS_DIALECT:
        field.answers(openai_answer({"content": "hey"}, usage=usage))
        whole = await field.ask(surface, model, HI[surface])
        field.streams([HE, Y, END, {**COUNTED, "usage": usage}])

        streamed = await field.ask(surface, model, HI[surface], stream=True)

        assert (whole.status, "hey" in whole.body) == (200, True), model
        assert (streamed.text, streamed.failed) == ("hey", False), model


@to_each_client
async def test_a_response_that_ends_while_it_reasons_keeps_its_usage(
    field: Desk, surface: Surface
) -> None:
    thought: Json = {"type": "reasoning", "id": "rs", "status": "incomplete", "summary": []}
    usage: Json = {"input_tokens": 84, "output_tokens": 16, "total_tokens": 100}
    why: Json = {"reason": "max_output_tokens"}
    field.answers(
        response_answer(thought, status="incomplete", incomplete_details=why, usage=usage)
    )

    reply = await field.ask(surface, "gpt-responses", HI[surface])

    ends = {"chat": '"length"', "messages": '"max_tokens"', "responses": '"incomplete"'}
    assert ends[surface] in reply.body
    assert '_tokens":16' in reply.body


@pytest.mark.parametrize("model", ["gpt", "claude", "gemini"])
@to_each_client
async def test_integers_of_calls_are_not_rounded(field: Desk, model: str, surface: Surface) -> None:
    big = 2512292042121000001
    made = {
        "gpt": openai_answer({"content": None, "tool_calls": [call("c", f'{{"id": {big}}}')]}),
        "claude": claude_answer(
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"id": big}},
            stop="tool_use",
        ),
        "gemini": gemini_answer({"functionCall": {"name": "f", "args": {"id": big}}}),
    }
    field.answers(made[model])

    reply = await field.ask(surface, model, {**HI[surface], "tools": [tool(surface)]})

    assert str(big) in reply.body
