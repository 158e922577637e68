"""Send chat requests to a gateway at a fixed concurrency, and report rates, latencies and errors.

    python docs/examples/load-test/load.py --url http://127.0.0.1:8080 --model chat --concurrency 32

Closed loop: each client sends its next request when the answer to the last one is complete. The
first tenth of the time is warm-up and not counted. Exits with 1 if a request failed.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack

import httpx
from msgspec import Struct


class Options(argparse.Namespace):
    """The command line."""

    url: str
    key: str
    model: str
    prompt: str
    max_tokens: int
    concurrency: int
    seconds: float
    stream: bool


class Done(Struct, frozen=True, kw_only=True):
    """One request. Seconds; outcome: "ok", a status, or the name of an exception."""

    at: float
    first_s: float
    total_s: float
    outcome: str


def options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="without /v1")
    parser.add_argument("--key", default=os.environ.get("OPENAI_API_KEY", "none"))
    parser.add_argument("--model", default="chat")
    parser.add_argument("--prompt", default="What is 17 + 25?")
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--stream", action="store_true")
    return parser.parse_args(arguments, Options())


async def send(client: httpx.AsyncClient, given: Options) -> Done:
    """Send one request and read its answer to the end."""
    body = {
        "model": given.model,
        "messages": [{"role": "user", "content": given.prompt}],
        "max_tokens": given.max_tokens,
        "stream": given.stream,
    }
    began = first = time.perf_counter()
    outcome, ended = "ok", not given.stream
    try:
        async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            async for part in answer.aiter_bytes():
                first = first if first > began else time.perf_counter()
                ended = ended or b"data: [DONE]" in part
        if answer.status_code != 200:
            outcome = str(answer.status_code)
        elif not ended:
            outcome = "broken stream"
    except httpx.HTTPError as exc:
        outcome = type(exc).__name__
    now = time.perf_counter()
    return Done(at=now, first_s=first - began, total_s=now - began, outcome=outcome)


async def load(given: Options) -> list[Done]:
    """Keep `concurrency` requests in flight; return those that ended after the warm-up."""
    found: list[Done] = []
    began = time.perf_counter()

    async def one_client(client: httpx.AsyncClient) -> None:
        while time.perf_counter() - began < given.seconds:
            found.append(await send(client, given))

    async with AsyncExitStack() as stack:
        headers = {"authorization": f"Bearer {given.key}"}
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=given.url, headers=headers, timeout=600)
            )
            for _ in range(given.concurrency)
        ]
        await asyncio.gather(*map(one_client, clients))
    return [one for one in found if one.at - began >= given.seconds / 10]


def percentile(sorted_s: Sequence[float], share: float) -> str:
    """In milliseconds, nearest rank."""
    place = min(len(sorted_s) - 1, int(share * len(sorted_s)))
    return f"{sorted_s[place] * 1e3:.1f} ms"


def report(found: Sequence[Done], given: Options) -> str:
    """Return the text that is printed."""
    outcomes = Counter(one.outcome for one in found)
    ok = [one for one in found if one.outcome == "ok"]
    lines = [f"{outcomes['ok'] / (given.seconds * 0.9):.1f} requests/s, {len(found)} in all"]
    lines += [f"{count} x {outcome}" for outcome, count in outcomes.items() if outcome != "ok"]
    for name, values in (
        ("first byte", sorted(one.first_s for one in ok)),
        ("whole answer", sorted(one.total_s for one in ok)),
    ):
        if values:
            shares = (f"p{share:g} {percentile(values, share / 100)}" for share in (50, 90, 99))
            lines.append(f"{name}: {', '.join(shares)}")
    return "\n".join(lines)


def main() -> int:
    """Return the exit status."""
    given = options()
    found = asyncio.run(load(given))
    print(report(found, given))
    return int(not found or any(one.outcome != "ok" for one in found))


if __name__ == "__main__":
    sys.exit(main())
