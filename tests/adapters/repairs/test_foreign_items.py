"""A conversation in which a vendor's own tools ran continues at another vendor."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from strowger_gateway.adapters.conformance import repair_checks
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.testing import contract_endpoint
from strowger_gateway.adapters.universal_repairs import UNIVERSAL
from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

OTHERS = ("anthropic", "bedrock", "gemini", "openai", "deepseek", "mistral", "cohere", "ollama")
SEARCH: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
FOUND: Json = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "found it"}],
}
HOSTED: list[Json] = [
    SEARCH,
    {"type": "file_search_call", "id": "fs_1", "queries": ["q"], "status": "completed"},
    {"type": "tool_search_call", "id": "ts_1", "call_id": "c0", "arguments": {"query": "x"}},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"},
    {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1", "code": "1"},
]
SERVER_TOOLS: list[Json] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "title": "t", "url": "https://x.test"}],
    },
]


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("foreign")
    async with one_of_each(
        folder, *OTHERS, "openai-responses", "vllm", "lm-studio-responses"
    ) as one:
        yield one


@pytest.mark.parametrize("item", HOSTED, ids=lambda item: str(item["type"]))
@pytest.mark.parametrize("model", OTHERS)
async def test_what_ran_at_openai_is_left_out_and_the_answer_stays(
    rig: Rig, model: str, item: Json
) -> None:
    given = [{"role": "user", "content": "hi"}, item, FOUND, {"role": "user", "content": "go on"}]
    answer = await rig.responses(model, input=given)

    assert answer.status_code == 200, answer.text
    assert any(one.startswith("input") for one in dropped(answer)), dict(answer.headers)
    sent = json.dumps(rig.sent)
    assert "found it" in sent
    assert "go on" in sent
    assert str(item["type"]) not in sent


@pytest.mark.vendor_refuses("schema", because="a result with few of its members")
@pytest.mark.parametrize("model", [*OTHERS, "openai-responses"])
async def test_what_ran_at_anthropic_is_left_out_elsewhere(rig: Rig, model: str) -> None:
    said = [*SERVER_TOOLS, {"type": "text", "text": "found it"}]
    turns = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "go on"},
    ]
    answer = await rig.messages(model, messages=turns)

    assert answer.status_code == 200, answer.text
    sent = json.dumps(rig.sent)
    assert "found it" in sent
    assert ("server_tool_use" in sent) == (model == "anthropic")
    assert bool(dropped(answer)) == (model != "anthropic")


@pytest.mark.vendor_refuses("schema", because="items with few of their members")
async def test_openai_itself_gets_its_items_unchanged(rig: Rig) -> None:
    given = [{"role": "user", "content": "hi"}, SEARCH, FOUND, {"role": "user", "content": "go on"}]
    answer = await rig.responses("openai-responses", input=given)

    assert answer.status_code == 200, answer.text
    assert rig.sent["input"] == given
    assert not dropped(answer)


@pytest.mark.parametrize("model", ["openai", "anthropic", "vllm"])
async def test_what_the_client_ran_becomes_a_call_and_its_result(rig: Rig, model: str) -> None:
    given: list[Json] = [
        {"role": "user", "content": "list"},
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "call_1",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        {"type": "local_shell_call_output", "id": "call_1", "call_id": "call_1", "output": "a.txt"},
        FOUND,
        {"role": "user", "content": "go on"},
    ]
    answer = await rig.responses(model, input=given)

    assert answer.status_code == 200, answer.text
    assert repairs(answer)
    turns = cast("list[Json]", rig.sent["messages"])
    sent = json.dumps(turns)
    assert sent.index("local_shell") < sent.index("a.txt") < sent.index("found it")
    if model != "anthropic":
        assert [one["role"] for one in turns] == ["user", "assistant", "tool", "assistant", "user"]
        call = cast("list[dict[str, Json]]", turns[1]["tool_calls"])[0]
        assert (call["id"], call["function"]["name"]) == ("call_1", "local_shell")
        assert turns[2]["tool_call_id"] == "call_1"


async def test_a_containers_run_comes_back_to_openai_as_text(rig: Rig) -> None:
    ran: Json = {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "container_id": "cntr_1",
        "code": "print(6*7)",
        "outputs": [{"type": "logs", "logs": "42"}],
    }
    given = [{"role": "user", "content": "hi"}, ran, FOUND, {"role": "user", "content": "go on"}]
    answer = await rig.responses("openai-responses", input=given)

    assert answer.status_code == 200, answer.text
    sent = json.dumps(rig.sent)
    assert "cntr_1" not in sent
    assert "print(6*7)" in sent
    assert "42" in sent
    assert "found it" in sent
    assert any(one.endswith(":container_item") for one in repairs(answer))


@pytest.mark.parametrize("stream", [False, True])
async def test_context_management_that_a_vendor_lacks_is_left_out(rig: Rig, stream: bool) -> None:
    edits = {
        "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 9}}]
    }
    answer = await rig.messages("openai", context_management=edits, stream=stream)
    mine = [{"type": "compaction", "compact_threshold": 1000}]  # the gateway does it itself
    kept = await rig.responses("anthropic", context_management=mine)
    other = await rig.responses("anthropic", context_management=[{"type": "forgetting"}])

    assert (answer.status_code, dropped(answer)) == (200, ["context_management"])
    assert (kept.status_code, dropped(kept)) == (200, [])
    assert (other.status_code, dropped(other)) == (200, ["context_management"])


def test_rules_for_all_backends_keep_the_contract_of_rules() -> None:
    adapter = OpenAIAdapter(contract_endpoint())
    for rule in UNIVERSAL:
        repair_checks.check_rule(adapter, rule, UNIVERSAL)
