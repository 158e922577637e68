"""Ollama's own API: what may differ."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec
import ollama

from strowger_gateway.adapters.conformance.recordings import request_for
from strowger_gateway.schemas.requests import EmbeddingsRequest
from tests.identity.differences import Difference
from tests.identity.put_together import Json
from tests.identity.recorded import Case, Dialect

MODEL = Difference("model", "other", "the name that the client uses")
DIFFERENCES: tuple[Difference, ...] = (
    Difference("created_at", "other", "the time of the gateway's answer"),
    MODEL,
    *(
        Difference(f"{name}_duration", "added", "measured by the gateway, if the server does not")
        for name in ("total", "load", "prompt_eval", "eval")
    ),
)


def _client(address: str) -> Any:
    """An ollama.AsyncClient, whose declared types have unknown parts."""
    return ollama.AsyncClient(host=address)


async def read_chat(address: str, case: Case) -> object:
    """See Reader."""
    thinks = msgspec.json.decode(case.recording.sent.get("think", b"null"))
    asked = {"model": case.model, "messages": [{"role": "user", "content": "hi"}], "think": thinks}
    async with _client(address) as client:
        if not case.recording.streamed:
            return (await client.chat(**asked)).model_dump()
        lines = await client.chat(**asked, stream=True)
        return _joined([one.model_dump() async for one in lines])


async def read_vectors(address: str, case: Case) -> object:
    """See Reader."""
    request = request_for(case.recording)
    assert isinstance(request, EmbeddingsRequest)
    async with _client(address) as client:
        return (await client.embed(case.model, ["x"] * len(request.inputs))).model_dump()


def _joined(lines: Iterable[dict[str, Any]]) -> Json:
    """Put the lines of a stream together: texts are joined, lists extended."""
    whole: Json = {"message": {}}
    message = cast("Json", whole["message"])
    for line in lines:
        for name, value in cast("Json", line.pop("message")).items():
            known = message.get(name)
            if isinstance(value, str) and isinstance(known, str) and name != "role":
                message[name] = known + value
            elif isinstance(value, list) and isinstance(known, list):
                message[name] = [*cast("list[object]", known), *cast("list[object]", value)]
            elif value is not None:
                message[name] = value
        whole |= {name: value for name, value in line.items() if value is not None}
    return whole


DIALECTS: tuple[Dialect, ...] = (
    Dialect(
        name="ollama",
        task="chat",
        reader=read_chat,
        differences=DIFFERENCES,
        adapters={"ollama": ("ollama/",)},
        # Its client does not read a call without arguments, which the gateway gives some.
        without=("ollama/chat-tools-parallel",),
        surface="",
    ),
    Dialect(
        name="ollama-embed",
        task="embeddings",
        reader=read_vectors,
        differences=(MODEL,),
        adapters={"ollama": ("ollama/embed",)},
        surface="",
    ),
)
