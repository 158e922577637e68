"""Official clients get masked answers of every vendor, and each vendor gets masked requests."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import anthropic
import openai
import pytest
from msgspec import Struct

from tests.gateway.backends.vendors.backend import Setting, answering, every_vendor
from tests.gateway.backends.vendors.dialect import Call, Json, Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor

pytestmark = pytest.mark.anyio

KEY = "AKIA" + "Q3" * 8
MASK = "guardrails: [{name: keys, use: secrets, mode: mask}]"
PROOF = "cHJvb2Y="
CHATTING = [one for one in VENDORS if one.task == "chat"]
PLACE: Json = {"type": "object", "properties": {"at": {"type": "string"}}}
SPLIT = tuple(f"use {KEY} now")
SAID = Said(text=SPLIT, thought=f"I have {KEY}.", proof=PROOF)
CALLED = Said(
    text=(), calls=(Call(id="abcdefgh1", name="weather", arguments={"at": KEY}, proof=PROOF),)
)


class Clients(Struct, frozen=True, kw_only=True, eq=False):
    """The official clients of one gateway."""

    setting: Setting
    claude: anthropic.AsyncAnthropic


@pytest.fixture(scope="module")
async def clients(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Clients, None]:
    run = tmp_path_factory.mktemp("run")
    async with every_vendor(run, failing=False, more=MASK) as setting:
        url = setting.gateway.url
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as claude:
            yield Clients(setting=setting, claude=claude)


async def chat(clients: Clients, vendor: Vendor, said: str, *, stream: bool) -> str:
    tools = [{"type": "function", "function": {"name": "weather", "parameters": PLACE}}]
    body: Json = {"messages": [{"role": "user", "content": said}], "tools": tools}
    answer = await clients.setting.ask(vendor, body, stream=stream)
    return str(answer.message)


async def messages(clients: Clients, vendor: Vendor, said: str, *, stream: bool) -> str:
    create = clients.claude.messages
    body: Json = {
        "messages": [{"role": "user", "content": said}],
        "tools": [{"name": "weather", "input_schema": PLACE}],
    }
    if stream:
        async with create.stream(
            model=vendor.name, max_tokens=2000, messages=[], extra_body=body
        ) as events:
            return (await events.get_final_message()).to_json()
    answer = await create.create(model=vendor.name, max_tokens=2000, messages=[], extra_body=body)
    return answer.to_json()


async def responses(clients: Clients, vendor: Vendor, said: str, *, stream: bool) -> str:
    create = clients.setting.client.responses
    tools = [{"type": "function", "name": "weather", "parameters": PLACE}]
    body: Json = {"input": said, "tools": tools}
    if not stream:
        return (await create.create(model=vendor.name, input="", extra_body=body)).to_json()
    async with create.stream(model=vendor.name, input="", extra_body=body) as events:
        received = [event async for event in events]
        whole = repr(await events.get_final_response())
    assert not [event for event in received if KEY in repr(event)]
    assert KEY not in "".join(str(getattr(event, "delta", "")) for event in received)
    return whole


Asks = Callable[..., Awaitable[str]]
SURFACES: Sequence[Asks] = (chat, messages, responses)
of_vendors = pytest.mark.parametrize("vendor", CHATTING, ids=lambda one: one.name)
of_surfaces = pytest.mark.parametrize("ask", SURFACES, ids=lambda one: one.__name__)
either_way = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@of_vendors
@of_surfaces
@either_way
async def test_text_in_both_directions_is_masked(
    clients: Clients, vendor: Vendor, ask: Asks, stream: bool
) -> None:
    clients.setting.plays(answering(vendor, SAID))

    answer = await ask(clients, vendor, f"mine is {KEY}.", stream=stream)

    assert KEY not in answer
    assert "use [secret] now" in answer
    sent = clients.setting.server.requests[-1].body.decode()
    assert KEY not in sent
    assert "mine is [secret]." in sent


@of_vendors
@of_surfaces
@either_way
async def test_arguments_of_tool_calls_are_masked(
    clients: Clients, vendor: Vendor, ask: Asks, stream: bool
) -> None:
    clients.setting.plays(answering(vendor, CALLED))

    answer = await ask(clients, vendor, "hi", stream=stream)

    assert KEY not in answer
    assert "[secret]" in answer
    assert "weather" in answer


@either_way
async def test_official_clients_raise_their_errors_of_blocked_requests(
    tmp_path_factory: pytest.TempPathFactory, stream: bool
) -> None:
    blocks = MASK.replace("mode: mask", "mode: block, where: input")
    (vendor,) = [one for one in VENDORS if one.name == "openai"]
    run = tmp_path_factory.mktemp("run")
    async with every_vendor(run, failing=False, more=blocks) as setting:
        url = setting.gateway.url
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as claude:
            found = Clients(setting=setting, claude=claude)
            for ask in (chat, responses):
                with pytest.raises(openai.BadRequestError, match="'keys' blocked the request") as e:
                    await ask(found, vendor, KEY, stream=stream)
                assert e.value.code == "content_blocked"
            with pytest.raises(anthropic.BadRequestError, match="'keys' blocked the request"):
                await messages(found, vendor, KEY, stream=stream)


async def test_official_clients_raise_their_errors_of_streams_that_are_blocked(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    blocks = MASK.replace("mode: mask", "mode: block, where: output")
    (vendor,) = [one for one in VENDORS if one.name == "openai"]
    late = Said(text=("word " * 100, *SPLIT))
    run = tmp_path_factory.mktemp("run")
    async with every_vendor(run, failing=False, more=blocks) as setting:
        url = setting.gateway.url
        async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0) as claude:
            found = Clients(setting=setting, claude=claude)
            setting.plays(answering(vendor, late))
            for ask, error in (
                (chat, openai.APIError),
                (responses, openai.APIError),
                (messages, anthropic.APIStatusError),
            ):
                with pytest.raises(error, match="'keys' blocked the answer"):
                    await ask(found, vendor, "hi", stream=True)
