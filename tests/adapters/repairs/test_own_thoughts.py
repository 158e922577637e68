"""Claude receives its own proven reasoning and nobody else's, whichever API the client speaks."""

import json
from collections.abc import AsyncGenerator, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.adapters.anthropic.repairs import ANTHROPIC_REPAIRS
from strowger_gateway.adapters.bedrock.repairs import BEDROCK_REPAIRS
from strowger_gateway.adapters.repairs.rule import Aim, Repair, repaired
from strowger_gateway.schemas.messages import CLAUDE, GEMINI, OPENAI, Message, Thought, ToolCall
from strowger_gateway.schemas.requests import ChatRequest
from tests.adapters.repairs.one_of_each import Json, Rig, dropped, one_of_each

pytestmark = pytest.mark.anyio

CLAUDES = ("anthropic", "vertex-anthropic", "bedrock")
PROOF = "b3duIHByb29m"
OWN: Json = {"type": "thinking", "thinking": "Own thought.", "signature": PROOF}
HIDDEN: Json = {"type": "redacted_thinking", "data": "b3duIGRhdGE="}
FOREIGN = {
    "without a proof": {"type": "thinking", "thinking": "cut off", "signature": ""},
    "with no signature": {"type": "thinking", "thinking": "cut off"},
    "signed by Gemini": {
        "type": "thinking",
        "thinking": "cut off",
        "signature": "google-gemini-v1:Zm9yZWlnbg==",
    },
    "encrypted by OpenAI": {"type": "redacted_thinking", "data": "openai-responses-v1:rs_1.Zm9y"},
    "a proof of Gemini's call": {
        "type": "thinking",
        "thinking": "",
        "signature": "google-gemini-v1:call:t1:Zm9yZWlnbg==",
    },
}
TEXT: Json = {"type": "text", "text": "Let me look."}
CALL: Json = {"type": "tool_use", "id": "t1", "name": "f", "input": {"at": 1.0}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}
TOOLS: Sequence[Json] = [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(tmp_path_factory.mktemp("thoughts"), *CLAUDES) as one:
        yield one


def turns(*blocks: object) -> Json:
    said = {"role": "assistant", "content": list(blocks)}
    return {
        "tools": TOOLS,
        "messages": [
            {"role": "user", "content": "one"},
            said,
            {"role": "user", "content": [RESULT]},
        ],
    }


def kinds(sent: Json) -> list[str]:
    """The kinds of blocks of the assistant, in their order."""
    names = {"text", "toolUse", "reasoningContent"}
    found: list[str] = []
    for turn in cast("list[Json]", sent["messages"]):
        if turn["role"] == "assistant":
            blocks = cast("list[Json]", turn["content"])
            found += [str(one.get("type") or next(iter(names & one.keys()))) for one in blocks]
    return found


@pytest.mark.parametrize("model", CLAUDES)
@pytest.mark.parametrize("block", FOREIGN.values(), ids=FOREIGN)
async def test_foreign_reasoning_is_left_out_and_named(rig: Rig, model: str, block: Json) -> None:
    answer = await rig.messages(model, **turns(block, TEXT, CALL))

    assert answer.status_code == 200, answer.text
    assert dropped(answer) == ["messages.reasoning"]
    sent = json.dumps(rig.sent)
    for part in ("cut off", "Zm9y", "google-gemini", "openai-responses"):
        assert part not in sent
    assert len(kinds(rig.sent)) == 2


@pytest.mark.parametrize("model", CLAUDES)
async def test_a_turn_of_nothing_but_foreign_reasoning_disappears(rig: Rig, model: str) -> None:
    said = {"role": "assistant", "content": [FOREIGN["signed by Gemini"]]}
    hi = {"role": "user", "content": "hi"}
    answer = await rig.messages(model, messages=[hi, said, hi])

    assert answer.status_code == 200, answer.text
    roles = [one["role"] for one in cast("list[Json]", rig.sent["messages"])]
    assert set(roles) == {"user"}


@pytest.mark.vendor_refuses("schema", because="an unknown member shows the original")
@pytest.mark.parametrize("model", ["anthropic", "vertex-anthropic"])
async def test_all_other_turns_stay_as_the_client_wrote_them(rig: Rig, model: str) -> None:
    own = {"role": "assistant", "content": [OWN, TEXT, HIDDEN, CALL], "role_hint": 1}
    first: Json = {"role": "user", "content": "one"}
    result: Json = {"role": "user", "content": [RESULT]}
    other = {"role": "assistant", "content": [FOREIGN["without a proof"], TEXT]}
    messages: list[object] = [first, own, result, other, {"role": "user", "content": "two"}]
    answer = await rig.messages(model, tools=TOOLS, messages=messages)

    assert answer.status_code == 200, answer.text
    sent = cast("list[Json]", rig.sent["messages"])
    assert [sent[0], sent[1], sent[2], sent[4]] == [messages[0], own, result, messages[4]]
    assert sent[3] == {"role": "assistant", "content": [TEXT]}


@pytest.mark.parametrize("model", CLAUDES)
async def test_claudes_reasoning_keeps_its_place_between_other_blocks(rig: Rig, model: str) -> None:
    answer = await rig.messages(model, **turns(FOREIGN["without a proof"], OWN, TEXT, HIDDEN, CALL))

    assert answer.status_code == 200, answer.text
    thought, secret = "reasoningContent", "reasoningContent"
    if model != "bedrock":
        thought, secret = "thinking", "redacted_thinking"
    call = "toolUse" if model == "bedrock" else "tool_use"
    assert kinds(rig.sent) == [thought, "text", secret, call]
    assert PROOF in json.dumps(rig.sent)


@pytest.mark.parametrize("model", CLAUDES)
async def test_parts_that_a_chat_client_keeps_are_judged_alike(rig: Rig, model: str) -> None:
    said = {"role": "assistant", "content": [FOREIGN["signed by Gemini"], TEXT]}
    hi = {"role": "user", "content": "hi"}
    answer = await rig.chat(model, messages=[hi, said, hi])

    assert answer.status_code == 200, answer.text
    assert "Zm9y" not in json.dumps(rig.sent)
    assert dropped(answer) == ["messages.reasoning"]


async def test_an_answers_own_blocks_without_a_proof_do_not_return(rig: Rig) -> None:
    blocks = [FOREIGN["without a proof"], TEXT]
    said = {"role": "assistant", "content": "Let me look.", "content_blocks": blocks}
    hi = {"role": "user", "content": "hi"}
    answer = await rig.chat("anthropic", messages=[hi, said, hi])

    assert answer.status_code == 200, answer.text
    assert kinds(rig.sent) == ["text"]


async def test_a_model_of_another_maker_reads_reasoning_without_a_proof(rig: Rig) -> None:
    bare = FOREIGN["without a proof"]
    answer = await rig.messages(
        "anthropic/kimi-k2-thinking", **turns(bare, FOREIGN["signed by Gemini"], CALL)
    )

    assert answer.status_code == 200, answer.text
    assert kinds(rig.sent) == ["thinking", "tool_use"]
    assert "Zm9y" not in json.dumps(rig.sent)


async def test_no_other_model_of_bedrock_receives_claudes_signatures(rig: Rig) -> None:
    answer = await rig.messages("bedrock/moonshot.kimi-k2-thinking", **turns(OWN, TEXT, CALL))

    assert answer.status_code == 200, answer.text
    assert kinds(rig.sent) == ["text", "toolUse"]
    assert dropped(answer) == ["messages.reasoning"]


THOUGHTS = st.builds(
    Thought,
    text=st.sampled_from(["", "hm"]),
    signature=st.sampled_from(["", "c2ln"]),
    data=st.sampled_from(["", "ZGF0YQ=="]),
    format=st.sampled_from(["", CLAUDE, GEMINI, OPENAI]),
)
CALLS = st.builds(
    ToolCall,
    id=st.just("t1"),
    name=st.just("f"),
    arguments=st.just("{}"),
    signature=st.sampled_from(["", "c2ln"]),
)
TURNS = st.lists(
    st.builds(
        Message,
        role=st.just("assistant"),
        content=st.sampled_from(["", "text", None]),
        thoughts=st.lists(THOUGHTS, max_size=3).map(tuple),
        tool_calls=st.lists(CALLS, max_size=2).map(tuple),
    ),
    max_size=4,
)


RULES = [one for one in (*ANTHROPIC_REPAIRS, *BEDROCK_REPAIRS) if one.name == "own_thoughts"]


@given(TURNS, st.sampled_from(RULES))
def test_only_own_proofs_are_left_and_a_second_run_changes_nothing(
    messages: list[Message], rule: Repair
) -> None:
    aim = Aim(model="claude-sonnet-4-5")
    done = repaired(ChatRequest("m", tuple(messages)), (rule,), aim)

    assert isinstance(done.request, ChatRequest)
    for one in done.request.messages:
        assert all(each.kind != "text" for each in one.thoughts)
        assert {each.proof_format for each in one.thoughts} <= {CLAUDE}
        assert not any(call.signature for call in one.tool_calls)
    assert not repaired(done.request, (rule,), aim).left_out
