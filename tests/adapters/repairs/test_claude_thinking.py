"""Every form of thinking, effort and sampling reaches each of Claude's models as it takes them."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import cast

import httpx
import pytest

from tests.adapters.repairs.one_of_each import (
    USER,
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

OLD, LATER, LATEST = "claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-4-8"
ALWAYS, BETWEEN, DEFAULT = "claude-opus-5-5", "claude-sonnet-5-5", "claude-opus-5"
FIRST = "claude-3-5-haiku-20241022"
NO_ROOM = "claude-3-7-sonnet-20250219"
CLOUDS = ("anthropic", "vertex-anthropic", "bedrock")
BUDGET: Json = {"type": "enabled", "budget_tokens": 2000}
ADAPTIVE: Json = {"type": "adaptive", "display": "summarized"}
OFF: Json = {"type": "disabled"}
PLAIN: Json = {}
NOTHING: frozenset[str] = frozenset()
TOOL: Json = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
FUNCTION: Json = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("thinking"), *CLOUDS) as one:
        yield one


def on(cloud: str, model: str) -> str:
    """The gateway's name of a model at a service."""
    return f"{cloud}/{'anthropic.' if cloud == 'bedrock' else ''}{model}"


def thinking_of(rig: Rig) -> object:
    sent = cast("Mapping[str, Mapping[str, object]]", rig.sent)
    return (sent.get("additionalModelRequestFields") or sent).get("thinking")


def effort_of(rig: Rig) -> object:
    sent = cast("Mapping[str, Mapping[str, object]]", rig.sent)
    return (sent.get("outputConfig") or sent.get("output_config") or {}).get("effort")


def sampling_of(rig: Rig) -> set[str]:
    sent = cast("Mapping[str, Mapping[str, object]]", rig.sent)
    names = {*sent, *sent.get("inferenceConfig", {}), *sent.get("additionalModelRequestFields", {})}
    return {"temperature", "top_p", "top_k", "topP"} & names


def rules(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 200, answer.text
    return {one.rpartition(":")[2] for one in repairs(answer)}


MESSAGES: Sequence[tuple[object, ...]] = [
    # model, what the client asks, max_tokens, sent thinking, sent effort, rule, dropped
    (OLD, {"thinking": BUDGET}, 4000, BUDGET, None, None, []),
    (OLD, {"thinking": ADAPTIVE}, 4000, ("enabled", 3200), None, "thinking_budget", []),
    (
        OLD,
        {"thinking": ADAPTIVE, "output_config": {"effort": "low"}},
        10000,
        ("enabled", 2000),
        None,
        "thinking_budget",
        [],
    ),
    (OLD, {"thinking": ADAPTIVE}, 500, None, None, None, ["thinking"]),
    (OLD, {"thinking": BUDGET}, 500, None, None, None, ["thinking"]),
    (OLD, {"thinking": BUDGET}, 1500, ("enabled", 1499), None, "fitting_budget", []),
    (
        OLD,
        {"thinking": {"type": "enabled", "budget_tokens": 10}},
        4000,
        ("enabled", 1024),
        None,
        "fitting_budget",
        [],
    ),
    (OLD, {"output_config": {"effort": "high"}}, 500, None, None, None, ["output_config.effort"]),
    (
        "claude-opus-4-5",
        {"output_config": {"effort": "max"}},
        500,
        None,
        "high",
        "effort",
        [],
    ),
    (LATER, {"thinking": BUDGET}, 4000, BUDGET, None, None, []),
    (LATER, {"thinking": ADAPTIVE}, 500, ADAPTIVE, None, None, []),
    (LATER, {"output_config": {"effort": "xhigh"}}, 500, None, "high", "effort", []),
    (LATEST, {"thinking": BUDGET}, 4000, {"type": "adaptive"}, "medium", "adaptive_thinking", []),
    (LATEST, {"thinking": OFF}, 4000, OFF, None, None, []),
    (ALWAYS, {"thinking": OFF}, 4000, None, "low", None, ["thinking"]),
    (BETWEEN, {"thinking": OFF}, 4000, {"type": "between_tools"}, None, "thinking_on", []),
    (
        DEFAULT,
        {"thinking": OFF, "output_config": {"effort": "max"}},
        4000,
        OFF,
        "high",
        "effort_without_thinking",
        [],
    ),
    (FIRST, {"thinking": BUDGET}, 4000, None, None, None, ["thinking"]),
    ("claude-alias", {"thinking": BUDGET}, 4000, BUDGET, None, None, []),
]


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize(
    ("model", "asked", "limit", "thinking", "effort", "rule", "left_out"), MESSAGES
)
async def test_a_messages_clients_thinking_arrives_in_the_models_form(
    rig: Rig,
    cloud: str,
    model: str,
    asked: Json,
    limit: int,
    thinking: Json | tuple[str, int] | None,
    effort: str | None,
    rule: str | None,
    left_out: list[str],
) -> None:
    answer = await rig.messages(on(cloud, model), max_tokens=limit, **asked)

    assert rules(answer) == ({rule} if rule else set())
    sent = thinking_of(rig)
    if isinstance(thinking, tuple):
        found = cast("Json", sent)
        assert (found["type"], found["budget_tokens"]) == thinking
    else:
        assert sent == thinking
    assert effort_of(rig) == effort
    assert [one for one in dropped(answer) if "thinking" in one or "effort" in one] == left_out


CHATS: Sequence[tuple[object, ...]] = [
    (OLD, "high", 4000, ("enabled", 3200), None, []),
    (OLD, "low", 200, None, None, ["reasoning_effort"]),
    (OLD, "none", 200, OFF, None, []),
    (LATER, "xhigh", 200, {"type": "adaptive"}, "high", []),
    (LATEST, "minimal", 200, {"type": "adaptive"}, "low", []),
    (ALWAYS, "none", 200, {"type": "adaptive"}, "low", []),
    (FIRST, "high", 4000, None, None, ["reasoning_effort"]),
]


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize(("model", "level", "limit", "thinking", "effort", "left_out"), CHATS)
async def test_an_effort_arrives_in_the_models_form(
    rig: Rig,
    cloud: str,
    model: str,
    level: str,
    limit: int,
    thinking: Json | tuple[str, int] | None,
    effort: str | None,
    left_out: list[str],
) -> None:
    answer = await rig.chat(on(cloud, model), reasoning_effort=level, max_tokens=limit)
    responses = await rig.responses(
        on(cloud, model), reasoning={"effort": level}, max_output_tokens=limit
    )

    rules(answer)
    rules(responses)
    sent = thinking_of(rig)
    if isinstance(thinking, tuple):
        found = cast("Json", sent)
        assert (found["type"], found["budget_tokens"]) == thinking
    else:
        assert sent == thinking
    assert effort_of(rig) == effort
    assert [one for one in dropped(answer) if "effort" in one] == left_out


SAMPLING: Sequence[tuple[object, ...]] = [
    (OLD, {"temperature": 0.5, "top_p": 0.9}, PLAIN, {"temperature"}, ["top_p"]),
    (OLD, {"temperature": 1, "top_p": 0.9}, PLAIN, {"top_p"}, ["temperature"]),
    (OLD, {"temperature": 0.5, "top_k": 5}, PLAIN, {"temperature", "top_k"}, []),
    (OLD, {"temperature": 1, "top_p": 0.97}, {"thinking": BUDGET}, {"top_p"}, ["temperature"]),
    (
        OLD,
        {"temperature": 0.5, "top_k": 5},
        {"thinking": BUDGET},
        NOTHING,
        ["temperature", "top_k"],
    ),
    (NO_ROOM, {"temperature": 0.5, "top_p": 0.9}, PLAIN, {"temperature", "top_p"}, []),
    (LATEST, {"temperature": 0.5}, PLAIN, NOTHING, ["temperature"]),
    (LATEST, {"temperature": 1}, PLAIN, NOTHING, ["temperature"]),
]


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize(("model", "given", "asked", "sent", "left_out"), SAMPLING)
async def test_sampling_that_a_model_refuses_is_left_out_and_named(
    rig: Rig,
    cloud: str,
    model: str,
    given: Json,
    asked: Json,
    sent: set[str],
    left_out: list[str],
) -> None:
    answer = await rig.messages(on(cloud, model), max_tokens=4000, **given, **asked)

    rules(answer)
    assert {one.replace("P", "_p") for one in sampling_of(rig)} == sent
    assert sorted(dropped(answer)) == sorted(left_out)


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_temperature_over_one_is_one(rig: Rig, cloud: str) -> None:
    answer = await rig.chat(on(cloud, OLD), temperature=1.7)

    assert rules(answer) == {"temperature_limit"}
    assert '"temperature": 1.0' in json.dumps(rig.sent)


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_forced_call_goes_without_thinking(rig: Rig, cloud: str) -> None:
    body = {"tools": [TOOL], "tool_choice": {"type": "any"}, "max_tokens": 4000}
    old = await rig.messages(on(cloud, OLD), thinking=BUDGET, **body)
    assert thinking_of(rig) is None
    assert dropped(old) == ["thinking"]

    for model in (LATER, LATEST):
        later = await rig.messages(on(cloud, model), thinking=ADAPTIVE, **body)
        assert thinking_of(rig) is None
        assert dropped(later) == ["thinking"]


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_default_sampling_beside_thinking_is_one_value(rig: Rig, cloud: str) -> None:
    both = {"temperature": 1, "top_p": 0.99, "top_k": 5, "max_tokens": 4000}
    answer = await rig.messages(on(cloud, OLD), thinking=BUDGET, **both)

    assert answer.status_code == 200, answer.text
    assert len(sampling_of(rig)) == 1
    assert set(dropped(answer)) == {"temperature", "top_k"}


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_model_that_cannot_be_forced_chooses_itself(rig: Rig, cloud: str) -> None:
    named = {"type": "function", "function": {"name": "f"}}
    answer = await rig.chat(on(cloud, ALWAYS), tools=[FUNCTION], tool_choice=named)

    assert answer.status_code == 200, answer.text
    assert dropped(answer) == ["tool_choice"]
    assert "tool_choice" not in rig.sent
    assert "toolChoice" not in json.dumps(rig.sent)


def loop(*first: Json) -> Json:
    """A conversation in the middle of a turn that called two tools, one after the other."""
    call: Json = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    again: Json = {"type": "tool_use", "id": "t2", "name": "f", "input": {}}
    result: Json = {"type": "tool_result", "tool_use_id": "t1", "content": "r"}
    last: Json = {"type": "tool_result", "tool_use_id": "t2", "content": "r"}
    reminder: Json = {"type": "text", "text": "Go on."}
    turns = [
        USER,
        {"role": "assistant", "content": [*first, call]},
        {"role": "user", "content": [result, reminder]},
        {"role": "assistant", "content": [again]},
        {"role": "user", "content": [last]},
    ]
    return {"tools": [TOOL], "messages": turns, "max_tokens": 4000}


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_turn_without_claudes_thinking_goes_on_without(rig: Rig, cloud: str) -> None:
    bare: Json = {"type": "thinking", "thinking": "cut off", "signature": ""}
    signed: Json = {"type": "thinking", "thinking": "own", "signature": "b3du"}

    answer = await rig.messages(on(cloud, OLD), thinking=BUDGET, **loop(bare))
    assert thinking_of(rig) is None
    assert dropped(answer) == ["messages.reasoning", "thinking"]

    answer = await rig.messages(on(cloud, OLD), thinking=BUDGET, **loop(signed))
    assert thinking_of(rig) == BUDGET
    assert dropped(answer) == []

    answer = await rig.messages(on(cloud, LATER), thinking=ADAPTIVE, **loop())
    assert thinking_of(rig) == ADAPTIVE
    assert dropped(answer) == []


@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_new_question_is_thought_about_whatever_came_before(rig: Rig, cloud: str) -> None:
    body = loop()
    turns = cast("list[Json]", body["messages"])
    done: list[Json] = [*turns, {"role": "assistant", "content": "Done."}, USER]
    answer = await rig.messages(on(cloud, OLD), thinking=BUDGET, **{**body, "messages": done})

    assert thinking_of(rig) == BUDGET
    assert dropped(answer) == []


async def test_a_chat_client_without_its_thoughts_gets_an_answer(rig: Rig) -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": "r"},
    ]
    answer = await rig.chat(
        "anthropic", messages=turns, tools=[FUNCTION], reasoning_effort="high", max_tokens=4000
    )

    assert thinking_of(rig) is None
    assert dropped(answer) == ["reasoning_effort"]


async def test_json_mode_needs_no_thinking_and_a_model_that_can_be_forced(rig: Rig) -> None:
    form = {"type": "json_object"}
    answer = await rig.chat(
        on("anthropic", OLD), response_format=form, reasoning_effort="high", max_tokens=4000
    )
    assert dropped(answer) == ["reasoning_effort"]
    assert "tool_choice" in rig.sent

    answer = await rig.chat(on("anthropic", LATER), response_format=form, reasoning_effort="high")
    assert dropped(answer) == ["reasoning_effort"]
    assert thinking_of(rig) is None

    answer = await rig.chat(on("anthropic", ALWAYS), response_format=form)
    assert dropped(answer) == ["response_format"]
    assert "tools" not in rig.sent
