"""What docs/scale.md is computed from: records per second into a database, and memory per stream.

python -m benchmarks.capacity [--url postgresql://USER@HOST/NAME] [--requests 20000] [--streams 500]

Records are imported as the importing process does it, a thousand requests with one attempt each per
transaction, into an empty database at the address, or into an SQLite file without one, and then
exported to Parquet. Streams are held open by a provider that has sent its first event.
"""

import argparse
import asyncio
import json
import socket
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.gateway.processes import resident_mb
from benchmarks.soak.subject import free_port
from strowger_gateway.gateway.storage.parquet.export import Export
from strowger_gateway.gateway.storage.parquet.target import Folder
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestRow, Row
from strowger_gateway.schemas.secret import Secret

_BATCH = 1000
_CONFIG = """
server: {{port: {port}, drain_delay_s: 0}}
providers: [{{name: mock, adapter: openai, base_url: "http://127.0.0.1:{mock}/v1", api_key: k}}]
models: [{{name: chat, backends: [{{provider: mock, model: a}}]}}]
store: {{url: "sqlite:///{folder}/s.db"}}
"""
_BODY = json.dumps(
    {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
).encode()
_EVENT = (
    b'data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "a", '
    b'"choices": [{"index": 0, "delta": {"content": "word"}, "finish_reason": null}]}\n\n'
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--streams", type=int, default=500)
    given = parser.parse_args()
    table = Table("measured", "value")
    with tempfile.TemporaryDirectory() as folder:
        for row in records(given.url or f"sqlite:///{folder}/records.db", given.requests, folder):
            table.add_row(*row)
        if given.streams:
            memory = asyncio.run(memory_per_stream(given.streams, Path(folder)))
            table.add_row(f"memory per open stream, {given.streams:,} of them", f"{memory:.1f} KB")
    Console().print(table)


def records(url: str, requests: int, folder: str) -> list[tuple[str, str]]:
    store = open_store(Secret(url))
    store.prepare()
    batches = [
        [row for number in range(begin, begin + _BATCH) for row in _rows(number)]
        for begin in range(0, requests, _BATCH)
    ]
    began, used = time.monotonic(), time.process_time()
    for number, rows in enumerate(batches):
        store.import_rows("file", number, number + 1, rows)
    took, used = time.monotonic() - began, time.process_time() - used
    found = [
        ("requests imported per second, with an attempt each", f"{requests / took:,.0f}"),
        ("CPU of the importing process per request", f"{1e6 * used / requests:.0f} µs"),
        ("database per request", f"{_size(url) / requests:,.0f} bytes"),
    ]
    target = Folder(Path(folder) / "parquet")
    began = time.monotonic()
    Export(store.database, target).run()
    took = time.monotonic() - began
    target.close()
    store.close()
    files = (Path(folder) / "parquet").rglob("*.parquet")
    size = sum(file.stat().st_size for file in files)
    return [
        *found,
        ("requests exported per second, with an attempt each", f"{requests / took:,.0f}"),
        ("Parquet per request", f"{size / requests:,.0f} bytes"),
    ]


def _rows(number: int) -> list[Row]:
    """As different as those of real traffic: ids, times, tokens, keys, teams."""
    name = f"{number * 0x9E3779B97F4A7C15 % (1 << 64):016x}{number:08x}"
    at = 4_000_000_000 + number * 0.01
    cost = (number % 997) * 1e-5
    request = RequestRow(
        surface="openai",
        request_id=name,
        time=at,
        status=200,
        ms=number % 3000 + 0.25,
        key=f"key-{number % 200}",
        model="chat",
        route="chat",
        backend=f"openai/gpt-{number % 5}",
        cost_usd=cost,
        prompt_tokens=number % 4000,
        completion_tokens=number % 700,
    )
    attempt = AttemptRow(
        request_id=name,
        number=1,
        time=at,
        backend=request.backend,
        role="served",
        outcome="ok",
        ms=request.ms,
        usage_source="reported",
        cost_usd=cost,
        prompt_tokens=number % 4000,
        completion_tokens=number % 700,
    )
    return [request, attempt]


def _size(url: str) -> int:
    """Return the bytes of the database."""
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        return sum(file.stat().st_size for file in Path(path).parent.glob(Path(path).name + "*"))
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        empty = connection.execute("SELECT pg_database_size('template1')").fetchone()
    assert row is not None
    assert empty is not None
    return int(row[0]) - int(empty[0])


async def memory_per_stream(streams: int, folder: Path) -> float:
    """Return KB of the serving process per stream that waits for its next event."""
    async with _silent_provider() as mock, _gateway(mock, folder) as (pid, port):
        for opened in [await _open(port) for _ in range(20)]:
            opened.close()
        before = max(resident_mb(pid))
        held = [await _open(port) for _ in range(streams)]
        after = max(resident_mb(pid))
        for writer in held:
            writer.close()
    return (after - before) * 1024 / streams


async def _open(port: int) -> asyncio.StreamWriter:
    """Send a request and read its first event."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(_BODY)}\r\n\r\n"
    )
    writer.write(head.encode() + _BODY)
    try:
        await reader.readuntil(b"word")
    except asyncio.IncompleteReadError as exc:
        raise SystemExit(f"the gateway answered {exc.partial.decode()}") from exc
    return writer


@asynccontextmanager
async def _silent_provider() -> AsyncGenerator[int, None]:
    """Run a provider that sends one event, and then nothing until the block ends."""
    end = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = [
            int(line.partition(b":")[2])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        ]
        await reader.readexactly(length)
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            + _EVENT
        )
        await end.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    yield int(server.sockets[0].getsockname()[1])
    end.set()
    server.close()


@asynccontextmanager
async def _gateway(mock: int, folder: Path) -> AsyncGenerator[tuple[int, int], None]:
    """Run a gateway; its process and its port."""
    port = free_port()
    file = folder / "config.yaml"
    file.write_text(_CONFIG.format(port=port, mock=mock, folder=folder))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "strowger_gateway.gateway.cli", "serve", "--config", str(file)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        while process.returncode is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                await asyncio.sleep(0.05)
        yield process.pid, port
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    main()
