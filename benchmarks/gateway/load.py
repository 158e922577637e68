"""The load: wrk for throughput and latency, and a client that times first tokens."""

import asyncio
import json
import re
import statistics
import subprocess
import time
from pathlib import Path

import uvloop
from msgspec import Struct

from benchmarks.gateway.contenders import KEY, LOAD_CORE

_PROMPT = "Explain in one paragraph why the sky is blue, for a child of ten. " * 18


class Run(Struct, frozen=True, kw_only=True):
    """requests: answered with 200. p50_us: median latency, microseconds."""

    requests: int
    p50_us: float


def body(*, stream: bool) -> bytes:
    """About 1.5 KB, two messages."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": _PROMPT},
    ]
    return json.dumps(
        {
            "model": "stream" if stream else "chat",
            "messages": messages,
            "temperature": 0.5,
            "stream": stream,
        },
        separators=(",", ":"),
    ).encode()


def wrk(folder: Path, port: int, *, connections: int, seconds: float, stream: bool) -> Run:
    """Raises RuntimeError if any answer is not a success."""
    script = folder / f"post-{stream}.lua"
    script.write_text(
        'wrk.method = "POST"\n'
        f"wrk.body = [==[{body(stream=stream).decode()}]==]\n"
        'wrk.headers["content-type"] = "application/json"\n'
        f'wrk.headers["authorization"] = "Bearer {KEY}"\n'
        f'wrk.headers["x-bench"] = "{"stream" if stream else "whole"}"\n'
    )
    command = [
        *("taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s"),
        *("--latency", "--timeout", "30s", "-s", str(script)),
        f"http://127.0.0.1:{port}/v1/chat/completions",
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(text)
    requests = re.search(r"(\d+) requests in", text)
    median = re.search(r"50%\s+([\d.]+)(us|ms|s)", text)
    if requests is None or median is None:
        raise RuntimeError(text)
    scale = {"us": 1.0, "ms": 1e3, "s": 1e6}[median[2]]
    return Run(requests=int(requests[1]), p50_us=float(median[1]) * scale)


def first_token_ms(port: int, streams: int) -> float:
    """Median milliseconds from sending to the first event, with `streams` concurrent streams."""
    return uvloop.run(_first_tokens(port, streams))


async def _first_tokens(port: int, streams: int) -> float:
    times: list[float] = []
    for _ in range(4):
        times += await asyncio.gather(*(_one_stream(port, n / streams) for n in range(streams)))
    return statistics.median(times) * 1e3


async def _one_stream(port: int, delay: float) -> float:
    await asyncio.sleep(delay * 0.5)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    payload = body(stream=True)
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {KEY}\r\nx-bench: stream\r\ncontent-length: {len(payload)}\r\n\r\n"
    )
    started = time.perf_counter()
    writer.write(head.encode() + payload)
    await reader.readuntil(b"data: ")
    first = time.perf_counter() - started
    await reader.readuntil(b"[DONE]")
    writer.close()
    return first
