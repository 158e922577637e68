"""The requests of the benchmark: chats of about 1.5 KB, none with the body of another."""

import json
from collections.abc import Iterator, Sequence
from itertools import count, cycle

KEY = "bench-key"
Halves = tuple[bytes, bytes]
"""The head and the body of one request."""

_PROMPT = "Explain in one paragraph why the sky is blue, for a child of ten. " * 18
_NUMBER = "@" * 10
"""Replaced by a number that no other request has; its length is constant, so the head is too."""
_TRACE = "traceparent: 00-%032x-%016x-01\r\n"
_TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "A city, or a postal code."},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["place"],
        },
    },
}


def plain(*, stream: bool) -> Iterator[Halves]:
    """Two messages each, without end."""
    return _numbered([_chat(stream=stream)], "")


def mixed() -> Iterator[Halves]:
    """Of eight, one has a tool and one content parts; each has its own `traceparent`."""
    chat = _chat(stream=False)
    with_tool = {**chat, "tools": [_TOOL], "tool_choice": "auto"}
    system, user = _messages()
    parts = [{"type": "text", "text": text} for text in ("The question:", user["content"])]
    with_parts = {**chat, "messages": [system, {"role": "user", "content": parts}]}
    return _numbered([chat, chat, chat, with_tool, chat, chat, chat, with_parts], _TRACE)


def _numbered(chats: Sequence[dict[str, object]], trace: str) -> Iterator[Halves]:
    """The chats in turn, with numbers in place of `_NUMBER` and in `trace`."""
    shapes: list[tuple[str, bytes, bytes]] = []
    for chat in chats:
        body = json.dumps(chat, separators=(",", ":")).encode()
        before, _, after = body.partition(_NUMBER.encode())
        shapes.append((_head(chat, len(body)) + trace + "\r\n", before, after))
    for number, (head, before, after) in zip(count(1), cycle(shapes), strict=False):
        filled = head % (number * 0x9E3779B97F4A7C15, number) if trace else head
        yield filled.encode(), b"%b%010d%b" % (before, number, after)


def _chat(*, stream: bool) -> dict[str, object]:
    return {
        "model": "stream" if stream else "chat",
        "messages": _messages(),
        "temperature": 0.5,
        "stream": stream,
    }


def _messages() -> list[dict[str, str]]:
    return [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": f"Question {_NUMBER}. {_PROMPT}"},
    ]


def _head(chat: dict[str, object], length: int) -> str:
    """Without the blank line. x-bench: the mock to which nginx proxies the request."""
    return (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {KEY}\r\ncontent-length: {length}\r\n"
        f"x-bench: {'stream' if chat['stream'] else 'whole'}\r\n"
    )
