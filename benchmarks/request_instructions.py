"""Number of instructions that the gateway executes per request, from socket to socket.

`python -m benchmarks.request_instructions [--against CHECKOUT]` (needs valgrind; a minute per
row): the gateway runs under callgrind with one provider on loopback, a client key, the access log
and usage records in SQLite. Microseconds vary with the load of the machine; instructions do not, so
a change of one percent is visible. Callgrind's counters are read after a warm-up, after the
requests that count, and after a phase of the same length with a request now and then, whose
instructions are subtracted: they are what the gateway in use does per second, for example reading
what other gateways have spent, and under valgrind seconds pass for requests that take milliseconds
otherwise. `--against` counts the same requests in another checkout of the
project, for example in a `git worktree` of an older commit, and prints the ratio.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from benchmarks.checkouts import module_in
from benchmarks.gateway.contenders import free_port
from benchmarks.gateway.mock import BODY

WARM_UP: Final = 500
"""Requests that do not count. All lazy imports are done and all caches are filled by then."""
COUNTED: Final = 1_000
FEW: Final = 100
"""Requests of the phase that is subtracted: one per 0.1 s, so that all that is regular happens."""
SETTLE_S: Final = 1.0
"""Until what ended requests leave behind is written."""
KEY: Final = "bench-key"
ROOT: Final = Path(__file__).parent.parent
_TOTAL: Final = re.compile(rb"^(?:summary|totals): (\d+)", re.MULTILINE)
_DUMPS: Final = "callgrind.out"
_TEXT: Final = "Explain in one paragraph why the sky is blue, for a child of ten. " * 18
_CONFIG: Final = """
server: {{port: {port}}}
auth: {{mode: keys, keys: [{{name: bench, key: {key}, models: [chat]}}]}}
providers:
  - {{name: mock, adapter: openai, base_url: "http://127.0.0.1:{provider}/v1", api_key: k}}
models:
  - {{name: chat, backends: [{{provider: mock, model: mock-1}}]}}
store: {{url: "sqlite:///{folder}/bench.db"}}
logging: {{format: json}}
{more}
"""
_LIMITS: Final = """
limits:
  - {name: bench, who: {key: bench}, requests: 1000000, tokens: 100000000}
  - {name: everyone, who: {any: true}, requests: 1000000, concurrent: 1000}
  - {name: chats, who: {any: true}, each: key, models: [chat], tokens: 1000000000, per: day}
"""
"""Three limits, with rooms for all requests of a run."""
_PRICES: Final = """
prices: [{match: mock/*, input: 0.5, output: 1.5}]
"""
"""Every answer is priced for its record, whether or not a budget reads the cost."""
_BUDGETS: Final = f"""
{_PRICES}
budgets:
  - {{name: bench, who: {{key: bench}}, usd: 1000000, per: day}}
  - {{name: everyone, who: {{any: true}}, tokens: 1000000000}}
"""
"""Two budgets, with rooms for all requests of a run."""
_CAPABILITIES: Final = """
capabilities: [{match: mock/*, context: 128000, max_output: 16384}]
"""
_GUARDRAILS: Final = """
guardrails: [{name: keys, use: secrets, mode: mask}]
"""
"""One guardrail over requests and answers, which finds nothing."""
_CACHE: Final = """
cache: {ttl_s: 3600}
"""
"""The response cache in memory; requests use it if they ask by header."""
_TRACES: Final = """
telemetry: {otlp: {endpoint: "http://127.0.0.1:9", sample: 0}}
"""
"""Traces of which none is exported."""
_SAMPLED: Final = """
telemetry: {otlp: {endpoint: "http://127.0.0.1:PROVIDER", sample: 1}}
"""
"""Traces that are all exported, to a collector at the provider's port."""
_DELTAS: Final[tuple[tuple[Mapping[str, str], str | None], ...]] = (
    ({"role": "assistant", "content": ""}, None),
    *[({"content": " token"}, None)] * 16,
    ({}, "stop"),
)


def _frames() -> bytes:
    head = {"id": "c-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m"}
    frames: list[bytes] = []
    for delta, finish in _DELTAS:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        frames.append(b"data: %b\n\n" % json.dumps({**head, "choices": [choice]}).encode())
    return b"".join((*frames, b"data: [DONE]\n\n"))


def _answer(kind: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
    return head % (kind, len(body)) + body


_WHOLE: Final = _answer(b"application/json", BODY)
_STREAM: Final = _answer(b"text/event-stream", _frames())
_EXPORTED: Final = _answer(b"application/x-protobuf", b"")

ROWS: Final[dict[str, dict[str, object]]] = {
    "chat, whole": {"stream": False},
    "chat, 18 events": {"stream": True},
    "chat, priced": {"stream": False},
    "chat, three limits": {"stream": False},
    "chat, two budgets": {"stream": False},
    "chat, governed": {"stream": False},
    "chat, known model": {"stream": False, "max_tokens": 1000},
    "chat, guarded": {"stream": False},
    "chat, 18 events, guarded": {"stream": True},
    "chat, traced": {"stream": False},
    "chat, sampled": {"stream": False},
    "chat, cache not asked": {"stream": False},
    "chat, cache miss": {"stream": False},
    "chat, cache hit": {"stream": False},
    "messages, whole": {"stream": False, "max_tokens": 512},
    "responses, whole": {"stream": False, "store": False},
}
_SYSTEM: Final = "You are a helpful assistant."
_USER: Final = [{"role": "user", "content": _TEXT}]
_CHAT: Final[tuple[str, dict[str, object]]] = (
    "/v1/chat/completions",
    {"messages": [{"role": "system", "content": _SYSTEM}, *_USER]},
)
SURFACES: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "messages, whole": ("/v1/messages", {"system": _SYSTEM, "messages": _USER}),
    "responses, whole": ("/v1/responses", {"instructions": _SYSTEM, "input": _USER}),
}
"""Path and conversation of the rows that are not chats; compare them with "chat, whole"."""
MORE: Final[dict[str, str]] = {
    "chat, priced": _PRICES,
    "chat, three limits": _LIMITS,
    "chat, two budgets": _BUDGETS,
    "chat, governed": _LIMITS + _BUDGETS,
    "chat, known model": _CAPABILITIES,
    "chat, guarded": _GUARDRAILS,
    "chat, 18 events, guarded": _GUARDRAILS,
    "chat, traced": _TRACES,
    "chat, sampled": _SAMPLED,
    "chat, cache not asked": _CACHE,
    "chat, cache miss": _CACHE,
    "chat, cache hit": _CACHE,
}
"""Configuration of single rows, which an older checkout may reject."""
_ASK_CACHE: Final = frozenset({"chat, cache miss", "chat, cache hit"})
"""Rows with the header x-gateway-cache. Each request of a miss has its own seed."""


class Provider(asyncio.Protocol):
    """One connection; a request with `"stream":true` gets all events in one write.

    It is a collector of spans as well.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._held = b""

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, blank, body = self._held.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        if blank and length is not None and len(body) >= int(length[1]):
            self._held = b""
            streamed = b'"stream":true' in body.replace(b" ", b"")
            exported = head.startswith(b"POST /v1/traces ")
            answer = _EXPORTED if exported else _STREAM if streamed else _WHOLE
            self._transport.write(answer)


def config_of(row: str, port: int, provider: int, folder: Path) -> str:
    """The gateway's configuration for a row. port, provider: of gateway and provider."""
    more = MORE.get(row, "").replace("PROVIDER", str(provider))
    return _CONFIG.format(port=port, provider=provider, key=KEY, folder=folder, more=more)


def request_of(row: str, port: int, number: int = 0) -> bytes:
    """One request of a row: head and body. number: of the request, for misses of the cache."""
    path, fields = SURFACES.get(row, _CHAT)
    own = {**ROWS[row], "seed": 100_000 + number} if row == "chat, cache miss" else ROWS[row]
    body = json.dumps({"model": "chat", "temperature": 0.5, **fields, **own})
    cache = "x-gateway-cache: on\r\n" if row in _ASK_CACHE else ""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {KEY}\r\n{cache}"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


class _Client:
    """One connection to the gateway; the next request follows the answer to the last one."""

    def __init__(self, row: str, port: int) -> None:
        self._row = row
        self._port = port
        self._sent = 0

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def send(self, requests: int) -> None:
        """Raises RuntimeError unless every answer is a 200."""
        reader = self._reader
        for number in range(self._sent, self._sent + requests):
            self._writer.write(request_of(self._row, self._port, number))
            found = await reader.readuntil(b"\r\n\r\n")
            if not found.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(found.decode())
            length = re.search(rb"content-length: *(\d+)", found, re.IGNORECASE)
            if length is not None:
                await reader.readexactly(int(length[1]))
            else:
                await reader.readuntil(b"0\r\n\r\n")
        self._sent += requests

    def close(self) -> None:
        self._writer.close()


async def _dump(pid: int) -> None:
    """Write callgrind's counters to the next file, and begin at zero. Raises RuntimeError."""
    process = await asyncio.create_subprocess_exec(
        *("callgrind_control", "--dump", str(pid)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    if process.returncode or b"OK" not in printed:
        raise RuntimeError(printed.decode())


async def _count(pid: int, port: int, provider: int, row: str) -> None:
    """Dump the counters three times: of the warm-up, of the requests, of as long with FEW."""
    client = _Client(row, port)
    async with await asyncio.get_running_loop().create_server(Provider, "127.0.0.1", provider):
        await client.connect()
        await client.send(WARM_UP)
        await asyncio.sleep(SETTLE_S)
        await _dump(pid)
        began = time.monotonic()
        await client.send(COUNTED)
        await asyncio.sleep(SETTLE_S)
        took = time.monotonic() - began
        await _dump(pid)
        for _ in range(FEW):
            await client.send(1)
            await asyncio.sleep(took / FEW)
        await _dump(pid)
        client.close()


def each(checkout: Path, row: str) -> float:
    """Instructions per request. Raises RuntimeError if valgrind gives no numbers."""
    port, provider = free_port(), free_port()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "bench.yaml"
        config.write_text(config_of(row, port, provider, folder))
        errors = folder / "stderr"
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                [
                    *("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / _DUMPS}"),
                    *(
                        sys.executable,
                        "-m",
                        module_in(checkout, "gateway.cli"),
                        "serve",
                        "--config",
                        str(config),
                    ),
                ],
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=checkout,
                env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(checkout)},
            )
        try:
            _await_ready(port, process)
            asyncio.run(_count(process.pid, port, provider, row))
        finally:
            process.terminate()
            process.wait()
        found = [_TOTAL.search((folder / f"{_DUMPS}.{n}").read_bytes()) for n in (2, 3)]
        totals = [int(one[1]) for one in found if one is not None]
        if len(totals) < len(found):
            raise RuntimeError(errors.read_text())
        return (totals[0] - totals[1]) / (COUNTED - FEW)


def _await_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 300
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError("the gateway does not start under valgrind")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout of the project")
    parser.add_argument("--row", choices=ROWS, action="append", help="only this row")
    options = parser.parse_args()
    print("instructions per request")
    for row in options.row or ROWS:
        ours = each(ROOT, row)
        line = f"{row:<22}{ours:>12,.0f}"
        if options.against is not None:
            try:
                theirs = each(options.against.resolve(), row)
                line += f"   before {theirs:>12,.0f}   {ours / theirs - 1:+.1%}"
            except RuntimeError:
                line += "   before: it does not start with this configuration"
        print(line, flush=True)


if __name__ == "__main__":
    main()
