"""OpenAI's own client in front of the gateway, and a stand-in of any vendor behind it."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import openai
from msgspec import Struct
from openai.types.responses import Response

from strowger_gateway.gateway.assembly.gateway import Gateway
from tests.gateway.backends.vendors.backend import Setting, answering, every_vendor
from tests.gateway.backends.vendors.dialect import Call, Json, ReceivedRequest, Said
from tests.gateway.backends.vendors.rows import Vendor

PROOF = "cHJvb2Y="
PLACE: Json = {"type": "object", "properties": {"at": {"type": "string"}}}
TOOLS: Sequence[Json] = [
    {"type": "function", "name": "weather", "parameters": PLACE},
    {"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}}},
]
HI: Json = {"type": "message", "role": "user", "content": "hi"}
MADE = {
    "single": (Call(id="abcdefgh1", name="weather", arguments={"at": "A"}, proof=PROOF),),
    "parallel": (
        Call(id="abcdefgh1", name="weather", arguments={"at": "A"}, proof=PROOF),
        Call(id="abcdefgh2", name="weather", arguments={"at": "B"}),
    ),
    "no argument": (Call(id="abcdefgh1", name="clock", proof=PROOF),),
}


class ResponsesOf(Struct, frozen=True, kw_only=True, eq=False):
    """OpenAI's client, and the setting that it is a client of."""

    setting: Setting
    client: openai.AsyncOpenAI

    def plays(self, vendor: Vendor, said: Said) -> None:
        self.setting.plays(answering(vendor, said))

    def received(self, vendor: Vendor) -> ReceivedRequest:
        return self.setting.received(vendor)

    async def ask(self, vendor: Vendor, body: Json | None = None, *, stream: bool) -> Response:
        """Post with OpenAI's client. body: fields besides the model's name."""
        sent = {"input": "hi", **(body or {})}
        responses = self.client.responses
        if stream:
            async with responses.stream(model=vendor.name, input="", extra_body=sent) as events:
                return cast("Response", await events.get_final_response())
        return await responses.create(model=vendor.name, input="", extra_body=sent)


@asynccontextmanager
async def responses_of_every_vendor(
    run_dir: Path, more: str = "", equip: Callable[[Gateway], None] | None = None
) -> AsyncGenerator[ResponsesOf, None]:
    """more, equip: see `every_vendor`."""
    async with every_vendor(run_dir, failing=False, more=more, equip=equip) as setting:
        url = f"{setting.gateway.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
            yield ResponsesOf(setting=setting, client=client)


def returned(response: Response) -> list[Json]:
    """The output as a client returns it in the next turn."""
    return cast(
        "list[Json]",
        [one.model_dump(exclude_none=True, exclude_unset=True) for one in response.output],
    )


def fed_back(asked: Response, output: object = "21 degrees") -> Json:
    """The conversation with its calls and what came of them."""
    results: list[Json] = [
        {"type": "function_call_output", "call_id": one.call_id, "output": output}
        for one in asked.output
        if one.type == "function_call"
    ]
    return {"input": [HI, *returned(asked), *results, HI], "tools": TOOLS}
