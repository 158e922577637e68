"""A client of any API finds what a vendor of any other searched, and what the answer cites."""

from collections.abc import AsyncGenerator
from typing import Any, cast

import anthropic
import openai
import pytest
from msgspec import Struct

from tests.adapters.repairs.one_of_each import config
from tests.adapters.web_search.vendors import (
    CITED,
    NUMBERED,
    QUERY,
    TEXT,
    TITLE,
    URL,
    searching,
)
from tests.gateway.serving import serving
from tests.stand_ins.provider import Provider, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]

VENDORS = ("anthropic", "gemini", "openai-responses", "openrouter")
KEY = "key-of-team-a-0123456789"
CLAUDES: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
of_vendors = pytest.mark.parametrize(
    "vendor",
    [
        *VENDORS[:-1],
        pytest.param(
            VENDORS[-1],
            marks=pytest.mark.vendor_refuses(
                "schema", because="the schema of chat completions has no tools of OpenRouter's"
            ),
        ),
    ],
)
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


class Clients(Struct, frozen=True, kw_only=True, eq=False):
    vendor: Provider
    anthropic: anthropic.AsyncAnthropic
    openai: openai.AsyncOpenAI


@pytest.fixture(scope="module")
async def clients(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Clients]:
    async with provider(searching) as vendor:
        text = config(vendor.origin, *VENDORS, "perplexity")
        async with (
            serving(text, tmp_path_factory.mktemp("searches")) as gateway,
            anthropic.AsyncAnthropic(base_url=gateway.url, api_key=KEY, max_retries=0) as claude,
            openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as gpt,
        ):
            yield Clients(vendor=vendor, anthropic=claude, openai=gpt)


async def _message(clients: Clients, vendor: str, *, stream: bool, **more: object) -> Json:
    given: Json = {
        "model": vendor,
        "max_tokens": 2048,
        "messages": [{"role": "user", "content": "Perform a web search for the query: Bern"}],
        "tools": [CLAUDES],
        **more,
    }
    create = cast("Any", clients.anthropic.messages)
    if not stream:
        return (await create.create(**given)).to_dict()
    async with create.stream(**given) as events:
        return (await events.get_final_message()).to_dict()


@of_vendors
@either_way
async def test_a_client_of_messages_finds_the_search_and_its_citations(
    clients: Clients, vendor: str, stream: bool
) -> None:
    choice = {"type": "tool", "name": "web_search"}
    answer = await _message(clients, vendor, stream=stream, tool_choice=choice)

    blocks = {one["type"]: one for one in cast("list[Json]", answer["content"])}
    assert set(blocks) == {"server_tool_use", "web_search_tool_result", "text"}
    call, found, text = (
        blocks["server_tool_use"],
        blocks["web_search_tool_result"],
        blocks["text"],
    )
    assert (call["name"], found["tool_use_id"]) == ("web_search", call["id"])
    # OpenRouter says what was found, and not what was searched for.
    assert call["input"] == {"query": "" if vendor == "openrouter" else QUERY}
    (result,) = cast("list[Json]", found["content"])
    assert (result["type"], result["url"]) == ("web_search_result", URL)
    (cited,) = cast("list[Json]", text["citations"])
    assert text["text"] == TEXT
    assert (cited["type"], cited["url"], cited["title"]) == (
        "web_search_result_location",
        URL,
        TITLE,
    )


@of_vendors
@either_way
async def test_a_client_of_responses_finds_the_search_and_its_citations(
    clients: Clients, vendor: str, stream: bool
) -> None:
    create = cast("Any", clients.openai.responses)
    given: Json = {"model": vendor, "input": "Bern?", "tools": [{"type": "web_search"}]}
    kinds: list[str] = []
    if stream:
        async with create.stream(**given) as events:
            kinds = [one.type async for one in events]
            answer = await events.get_final_response()
    else:
        answer = await create.create(**given)

    search = next(one for one in answer.output if one.type == "web_search_call")
    message = next(one for one in answer.output if one.type == "message")
    queries = (search.action.query, [one.url for one in search.action.sources])
    assert queries == ("" if vendor == "openrouter" else QUERY, [URL])
    (part,) = message.content
    (cited,) = part.annotations
    assert (part.text, cited.url, cited.title) == (TEXT, URL, TITLE)
    whole = TEXT if vendor == "anthropic" else CITED  # Claude cites with a whole block
    assert part.text[cited.start_index : cited.end_index] == whole
    if stream and vendor != "openai-responses":
        assert "response.web_search_call.completed" in kinds
        assert "response.output_text.annotation.added" in kinds


@of_vendors
@either_way
async def test_a_client_of_chat_completions_gets_citations(
    clients: Clients, vendor: str, stream: bool
) -> None:
    create = cast("Any", clients.openai.chat.completions)
    given: Json = {
        "model": vendor,
        "messages": [{"role": "user", "content": "Bern?"}],
        "tools": [{"type": "web_search"}],
    }
    if stream:
        chunks = [one async for one in await create.create(**given, stream=True)]
        deltas = [one.choices[0].delta.to_dict() for one in chunks if one.choices]
        assert deltas.count({}) <= 1  # the end
        found = next(one["annotations"] for one in deltas if one.get("annotations"))
        names = {name for one in deltas for name in one}
    else:
        message = (await create.create(**given)).choices[0].message.to_dict()
        found, names = message["annotations"], set(message)

    (cited,) = found
    assert cited["type"] == "url_citation"
    inner = cited["url_citation"]
    assert (inner["url"], inner["title"]) == (URL, TITLE)
    assert not any("searches" in one for one in names)


@either_way
async def test_numbers_of_pages_become_citations(clients: Clients, stream: bool) -> None:
    """Perplexity searches without a tool, and its text has the numbers of a list of pages."""
    answer = await _message(clients, "perplexity", stream=stream)

    sent = clients.vendor.requests[-1].json
    blocks = {one["type"]: one for one in cast("list[Json]", answer["content"])}
    (cited,) = cast("list[Json]", blocks["text"]["citations"])
    found = cast("list[Json]", blocks["web_search_tool_result"]["content"])
    assert "tools" not in sent
    assert (blocks["text"]["text"], cited["url"], cited["title"]) == (NUMBERED, URL, TITLE)
    assert [one["url"] for one in found] == ["https://other.test", URL]


@pytest.mark.parametrize("vendor", ["anthropic", "openai-responses", "gemini"])
async def test_a_search_that_another_vendor_ran_is_not_sent_back_to_the_dialects_own(
    clients: Clients, vendor: str
) -> None:
    answer = await _message(clients, "gemini", stream=False)
    given = await cast("Any", clients.openai.responses).create(
        model="gemini", input="Bern?", tools=[{"type": "web_search"}]
    )
    asked: Json = {"role": "user", "content": "And tomorrow?"}
    first: Json = {"role": "user", "content": "Bern?"}
    said: Json = {"role": "assistant", "content": answer["content"]}
    await _message(clients, vendor, stream=False, messages=[first, said, asked])
    by_messages = clients.vendor.requests[-1].body
    items = [first, *[one.to_dict() for one in given.output], asked]
    await cast("Any", clients.openai.responses).create(model=vendor, input=items)
    by_responses = clients.vendor.requests[-1].body

    for body in (by_messages, by_responses):
        assert b"_strowger_" not in body
        assert TEXT.encode()[:3] in body


async def test_the_pages_that_a_search_found_are_asked_for_at_openai(clients: Clients) -> None:
    await _message(clients, "openai-responses", stream=False)

    sent = clients.vendor.requests[-1].json
    assert "web_search_call.action.sources" in cast("list[str]", sent["include"])
    assert sent["max_tool_calls"] == 8


async def test_functions_next_to_googles_search_are_allowed_by_its_flag(clients: Clients) -> None:
    function: Json = {"name": "f", "input_schema": {"type": "object"}}
    await _message(clients, "gemini", stream=False, tools=[CLAUDES, function])

    assert clients.vendor.requests[-1].json["toolConfig"] == {
        "includeServerSideToolInvocations": True
    }
