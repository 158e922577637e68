"""Trace the files that requests run through; `python -m tests.walk` prints a walk.

docs/architecture.md shows three walks, and tests/test_walk.py compares them. Each request goes to
a warmed gateway with remote providers:

- `bare`: a chat that is not streamed, to a provider of the OpenAI dialect;
- `governed`: the same as a stream, under the configuration of the page's story: limits, a budget,
  a guardrail, the response cache, a trace and the payload log;
- `messages`: a stream with tools, from a client of the Messages API to the Responses API.
"""

import asyncio
import gc
import re
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import httpx
from msgspec import Struct

from strowger_gateway.gateway.observability.tracing.part import TracingSide
from tests.adapters.traffic import fixture
from tests.gateway.serving import Serving, serving
from tests.imports import HOUSE
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

ROOT = Path(__file__).parent.parent
HOME = ROOT / "strowger_gateway"
PACKAGES = ("schemas", "adapters", "gateway")
UNDERNEATH = ("gateway/platform/eventloop/", "gateway/server/http1/")
"""The server and the event loop's batch: they know nothing of chats, as the libraries below them,
and are in use all through a request. docs/architecture.md shows them in a picture."""
OUTSIDE = ""
"""The caller of what the server, the event loop or a parser calls."""

KEY = "sk-walk-0123456789"
PAUSE_S = 0.05
"""Between two parts of a provider's stream, which so arrive one by one."""

IN_THE_BACKGROUND = frozenset({"SlowClientReaper.watch", "CapturedPayload.release"})
"""What wakes by a clock of its own, or when the writer of an earlier payload comes to it."""

UNNAMED = re.compile(r"\.?<\w+>")
"""A lambda or a generator expression in a function: the function stands for it."""

STORY = re.compile(r"^## The story of a request\n.*?^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)

Json = dict[str, object]


class Entry(Struct, frozen=True, kw_only=True):
    """A call from one file into another. Files relative to the repository, `OUTSIDE` for others."""

    caller: str
    file: str
    function: str


class Walk(Struct, frozen=True, kw_only=True):
    """One request, and how long its walk may be.

    heading:      of the section in docs/architecture.md that has its table.
    most_files, most_entries: bounds of its files, and of how often one of them is entered.
    config:       YAML, for the origin of the provider and a folder.
    body:         by the number of the request, so that no cache has the answer.
    behaviour:    of the provider, which is the collector of traces as well.
    """

    heading: str
    most_files: int
    most_entries: int
    config: Callable[[str, Path], str]
    path: str
    body: Callable[[int], Json]
    behaviour: Behaviour


def _bare(origin: str, folder: Path) -> str:
    return f"""
auth: {{mode: keys, keys: [{{name: app, key: {KEY}, models: [chat]}}]}}
providers: [{{name: a, adapter: openai, base_url: "{origin}/v1", api_key: sk-a}}]
models: [{{name: chat, backends: [{{provider: a, model: m}}]}}]
"""


def story() -> str:
    """The configuration of the story in docs/architecture.md."""
    (found,) = STORY.findall(HOUSE.read_text())
    return found


def _governed(origin: str, folder: Path) -> str:
    config = story().replace("https://first.example", origin)
    config = config.replace("http://collector.example:4318", origin)
    return config.replace("/var/log/strowger", str(folder / "payloads"))


def _responses(origin: str, folder: Path) -> str:
    return f"""
auth: {{mode: keys, keys: [{{name: app, key: {KEY}, models: [chat]}}]}}
providers: [{{name: a, adapter: openai-responses, base_url: "{origin}/v1", api_key: sk-a}}]
models: [{{name: chat, backends: [{{provider: a, model: m}}]}}]
"""


def _chat(number: int) -> Json:
    content = f"hello {number}"
    return {
        "model": "chat",
        "messages": [{"role": "user", "content": content}],
        "temperature": 0.5,
    }


def _streamed_chat(number: int) -> Json:
    return {**_chat(number), "stream": True}


def _message(number: int) -> Json:
    schema = {"type": "object", "properties": {"at": {"type": "string"}}}
    tools = [{"name": name, "input_schema": schema} for name in ("weather", "clock")]
    return {
        "model": "chat",
        "max_tokens": 500,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": f"Where is it? {number}"}],
        "tools": tools,
        "stream": True,
    }


async def _answers(request: Received, answer: Answer) -> None:
    """Answer chats, whole or in parts, and accept traces."""
    if request.path.startswith("/v1/traces"):
        await answer.body(b"", "application/x-protobuf")
    elif not request.json.get("stream"):
        await answer.chat()
    else:
        await answer.begin_stream()
        for text in ("Good ", "morning, ", "all of you."):
            await answer.text(text)
            await asyncio.sleep(PAUSE_S)
        await answer.end_stream()


_RECORDED = fixture("openai-responses/chat-stream-thought-and-tools").body.split(b"\n\n")[:-1]


async def _thinks_and_calls(request: Received, answer: Answer) -> None:
    """Stream a recorded answer with reasoning and two calls."""
    await answer.begin_stream()
    for event in _RECORDED:
        await answer.chunk(event + b"\n\n")
        await asyncio.sleep(PAUSE_S / 5)
    await answer.raw(b"0\r\n\r\n")


WALKS = {
    "bare": Walk(
        heading="## The walk of a chat request",
        most_files=45,
        most_entries=7,
        config=_bare,
        path="/v1/chat/completions",
        body=_chat,
        behaviour=_answers,
    ),
    "governed": Walk(
        heading="### The walk of a governed stream",
        most_files=75,
        most_entries=12,
        config=_governed,
        path="/v1/chat/completions",
        body=_streamed_chat,
        behaviour=_answers,
    ),
    "messages": Walk(
        heading="### The walk from the Messages API to the Responses API",
        most_files=60,
        most_entries=30,
        config=_responses,
        path="/v1/messages",
        body=_message,
        behaviour=_thinks_and_calls,
    ),
}


@contextmanager
def recorded(entries: list[Entry]) -> Generator[None, None, None]:
    """Add every call that enters a file of the project from another file."""
    files: dict[str, str] = {}
    seen: dict[int, FrameType] = {}

    def file_of(frame: FrameType | None) -> str:
        if frame is None:
            return OUTSIDE
        name = frame.f_code.co_filename
        if name not in files:
            path = Path(name)
            inside = path.is_relative_to(HOME) and path.relative_to(HOME).parts[0] in PACKAGES
            file = str(path.relative_to(HOME)) if inside else OUTSIDE
            files[name] = OUTSIDE if file.startswith(UNDERNEATH) else file
        return files[name]

    def on_event(frame: FrameType, event: str, argument: object) -> None:
        # A coroutine that continues is "called" again, so frames are kept to know them by.
        if event != "call" or id(frame) in seen:
            return
        seen[id(frame)] = frame
        file, caller = file_of(frame), file_of(frame.f_back)
        if file not in (OUTSIDE, caller):
            name = UNNAMED.sub("", frame.f_code.co_qualname)
            if name not in IN_THE_BACKGROUND:
                entries.append(Entry(caller=caller, file=file, function=name))

    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)


async def traced(walk: Walk, folder: Path) -> list[Entry]:
    """The entries of one request, from its first byte to its line in the access log."""
    entries: list[Entry] = []
    environment = {"APP_KEY": KEY, "FIRST_KEY": "sk-first", "SECOND_KEY": "sk-second"}
    async with (
        provider(walk.behaviour) as upstream,
        serving(walk.config(upstream.origin, folder), folder, environment) as up,
        httpx.AsyncClient(headers={"authorization": f"Bearer {KEY}"}, timeout=60) as client,
    ):
        for number in range(3):
            await _send(walk, client, up, number)
        await _rest(up, upstream)
        gc.collect()  # the finalizers of an earlier gateway are not of this request's walk
        with recorded(entries):
            await _send(walk, client, up, 3)
            up.access_lines()
    return entries


async def _send(walk: Walk, client: httpx.AsyncClient, up: Serving, number: int) -> None:
    answer = await client.post(up.url + walk.path, json=walk.body(number))
    answer.raise_for_status()
    assert "error" not in answer.text, answer.text


async def _rest(up: Serving, upstream: Provider) -> None:
    """Let what runs in the background end: it is not the next request's."""
    await asyncio.sleep(0.05)
    lines = up.access_lines()
    if up.state.side(TracingSide).tracing is not None:
        spans = sum(1 + len(one.attempts) for one in lines)
        count = up.state.log.metrics.registry.get_sample_value
        sent = ("strowger_otlp_spans_total", {"outcome": "sent"})
        await upstream.until(lambda: count(*sent) == spans)
    await asyncio.sleep(0.05)


def runs(entries: list[Entry]) -> dict[str, int]:
    """How often each file is entered; entries without another file between them count once."""
    found: dict[str, int] = {}
    before = ""
    for entry in entries:
        if entry.file != before:
            found[entry.file] = found.get(entry.file, 0) + 1
        before = entry.file
    return found


def main(names: list[str]) -> None:
    """Print the files in the order in which they are opened, with the functions entered."""
    for name in names or list(WALKS):
        with tempfile.TemporaryDirectory() as folder:
            entries = asyncio.run(traced(WALKS[name], Path(folder)))
        print(f"{name}:")
        for number, (file, times) in enumerate(runs(entries).items(), 1):
            functions = {one.function: "" for one in entries if one.file == file}
            for one in entries:
                if one.file == file and one.caller == OUTSIDE:
                    functions[one.function] = " (from outside)"
            shown = ", ".join(function + why for function, why in functions.items())
            print(f"{number:2} {file}  ({times}x)  {shown}")


if __name__ == "__main__":
    main(sys.argv[1:])
