"""Tools in namespaces work with every vendor, of which only OpenAI has namespaces."""

from collections.abc import AsyncGenerator

import pytest
from openai.types.responses import Response, ResponseCustomToolCall, ResponseFunctionToolCall

from tests.gateway.backends.vendors.dialect import Call, Json, Said
from tests.gateway.backends.vendors.rows import VENDORS, Vendor
from tests.gateway.surfaces.responses.openai_client import (
    HI,
    PLACE,
    ResponsesOf,
    responses_of_every_vendor,
    returned,
)

pytestmark = pytest.mark.anyio

LONG = "a_namespace_whose_name_and_whose_tools_need_more_than_64_letters"
CLOCK: Json = {"type": "function", "name": "clock", "parameters": PLACE}
PATCH: Json = {"type": "custom", "name": "patch"}
TOOLS: list[Json] = [
    {"type": "namespace", "name": "crm", "description": "Of the CRM.", "tools": [CLOCK, PATCH]},
    {"type": "namespace", "name": LONG, "description": "Another.", "tools": [CLOCK]},
]


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[ResponsesOf, None]:
    async with responses_of_every_vendor(tmp_path_factory.mktemp("run")) as found:
        yield found


def calls_of(answer: Response) -> list[ResponseFunctionToolCall | ResponseCustomToolCall]:
    kinds = (ResponseFunctionToolCall, ResponseCustomToolCall)
    return [one for one in answer.output if isinstance(one, kinds)]


@pytest.mark.parametrize(
    "vendor",
    [one for one in VENDORS if one.task == "chat" and one.name != "openai-responses"],
    ids=lambda one: one.name,
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_tools_in_a_namespace_are_called_by_their_own_names(
    gateway: ResponsesOf, vendor: Vendor, stream: bool
) -> None:
    gateway.plays(vendor, Said())
    await gateway.ask(vendor, {"tools": TOOLS}, stream=stream)
    names = gateway.received(vendor).tools
    given: tuple[Json, ...] = ({"at": "A"}, {"input": "text"}, {"at": "B"})
    calls = tuple(
        Call(id=f"abcdefgh{place}", name=name, arguments=arguments)
        for place, (name, arguments) in enumerate(zip(names, given, strict=True))
    )
    gateway.plays(vendor, Said(text=(), calls=calls))
    asked = await gateway.ask(vendor, {"tools": TOOLS}, stream=stream)
    gateway.plays(vendor, Said())
    results: list[Json] = [
        {"type": f"{one.type}_output", "call_id": one.call_id, "output": "Done!"}
        for one in calls_of(asked)
    ]

    said: list[Json] = [HI, *returned(asked), *results]
    await gateway.ask(vendor, {"input": said, "tools": TOOLS}, stream=stream)

    assert b"Of the CRM." in gateway.setting.server.requests[-1].body
    assert names[:2] == ("crm__clock", "crm__patch")
    assert all(len(one) <= 64 for one in names)
    assert [(one.namespace, one.name) for one in calls_of(asked)] == [
        ("crm", "clock"),
        ("crm", "patch"),
        (LONG, "clock"),
    ]
    (turn,) = [one for one in gateway.received(vendor).turns if one.calls]
    assert [one.name for one in turn.calls] == [*names]
