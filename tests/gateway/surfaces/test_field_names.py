"""Errors name fields as the client's own API does, before and in a stream."""

import json
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Behaviour, Received, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]


def rejecting(param: str) -> Behaviour:
    """Begin a stream with content, and end it with an error that names a field."""

    async def behave(request: Received, answer: Answer) -> None:
        error: Json = {"message": "too odd", "type": "invalid_request_error", "param": param}
        if request.json.get("stream") is not True:
            await answer.json({"error": error}, 400)
            return
        await answer.begin_stream()
        await answer.event({"id": "c", "choices": [{"index": 0, "delta": {"content": "Hi"}}]})
        await answer.event({"error": error})
        await answer.end_stream(finish=None)

    return behave


RESPONSES: Json = {"input": "hi"}
MESSAGES: Json = {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("path", "body", "theirs", "ours"),
    [
        ("/v1/responses", RESPONSES, "max_tokens", "max_output_tokens"),
        ("/v1/responses", RESPONSES, "response_format", "text.format"),
        ("/v1/responses", RESPONSES, "tools", "tools"),
        ("/v1/messages", MESSAGES, "stop", "stop_sequences"),
        ("/v1/messages", MESSAGES, "user", "metadata.user_id"),
        ("/v1/messages", MESSAGES, "messages", "messages"),
    ],
)
async def test_errors_name_the_field_as_its_client_does(
    tmp_path: Path, path: str, body: Json, theirs: str, ours: str, stream: bool
) -> None:
    async with provider(rejecting(theirs)) as server:
        async with (
            serving(one_model(f"{server.origin}/v1"), tmp_path) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        ):
            answer = await client.post(path, json={"model": "chat", **body, "stream": stream})

    payload = answer.text
    if answer.status_code == 200:
        payload = payload.partition("event: error\n")[2].partition("\n\n")[0]
    found = cast("Json", json.loads(payload.removeprefix("data: ")))
    assert cast("Json", found["error"])["param"] == ours
