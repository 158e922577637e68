"""A provider that breaks off a recorded or written stream, and others that continue its text."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

import httpx
from msgspec import Struct

from tests.stand_ins.provider import Answer, Received, delta_body

Json = Mapping[str, object]


class Client(Struct, frozen=True, kw_only=True):
    """What a client of OpenAI's surface has of a stream.

    text: all of it. others: it has content other than text. error: the code of its error frame.
    done: the end mark arrived. finish: its finish reason. usage: as sent. comments: in order.
    """

    text: str
    others: bool
    error: str
    done: bool
    finish: str
    roles: int
    usage: Json
    comments: tuple[str, ...]


def read(body: str) -> Client:
    text, finish, error = "", "", ""
    others, done, roles = False, False, 0
    usage: Json = {}
    comments: list[str] = []
    for part in body.split("\n\n"):
        if part.startswith(":"):
            comments.append(part)
            continue
        data = part.removeprefix("data: ")
        if not data or data == "[DONE]":
            done = done or bool(data)
            continue
        frame = cast("Json", json.loads(data))
        if "error" in frame:
            error = str(cast("Json", frame["error"])["code"])
            continue
        usage = cast("Json", frame.get("usage") or usage)
        for choice in cast("Sequence[Json]", frame["choices"]):
            delta = cast("Json", choice.get("delta") or {})
            text += str(delta.get("content") or choice.get("text") or "")
            others = (
                others or bool(delta.keys() - {"role", "content"}) or bool(choice.get("logprobs"))
            )
            roles += "role" in delta
            finish = str(choice.get("finish_reason") or finish)
    return Client(
        text=text,
        others=others,
        error=error,
        done=done,
        finish=finish,
        roles=roles,
        usage=usage,
        comments=tuple(comments),
    )


async def ask(url: str, path: str = "/v1/chat/completions", /, **body: object) -> Client:
    given: Json = {"messages": [{"role": "user", "content": "hi"}]}
    if path.endswith("/completions") and "chat" not in path:
        given = {"prompt": "hi"}
    async with httpx.AsyncClient(timeout=60) as client:
        got = await client.post(
            url + path,
            json={
                "model": "chat",
                "stream": True,
                "stream_options": {"include_usage": True},
                **given,
                **body,
            },
        )
    assert got.status_code == 200, got.text
    return read(got.text)


def beginning(request: Received) -> str:
    """The beginning of the answer in a request of the OpenAI dialect; "" without one."""
    body = request.json
    if "prompt" in body:
        return str(body["prompt"]).removeprefix("hi")
    last = cast("Sequence[Json]", body["messages"])[-1]
    return str(last["content"]) if last["role"] == "assistant" else ""


async def say(request: Received, answer: Answer, pieces: Sequence[str]) -> None:
    """Stream a chat or a completion in the OpenAI dialect, one token a piece."""
    await answer.begin_stream()
    for piece in pieces:
        await answer.event(_frame(request, piece, None))
    await answer.event(_frame(request, "", "stop"))
    prompt = 2 + len(beginning(request))
    written = len(pieces) or 1  # the token that ends the turn
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
    }
    await answer.event({**_frame(request, "", None), "choices": [], "usage": usage})
    await answer.chunk(b"data: [DONE]\n\n")
    await answer.raw(b"0\r\n\r\n")


def _frame(request: Received, text: str, finish: str | None) -> Json:
    if "prompt" in request.json:
        choice = {"index": 0, "text": text, "finish_reason": finish}
        return {
            "id": "c",
            "object": "text_completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
    return delta_body({"content": text}, finish)
