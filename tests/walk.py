"""Trace the files that a chat request runs through; `python -m tests.walk` prints the walk.

docs/architecture.md shows the walk, and tests/test_walk.py compares the two. The request goes to a
warmed gateway with one remote provider of the OpenAI dialect; it is not streamed.
"""

import asyncio
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import httpx
from msgspec import Struct

from tests.gateway.serving import serving
from tests.stand_ins.provider import provider

ROOT = Path(__file__).parent.parent
HOME = ROOT / "strowger_gateway"
PACKAGES = ("schemas", "adapters", "gateway")
UNDERNEATH = ("gateway/platform/eventloop/", "gateway/server/http1/")
"""The server and the event loop's batch: they know nothing of chats, as the libraries below them,
and are in use all through a request. docs/architecture.md shows them in a picture."""
OUTSIDE = ""
"""The caller of what the server, the event loop or a parser calls."""

CONFIG = """
auth: {{mode: keys, keys: [{{name: app, key: sk-walk, models: [chat]}}]}}
providers: [{{name: a, adapter: openai, base_url: "{url}", api_key: sk-a}}]
models: [{{name: chat, backends: [{{provider: a, model: m}}]}}]
"""
BODY = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], "temperature": 0.5}


class Entry(Struct, frozen=True, kw_only=True):
    """A call from one file into another. Files relative to the repository, `OUTSIDE` for others."""

    caller: str
    file: str
    function: str


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
            name = frame.f_code.co_qualname.replace(".<locals>", "")
            entries.append(Entry(caller=caller, file=file, function=name))

    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)


async def traced(folder: Path) -> list[Entry]:
    """The entries of one request, from its first byte to its line in the access log."""
    entries: list[Entry] = []
    async with (
        provider() as upstream,
        serving(CONFIG.format(url=upstream.base_url), folder) as up,
        httpx.AsyncClient(headers={"authorization": "Bearer sk-walk"}, timeout=60) as client,
    ):
        for _ in range(3):
            (await client.post(f"{up.url}/v1/chat/completions", json=BODY)).raise_for_status()
        await asyncio.sleep(0.05)
        up.access_lines()
        with recorded(entries):
            answer = await client.post(f"{up.url}/v1/chat/completions", json=BODY)
            up.access_lines()
        answer.raise_for_status()
    return entries


def runs(entries: list[Entry]) -> dict[str, int]:
    """How often each file is entered; entries without another file between them count once."""
    found: dict[str, int] = {}
    before = ""
    for entry in entries:
        if entry.file != before:
            found[entry.file] = found.get(entry.file, 0) + 1
        before = entry.file
    return found


def main() -> None:
    """Print the files in the order in which they are opened, with the functions entered."""
    with tempfile.TemporaryDirectory() as folder:
        entries = asyncio.run(traced(Path(folder)))
    for number, (file, times) in enumerate(runs(entries).items(), 1):
        functions = dict.fromkeys(one.function for one in entries if one.file == file)
        print(f"{number:2} {file}  ({times}x)  {', '.join(functions)}")


if __name__ == "__main__":
    main()
