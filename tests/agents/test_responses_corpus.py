"""Requests in the shape of codex loop through the gateway to every vendor."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest
from openai.types.responses import Response, ResponseCustomToolCall, ResponseFunctionToolCall

from tests.agents.responses_corpus import DIALOGUES, HEADERS, Dialogue
from tests.gateway.backends.vendors.backend import Setting, answering, every_vendor
from tests.gateway.backends.vendors.dialect import Json, Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor, of_every_dialect

pytestmark = pytest.mark.anyio

CHATTING = [one for one in VENDORS if one.task == "chat"]
NAMED = {
    "client_metadata",
    "input.reasoning",
    "prompt_cache_key",
    "reasoning.effort",
    "service_tier",
    "tools.strict",
    "tools[].format",
    "text.verbosity",
}
"""What a vendor may not get, and the client learns of."""

NAMESPACES = ("multi_agent_v1", "mcp__tickets__")
NAMESPACED = (
    "multi_agent_v1__spawn_agent",
    "multi_agent_v1__close_agent",
    "mcp__tickets__get_ticket",
)


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with every_vendor(tmp_path_factory.mktemp("run"), failing=False) as one:
        yield one


async def ask(setting: Setting, vendor: Vendor, body: Json, said: Said) -> tuple[Response, str]:
    """What the official client makes of the stream, and what was left out."""
    setting.plays(answering(vendor, said))
    async with setting.client.responses.stream(
        model=vendor.name, input="", extra_body=body, extra_headers=HEADERS
    ) as events:
        answer = cast("Response", await events.get_final_response())
        headers = events._response.headers  # pyright: ignore[reportPrivateUsage]  it has no other way to them
        return answer, headers.get("x-gateway-dropped-params", "")


@of_every_dialect(CHATTING)
@pytest.mark.parametrize("talk", DIALOGUES.values(), ids=DIALOGUES)
async def test_a_dialogue_of_codex_goes_to_its_end(
    setting: Setting, vendor: Vendor, talk: Dialogue
) -> None:
    items = [*cast("list[Json]", talk.body["input"])]
    for place, said in enumerate(talk.said):
        answer, dropped = await ask(setting, vendor, {**talk.body, "input": items}, said)

        names = {one for one in dropped.split(", ") if one}
        assert names <= NAMED, names - NAMED
        silent = vendor.name == "cohere" and said.calls  # a plan in place of a text
        assert answer.output_text == ("" if silent else said.whole_text)
        assert answer.status == "completed"
        made = calls_of(answer)
        assert len(made) == len(said.calls)
        if place < len(talk.outputs):
            items += [one.to_dict(exclude_unset=True, exclude_none=True) for one in answer.output]
            items += [
                {"type": f"{one.type}_output", "call_id": one.call_id, "output": output}
                for one, output in zip(made, talk.outputs[place], strict=True)
            ]
    check_received(setting, vendor, talk)


def calls_of(answer: Response) -> list[ResponseFunctionToolCall | ResponseCustomToolCall]:
    kinds = (ResponseFunctionToolCall, ResponseCustomToolCall)
    return [one for one in answer.output if isinstance(one, kinds)]


def check_received(setting: Setting, vendor: Vendor, talk: Dialogue) -> None:
    """What the vendor got last has everything of the dialogue."""
    body = setting.server.requests[-1].json
    got = setting.received(vendor)
    made = [one for turn in got.turns for one in turn.calls]
    expected = [one for said in talk.said[:-1] for one in said.calls]
    assert [(one.name, one.arguments) for one in made] == [
        (one.name, one.arguments) for one in expected
    ]
    assert "client_metadata" not in body
    if not talk.outputs:
        return
    grouped = vendor.name == "openai-responses"
    assert got.tools[4:] == (NAMESPACES if grouped else NAMESPACED)
    results = [text for turn in got.turns for _, text in turn.results]
    assert len(results) == 4
    assert [results[place].split("\n")[0] for place in (0, 1, 3)] == [
        "Process exited with code 0",
        "no such ticket",
        "Exit code: 0",
    ]
    whole = json.dumps(body)
    for text in ("Z\\u00fcrich", "<cwd>/src</cwd>", "iVBORw0KGgo=", "You help with code"):
        assert text in whole, text
    if talk.thinks and vendor.proofs:
        thoughts = [one for turn in got.turns for one in turn.thoughts]
        assert thoughts == [(one.thought, one.proof) for one in talk.said[:-1]]


@pytest.mark.parametrize(
    "vendor",
    [one for one in CHATTING if one.name != "openai-responses"],
    ids=lambda one: one.name,
)
async def test_its_search_on_the_web_is_the_vendors_own_or_none(
    setting: Setting, vendor: Vendor
) -> None:
    """It offers the search unless its configuration turns it off."""
    tools = [{"type": "web_search", "external_web_access": True}]

    await ask(setting, vendor, {"input": "hi", "tools": tools}, Said())

    sent = setting.server.requests[-1].body.lower()
    assert (b"search" in sent) == vendor.name.endswith(("anthropic", "gemini"))
