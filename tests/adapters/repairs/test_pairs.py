"""Every call has one result, directly behind it, whatever an interrupted agent kept."""

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.repairs.pairs import INTERRUPTED, PAIRS
from strowger_gateway.adapters.repairs.rule import Aim, repaired
from strowger_gateway.schemas.messages import Message, ToolCall, text_of
from strowger_gateway.schemas.requests import ChatRequest
from tests.adapters.repairs.histories import (
    SURFACES,
    calls_and_results,
    converse,
)
from tests.adapters.repairs.one_of_each import Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

VENDORS = ("openai", "openai-responses", "deepseek", "vllm")
A, B = "call00001", "call00002"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("pairs")
    adapters = (*VENDORS, "mistral", "gemini", "cohere", "anthropic", "bedrock")
    async with one_of_each(folder, *adapters) as one:
        yield one


GONE = "Result of a call that is no longer in this conversation:"
CASES = [
    pytest.param(
        ["hi", [A, B], (A, "r"), "go on"],
        ["user hi", f"call {A}", f"call {B}", f"result {A} r", f"result {B} {INTERRUPTED}"],
        ["user go on"],
        id="a call without its result",
    ),
    pytest.param(
        ["hi", [A]],
        ["user hi", f"call {A}", f"result {A} {INTERRUPTED}"],
        [],
        id="a call at the end",
    ),
    pytest.param(
        ["hi", (A, "r"), "go on"],
        ["user hi", f"user {GONE}\nr"],
        ["user go on"],
        id="a result without its call",
    ),
    pytest.param(
        ["hi", [A], "wait", (A, "r"), "go on"],
        ["user hi", f"call {A}", f"result {A} r"],
        ["user wait", "user go on"],
        id="a message between the two",
    ),
    pytest.param(
        ["hi", [A], (A, "r"), (A, "other"), (A, "r"), "go on"],
        ["user hi", f"call {A}", f"result {A} r", f"user Another result of call {A}:\nother"],
        ["user go on"],
        id="several results",
    ),
]


@pytest.mark.parametrize("model", VENDORS)
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(("turns", "first", "rest"), CASES)
async def test_a_conversation_is_sent_with_calls_and_results_in_pairs(
    rig: Rig, surface: str, model: str, turns: list[object], first: list[str], rest: list[str]
) -> None:
    answer = await converse(rig, surface, model, turns)

    assert answer.status_code == 200, answer.text
    assert calls_and_results(rig.sent) == first + rest
    field = "input[]" if surface == "responses" else "messages[]"
    assert f"{field}:pairs" in repairs(answer)


@pytest.mark.parametrize("model", ["mistral", "gemini", "cohere", "anthropic", "bedrock"])
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize(("turns", "first", "rest"), CASES)
async def test_every_vendor_gets_the_repaired_conversation(
    rig: Rig, surface: str, model: str, turns: list[object], first: list[str], rest: list[str]
) -> None:
    answer = await converse(rig, surface, model, turns)

    assert answer.status_code == 200, answer.text
    sent = rig.vendor.requests[-1].body.decode()
    assert sent.count(INTERRUPTED) == sum(INTERRUPTED in one for one in first)
    assert sent.count(GONE) == sum(GONE in one for one in first)


@pytest.mark.parametrize("surface", SURFACES)
async def test_paired_calls_are_sent_as_they_are(rig: Rig, surface: str) -> None:
    turns = ["hi", [A, B], (B, "s"), (A, "r"), "go on"]
    answer = await converse(rig, surface, "openai", turns)

    assert calls_and_results(rig.sent)[3:] == [f"result {B} s", f"result {A} r", "user go on"]
    assert repairs(answer) == []


@pytest.mark.parametrize("surface", SURFACES)
async def test_two_calls_with_one_id_need_two_results(rig: Rig, surface: str) -> None:
    turns = ["hi", [A, A], (A, "r"), "go on"]
    answer = await converse(rig, surface, "openai", turns)

    assert answer.status_code == 200, answer.text
    user, call, second, result, missing, after = calls_and_results(rig.sent)
    assert (user, call, result, after) == ("user hi", f"call {A}", f"result {A} r", "user go on")
    renamed = second.removeprefix("call ")
    assert renamed != A
    assert missing == f"result {renamed} {INTERRUPTED}"


_ids = st.sampled_from(["a", "b", "c"])
_turns = st.one_of(
    st.text("xy", min_size=1, max_size=2).map(lambda text: Message(role="user", content=text)),
    st.lists(_ids, max_size=3).map(
        lambda ids: Message(
            role="assistant",
            content="said",
            tool_calls=tuple([ToolCall(id=id, name="f", arguments="{}") for id in ids]),
        )
    ),
    st.tuples(_ids, st.text("xy", max_size=2)).map(
        lambda one: Message(role="tool", tool_call_id=one[0], content=one[1])
    ),
)


@given(st.lists(_turns, min_size=1, max_size=12))
def test_any_order_of_turns_becomes_pairs_and_loses_no_text(turns: list[Message]) -> None:
    request = ChatRequest("m", tuple(turns))
    done = repaired(request, (PAIRS,), Aim(model="m")).request

    assert isinstance(done, ChatRequest)
    open: list[str] = []
    for one in done.messages:
        if one.role == "tool":
            assert one.tool_call_id in open
            open.remove(str(one.tool_call_id))
        else:
            assert not open
            open = [call.id for call in one.tool_calls]
    assert not open
    kept = "\n".join(text_of(one) for one in done.messages)
    assert all(text_of(one) in kept for one in turns)
    assert not repaired(done, (PAIRS,), Aim(model="m")).made
