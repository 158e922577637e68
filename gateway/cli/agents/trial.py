"""One real request through the gateway, in an agent's own API, and what its answer means."""

import asyncio
import os
import time
import urllib.request
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.cli.address import Address
from strowger_gateway.gateway.cli.agents.tools.tool import Dialect
from strowger_gateway.gateway.cli.config_loading import Faults
from strowger_gateway.gateway.cli.http_client import CONNECT_S, Site, error_text, upstream_faults

ANSWER_S: Final = 120.0
"""Seconds for a whole answer of a few words; models that think take long."""

LARGEST: Final = 1024 * 1024
QUESTION: Final = "Reply with the word OK."
MOST: Final = 512
"""Tokens of the answer, thoughts included."""


class TrialAnswer(Struct, frozen=True, kw_only=True):
    """prompt, answer: tokens. backend: PROVIDER/MODEL, as the gateway's header has it."""

    path: str
    ms: int
    prompt: int
    answer: int
    backend: str


class _Usage(Struct, rename="camel"):
    """The names of three APIs; those with underscores are given below."""

    prompt_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0
    input: int = msgspec.field(default=0, name="input_tokens")
    output: int = msgspec.field(default=0, name="output_tokens")
    prompt: int = msgspec.field(default=0, name="prompt_tokens")
    completion: int = msgspec.field(default=0, name="completion_tokens")


class _Answer(Struct):
    usage: _Usage | None = None
    metadata: _Usage | None = msgspec.field(default=None, name="usageMetadata")


def _turn(**more: object) -> Mapping[str, object]:
    return {"messages": [{"role": "user", "content": QUESTION}], **more}


def _request(dialect: Dialect, model: str) -> tuple[str, bytes]:
    body: Mapping[str, object]
    match dialect:
        case "messages":
            path, body = "/v1/messages", _turn(model=model, max_tokens=MOST)
        case "responses":
            path = "/v1/responses"
            body = {"model": model, "input": QUESTION, "max_output_tokens": MOST, "store": False}
        case "chat":
            path, body = "/v1/chat/completions", _turn(model=model, max_tokens=MOST)
        case "gemini":
            path = f"/v1beta/models/{quote(model, safe='')}:generateContent"
            body = {
                "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
                "generationConfig": {"maxOutputTokens": MOST},
            }
    return path, msgspec.json.encode(body)


def ask(address: Address, dialect: Dialect, model: str, key: str) -> TrialAnswer:
    """Ask a model for a word. Raises Faults with a remedy."""
    return asyncio.run(_ask(address, dialect, model, key))


async def _ask(address: Address, dialect: Dialect, model: str, key: str) -> TrialAnswer:
    site = Site(address)
    path, body = _request(dialect, model)
    outbound = site.outbound(path, key=key, body=body)
    clock = asyncio.get_running_loop().time
    begun = time.perf_counter()
    try:
        with upstream_faults(site.url):
            reply = await site.transport.exchange(
                outbound, connect_by=clock() + CONNECT_S, head_by=clock() + ANSWER_S
            )
            try:
                data = await reply.body(clock() + ANSWER_S, LARGEST)
            finally:
                await reply.aclose()
    finally:
        await site.transport.aclose()
    ms = round((time.perf_counter() - begun) * 1000)
    if reply.status != 200:
        text = error_text(reply.status, data)
        raise Faults((f"POST {site.url}{path}: {text}{_remedy(reply.status)}",))
    try:
        found = msgspec.json.decode(data, type=_Answer)
    except msgspec.DecodeError as exc:
        raise Faults((f"POST {site.url}{path}: the answer cannot be read: {exc}",)) from exc
    usage = found.usage or found.metadata or _Usage()
    return TrialAnswer(
        path=path,
        ms=ms,
        prompt=usage.input + usage.prompt + usage.prompt_token_count,
        answer=usage.output
        + usage.completion
        + usage.candidates_token_count
        + usage.thoughts_token_count,
        backend=reply.headers.get("x-gateway-backend", ""),
    )


def _remedy(status: int) -> str:
    match status:
        case 401:
            return "; give --key or STROWGER_API_KEY, or --issue where the gateway runs"
        case 403:
            return "; ask the operator for a key that may use the model"
        case 429:
            return "; the key works, and its limit or budget is reached"
        case _:
            return ""


def proxy_hint(url: str) -> str:
    """Return what a proxy in the environment does to agents; "" if they reach the gateway."""
    parts = urlsplit(url)
    proxy = urllib.request.getproxies_environment().get(parts.scheme, "")
    host = parts.hostname or ""
    if not proxy or urllib.request.proxy_bypass(host):
        return ""
    shown = urlsplit(proxy)
    if shown.username is not None:  # with a password, maybe
        proxy = shown._replace(netloc=shown.netloc.rpartition("@")[2]).geturl()
    before = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    listed = f"{before},{host}" if before else host
    return (
        f"agents send through the proxy {proxy}, this check does not; for the gateway alone: "
        f"`export NO_PROXY={listed}`"
    )
