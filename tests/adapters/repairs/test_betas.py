"""Names in `anthropic-beta` reach a service that knows them; all others are left out and named."""

from collections.abc import AsyncGenerator, Mapping
from typing import cast

import httpx
import pytest

from tests.adapters.repairs.one_of_each import (
    USER,
    Json,
    Rig,
    dropped,
    one_of_each,
)

pytestmark = pytest.mark.anyio

THINKING, OAUTH = "interleaved-thinking-2025-05-14", "oauth-2025-04-20"
LONG, EFFORT = "context-1m-2025-08-07", "effort-2025-11-24"
SEARCH, ADVANCED = "tool-search-tool-2025-10-19", "advanced-tool-use-2025-11-20"
SEARCH_TOOL: Json = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
SONNET, LATEST = "bedrock", "bedrock/eu.anthropic.claude-opus-4-8"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("betas")
    async with one_of_each(folder, "anthropic", "bedrock", "vertex-anthropic") as one:
        yield one


async def ask(rig: Rig, model: str, *names: str, **more: object) -> httpx.Response:
    """Send a request of the Messages API with these betas."""
    body = {"model": model, "max_tokens": 50, "messages": [USER], **more}
    headers = {
        "authorization": "Bearer key-of-team-a-0123456789",
        "anthropic-beta": ",".join(names),
    }
    answer = await rig.client.post("/v1/messages", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def named(*names: str) -> list[str]:
    return [f"anthropic-beta.{one}" for one in names]


def bedrocks(rig: Rig) -> object:
    more = cast("Mapping[str, object]", rig.sent.get("additionalModelRequestFields", {}))
    return more.get("anthropic_beta")


def header(rig: Rig) -> str | None:
    return rig.vendor.requests[-1].headers.get("anthropic-beta")


@pytest.mark.parametrize(
    ("model", "sent", "left_out"),
    [
        (SONNET, [THINKING, EFFORT], [OAUTH]),
        (LATEST, [THINKING], [OAUTH, EFFORT]),
    ],
)
async def test_bedrock_gets_what_the_model_knows(
    rig: Rig, model: str, sent: list[str], left_out: list[str]
) -> None:
    answer = await ask(rig, model, OAUTH, THINKING, EFFORT)

    assert bedrocks(rig) == sent
    assert dropped(answer) == named(*left_out)


async def test_a_request_without_any_known_name_has_none(rig: Rig) -> None:
    answer = await ask(rig, SONNET, OAUTH, "claude-code-20250219")

    assert bedrocks(rig) is None
    assert dropped(answer) == named(OAUTH, "claude-code-20250219")


async def test_the_header_has_the_rights_of_the_field(rig: Rig) -> None:
    answer = await ask(rig, SONNET, LONG, THINKING)
    field = await rig.messages(SONNET, anthropic_beta=[LONG])

    assert bedrocks(rig) == [THINKING]
    assert dropped(answer) == named(LONG)
    assert field.status_code == 403


async def test_vertex_gets_its_own_names_for_tools_that_are_offered(rig: Rig) -> None:
    answer = await ask(rig, "vertex-anthropic", ADVANCED, OAUTH, LONG, tools=[SEARCH_TOOL])
    assert header(rig) == f"{SEARCH},{LONG}"
    assert dropped(answer) == named(OAUTH)

    answer = await ask(rig, "vertex-anthropic", ADVANCED, SEARCH)
    assert header(rig) is None
    assert dropped(answer) == named(ADVANCED, SEARCH)


async def test_anthropic_itself_gets_every_name(rig: Rig) -> None:
    answer = await ask(rig, "anthropic", OAUTH, "new-2030-01-01", LONG)

    assert header(rig) == f"{OAUTH},new-2030-01-01,{LONG}"
    assert dropped(answer) == []


@pytest.mark.vendor_refuses("bedrock-betas", because="the operator answers for it")
async def test_an_operator_adds_names_and_denies_others(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rules = (
        ", client_fields: {allow: [anthropic-beta.new-2030-01-01, anthropic_beta],"
        f" deny: [anthropic-beta.{EFFORT}]}}"
    )
    folder = tmp_path_factory.mktemp("operator")
    keys = {"bedrock": rules, "vertex_anthropic": rules}
    async with one_of_each(folder, "bedrock", "vertex-anthropic", **keys) as rig:
        answer = await ask(rig, SONNET, "new-2030-01-01", EFFORT, LONG, OAUTH)
        assert bedrocks(rig) == ["new-2030-01-01", LONG]
        assert dropped(answer) == named(EFFORT, OAUTH)

        await ask(rig, "vertex-anthropic", "new-2030-01-01", OAUTH)
        assert header(rig) == "new-2030-01-01"


@pytest.mark.vendor_refuses("bedrock-betas", because="the operator answers for it")
async def test_an_operator_opens_the_header_for_all_names(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("open")
    allowed = ", client_fields: {allow: [anthropic-beta]}"
    async with one_of_each(folder, "bedrock", bedrock=allowed) as rig:
        await ask(rig, SONNET, OAUTH, LONG)

        assert bedrocks(rig) == [OAUTH, LONG]
