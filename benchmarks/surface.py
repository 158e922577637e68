"""Microseconds that the OpenAI surface takes to parse a request and to render a delta.

CPU time of this process, best of several rounds: `python -m benchmarks.surface`.
"""

import time
import timeit
from collections.abc import Callable
from typing import Final

import msgspec

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.openai.surface import CHAT, COMPLETIONS
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta, TokenLogprob, Usage
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest

REQUEST_ID: Final = "01936f2e-1234-7abc-8def-0123456789ab"
ROUNDS: Final = 15

MESSAGES: Final[list[dict[str, object]]] = [
    {"role": "system", "content": "You answer questions about timetables. " * 9},
    {"role": "user", "content": "When does the last train to Kanazawa leave? " * 8},
    {"role": "assistant", "content": "The last one leaves at 21:04 from platform 3. " * 7},
    {"role": "user", "content": "And on Sundays, and what does it cost? " * 8},
]
PLAIN: Final[dict[str, object]] = {
    "model": "gpt-4o-mini",
    "messages": MESSAGES,
    "temperature": 0.7,
    "max_tokens": 256,
    "stream": True,
    "stream_options": {"include_usage": True},
}
TOOLS: Final[list[dict[str, object]]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Looks up a timetable.",
            "parameters": {"type": "object", "properties": {"station": {"type": "string"}}},
        },
    }
    for name in ("departures", "arrivals", "fares")
]
BODIES: Final[dict[str, dict[str, object]]] = {
    "plain": PLAIN,
    "with two nulls": {**PLAIN, "stop": None, "seed": None},
    "with an unknown field": {**PLAIN, "store": False},
    "with three tools": {**PLAIN, "tools": TOOLS, "tool_choice": "auto"},
    "with a part each": {
        **PLAIN,
        "messages": [
            {"role": m["role"], "content": [{"type": "text", "text": m["content"]}]}
            for m in MESSAGES
        ],
    },
}


def main() -> None:
    print("parsing a chat request, µs")
    for name, body in BODIES.items():
        data = msgspec.json.encode(body)
        cost = _measure(lambda data=data: CHAT.parse(Inbound(body=data, max_choices=8)), 4000)
        print(f"  {name:<24} {len(data):>6} bytes {cost:8.2f}")
    chat = CHAT.parse(Inbound(body=msgspec.json.encode(PLAIN), max_choices=8))
    continued = b'{"model":"m","prompt":"x","stream":true}'
    text = COMPLETIONS.parse(Inbound(body=continued, max_choices=8))
    assert isinstance(chat, ChatRequest)
    assert isinstance(text, CompletionRequest)
    print("rendering, µs per event")
    started: list[Event] = [Started(model="gpt-4o-mini-2024-07-18"), TextDelta(text="It")]
    one: list[Event] = [TextDelta(text=" leaves")]
    likely = TokenLogprob(token=" leaves", logprob=-0.1)
    scored: list[Event] = [TextDelta(text=" leaves", logprobs=(likely,))]
    for name, request, surface in (("chat", chat, CHAT), ("completion", text, COMPLETIONS)):
        renderer = surface.renderer(request, REQUEST_ID)
        renderer.events(started)
        for label, batch in (("one delta", one), ("16 deltas", one * 16), ("logprobs", scored)):
            cost = _measure(lambda b=batch, r=renderer: r.events(b), 4000) / len(batch)
            print(f"  {name} {label:<24} {cost:8.2f}")
    print(f"rendering a whole chat answer, µs {_whole(chat):8.2f}")


def _whole(request: ChatRequest) -> float:
    fold = Fold()
    fold.add([Started(model="m"), TextDelta(text="It leaves at nine."), Finished(reason="stop")])
    fold.add([Usage(prompt_tokens=20, completion_tokens=6)])
    answer = fold.answer()
    return _measure(lambda: CHAT.renderer(request, REQUEST_ID).answer(answer), 4000)


def _measure(work: Callable[[], object], times: int) -> float:
    timer = timeit.Timer(work, timer=time.process_time)
    return min(timer.repeat(ROUNDS, times)) / times * 1e6


if __name__ == "__main__":
    main()
