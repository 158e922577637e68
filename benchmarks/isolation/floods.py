"""Attacks by number and by time: what one key holds while others want it, too."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from benchmarks.isolation.attacks import Pieces
from benchmarks.isolation.requests import MB, attack, chat, exchange

_LONG: Final[dict[str, object]] = {"max_tokens": 400, "min_tokens": 400, "ignore_eos": True}
_WIDE: Final = '{"a":[' + ",".join(["[]"] * (6 * MB)) + "]}"


def _slow(count: int, **fields: object) -> list[Pieces]:
    return [attack(chat("hi", "slow", **fields))] * count


def _answers(count: int, **fields: object) -> list[Pieces]:
    return [attack(chat("Write a story", "chat", **{**_LONG, **fields}))] * count


def _pages() -> list[Pieces]:
    long = "word " * 300
    return [attack(chat(long, "chat", **_LONG))] * 12


def _arguments(count: int, surface: str = "chat") -> list[Pieces]:
    return [_ARGUMENTS[surface]()] * count


def _chat_arguments() -> bytes:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": _WIDE}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ]
    return attack(json.dumps({"model": "quick", "messages": messages}).encode())


def _responses_arguments() -> bytes:
    items = [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": _WIDE},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
    ]
    body = json.dumps({"model": "quick", "input": items}).encode()
    return attack(body, "POST /v1/responses")


_ARGUMENTS: Final[Mapping[str, Callable[[], bytes]]] = {
    "chat": _chat_arguments,
    "responses": _responses_arguments,
}


def _hostile(model: str, count: int = 1, **fields: object) -> list[Pieces]:
    return [attack(chat("hi", f"bad/{model}", **fields))] * count


def _arguments_in_answers() -> list[Pieces]:
    messages = [{"role": "user", "content": "hi"}]
    return [
        *_hostile("arguments"),
        attack(
            json.dumps({"model": "bad/arguments", "max_tokens": 4, "messages": messages}).encode(),
            "POST /v1/messages",
        ),
        attack(
            json.dumps({"model": "bad/arguments", "input": "hi"}).encode(), "POST /v1/responses"
        ),
    ]


def _input_items(port: int) -> list[Pieces]:
    """150 stored responses of 100 KB each, then ten times 100 lists of their input."""

    async def store() -> list[str]:
        ids: list[str] = []
        body = json.dumps({"model": "quick", "input": "word " * 20_000, "store": True}).encode()
        for _ in range(150):
            answer = await exchange(port, [attack(body, "POST /v1/responses")])
            ids.append(json.loads(answer.body)["id"])
        return ids

    ids = asyncio.run(store())
    return [
        attack(b"", f"GET /v1/responses/{id}/input_items?limit=1")
        for _ in range(10)
        for id in ids[:100]
    ]


def _idle(_: int) -> list[Pieces]:
    return [[b"G", *[b""] * 2000]] * 400


FLOODS: Final[Mapping[str, Callable[[int], Sequence[Pieces]]]] = {
    "slow-530": lambda _: _slow(530),
    "slow-530-streamed": lambda _: _slow(530, stream=True),
    "answers-300": lambda _: _answers(300),
    "answers-300-priority-1": lambda _: _answers(300, priority=1),
    "pages": lambda _: _pages(),
    "arguments-18mb": lambda _: _arguments(1),
    "arguments-4x18mb": lambda _: _arguments(4),
    "arguments-4x18mb-responses": lambda _: _arguments(4, "responses"),
    "answer-arguments-18mb": lambda _: _arguments_in_answers(),
    "input-items": _input_items,
    "answer-frames": lambda _: _hostile("frames", 4, stream=True),
    "answer-comments": lambda _: _hostile("comments", 4, stream=True),
    "answer-empty-deltas": lambda _: _hostile("empty", 4, stream=True),
    "answer-64mb": lambda _: _hostile("large", 2),
    "answer-endless-line": lambda _: _hostile("line", 2, stream=True),
    "idle-connections-400": _idle,
}
"""By name: builds the requests. Called with the gateway's port, for what has to be stored first."""
