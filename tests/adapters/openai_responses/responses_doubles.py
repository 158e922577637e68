"""Adapters of the Responses API under test, and the official client's types as the judge."""

import json
from collections.abc import Iterable, Mapping
from typing import cast

import pydantic
from openai.types.responses import ResponseInputItemParam, ToolParam
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from strowger_gateway.adapters.base import Adapter
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.adapters.testing import contract_endpoint
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.requests import ChatRequest

Json = Mapping[str, object]

NAMES = frozenset({*ResponseCreateParamsBase.__annotations__, "stream"})
_item = pydantic.TypeAdapter[object](ResponseInputItemParam)
_tool = pydantic.TypeAdapter[object](ToolParam)


def adapter(name: str) -> Adapter:
    return Registry(()).build(name, contract_endpoint("https://vendor.test/v1"))


OPENAI = adapter("openai-responses")


def sent(request: ChatRequest, to: Adapter = OPENAI, model: str = "m") -> Json:
    """The body as the adapter sends it."""
    return json.loads(to.encode(request, model).body)


def valid(body: Json) -> Json:
    """Fails for anything that the official client's types do not have."""
    assert body.keys() <= NAMES, body.keys() - NAMES
    given = body["input"]
    for item in [] if isinstance(given, str) else cast("list[object]", given):
        _item.validate_python(item, strict=True)
    for tool in cast("list[object]", body.get("tools", [])):
        _tool.validate_python(tool, strict=True)
    return body


def events_of(body: Iterable[Json]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in body)


def kinds(events: Iterable[Event]) -> list[str]:
    return [type(one).__name__ for one in events]
