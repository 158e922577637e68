"""Ids of calls that a vendor does not take are replaced, alike in the call and its result."""

import re
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.repairs.call_ids import call_ids
from strowger_gateway.adapters.repairs.rule import Aim, repaired
from strowger_gateway.schemas.messages import Message, ToolCall
from strowger_gateway.schemas.requests import ChatRequest
from tests.adapters.repairs.histories import (
    SURFACES,
    calls_and_results,
    converse,
)
from tests.adapters.repairs.one_of_each import Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

LIMITS = {
    "openai": r".{1,40}",
    "azure": r".{1,40}",
    "openai-responses": r".{1,64}",
    "mistral": r"[a-zA-Z0-9]{9}",
    "deepseek": r".{1,256}",
}
KIMI, LONGER, LONG = "functions.Bash:0", "x" * 65, "call_" + "p" * 400


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("ids")
    async with one_of_each(folder, *LIMITS) as one:
        yield one


@pytest.mark.parametrize("model", LIMITS)
@pytest.mark.parametrize("surface", SURFACES)
async def test_ids_fit_the_vendor_and_agree(rig: Rig, surface: str, model: str) -> None:
    turns = ["hi", [KIMI, LONGER, ""], ("", "three"), (LONGER, "two"), (KIMI, "one"), "go on"]
    answer = await converse(rig, surface, model, turns)

    assert answer.status_code == 200, answer.text
    sent = calls_and_results(rig.sent)
    first, second, third = [one.split(" ")[1] for one in sent[1:4]]
    assert sent[4:7] == [f"result {third} three", f"result {second} two", f"result {first} one"]
    assert all(re.fullmatch(LIMITS[model], id) for id in (first, second, third))
    assert len({first, second, third}) == 3
    assert any(one.endswith(":call_id") for one in repairs(answer))


@pytest.mark.parametrize("surface", SURFACES)
async def test_calls_with_one_id_become_different_ones(rig: Rig, surface: str) -> None:
    turns = ["hi", ["0", "0"], ("0", "one"), ("0", "two"), "more", ["0"], ("0", "three")]
    await converse(rig, surface, "openai", turns)

    sent = calls_and_results(rig.sent)
    calls = [one.split(" ")[1] for one in sent if one.startswith("call")]
    assert len(set(calls)) == 3
    assert [one for one in sent if one.startswith("result")] == [
        f"result {calls[0]} one",
        f"result {calls[1]} two",
        f"result {calls[2]} three",
    ]


async def test_an_id_is_replaced_alike_in_every_turn(rig: Rig) -> None:
    turns = ["hi", [LONG], (LONG, "r"), "go on"]
    await converse(rig, "chat", "openai", turns)
    before = calls_and_results(rig.sent)
    await converse(rig, "chat", "openai", [*turns, [KIMI], (KIMI, "s")])

    assert calls_and_results(rig.sent)[: len(before)] == before


_id = st.text(st.sampled_from("ab:.é"), max_size=30)


@given(st.lists(st.lists(_id, min_size=1, max_size=3), min_size=1, max_size=4))
def test_replaced_ids_are_all_different_and_stay(turns: list[list[str]]) -> None:
    rule = call_ids("https://example.org", r"[a-zA-Z0-9]{1,9}", 9)
    messages: list[Message] = []
    for ids in turns:
        calls = tuple([ToolCall(id=id, name="f", arguments="{}") for id in ids])
        messages.append(Message(role="assistant", tool_calls=calls))
        messages += [Message(role="tool", tool_call_id=id, content="") for id in ids]
    done = repaired(ChatRequest("m", tuple(messages)), (rule,), Aim(model="m")).request

    assert isinstance(done, ChatRequest)
    called = [call.id for one in done.messages for call in one.tool_calls]
    answered = [str(one.tool_call_id) for one in done.messages if one.role == "tool"]
    assert called == answered
    assert len(set(called)) == len(called)
    assert all(re.fullmatch(r"[a-zA-Z0-9]{1,9}", id) for id in called)
    assert not repaired(done, (rule,), Aim(model="m")).made
