"""A gateway whose vendors' names and addresses fail.

`python -m tests.gateway.platform.names.outage CASE SECONDS CONNECT_S` needs a network of its own,
because only there the system's resolver asks a DNS server of the test, and an address can swallow
packets: `isolated` runs it there. The result is JSON on stdout.
"""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import httpx
import msgspec
from msgspec import Struct

from tests.gateway.backends.discovery.dns_server import DnsServer, running_dns
from tests.gateway.commanded import commanded
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, chat_body, provider

ISOLATION = ("unshare", "--map-root-user", "--net", "--mount", "--fork", "--kill-child")
CHAT = "/v1/chat/completions"
DEAD, GONE, FINE = "api.dead.test.", "api.gone.test.", "api.fine.test."
VANISHING = "10.9.9.9"
"""An address that can become a black hole."""

CONFIG = """
server: {host: 127.0.0.1, port: 0}
providers:
  - name: dead
    adapter: openai
    base_url: "http://api.dead.test:%(dead)s/v1"
    api_key: k
    timeouts: {connect_s: %(connect_s)s}
  - {name: gone, adapter: openai, base_url: "http://api.gone.test:%(gone)s/v1", api_key: k}
  - name: mute
    adapter: openai
    base_url: "https://127.0.0.4:%(mute)s/v1"
    api_key: k
    tls: {verify: false}
    timeouts: {connect_s: %(connect_s)s}
  - {name: fine, adapter: openai, base_url: "http://api.fine.test:%(fine)s/v1", api_key: k}
  - {name: b, adapter: openai, base_url: "http://b.hosts.test:%(b)s/v1", api_key: k}
models:
  - {name: bad, backends: [{provider: dead, model: m}, {provider: b, model: m}], policy: in_order}
  - {name: moved, backends: [{provider: gone, model: m}, {provider: b, model: m}], policy: in_order}
  - {name: slow, backends: [{provider: mute, model: m}, {provider: b, model: m}], policy: in_order}
  - {name: other, backends: [{provider: fine, model: m}]}
"""


class Reply(Struct, frozen=True, kw_only=True):
    """One answer: model asked for, status, text (the backend's name), and seconds it took."""

    model: str
    status: int
    text: str
    seconds: float
    stream: bool = False


class Result(Struct, frozen=True, kw_only=True):
    """The answers, by phase, and the warnings of the gateway's log."""

    replies: dict[str, list[Reply]]
    log: list[str]


@cache
def isolation_missing() -> str:
    """Return why no network of one's own can be had; "" if it can."""
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "ip or unshare is not installed"
    script = (
        "ip link set lo up && mount --bind /etc/hosts /etc/hosts"
        " && ip link add hole type veth peer name end"
    )
    command = (*ISOLATION, "sh", "-c", script)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def isolated(case: str, seconds: float, connect_s: float = 5.0) -> Result:
    """Run a case in a network of its own. connect_s: of the vendor whose DNS fails."""
    options = (case, str(seconds), str(connect_s))
    command = (*ISOLATION, sys.executable, "-m", __name__, *options)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=seconds * 4 + 240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return msgspec.json.decode(done.stdout, type=Result)


def answering(text: str, *, close: bool = False, after_s: float = 0.0) -> Behaviour:
    """Answer. close: and end the connection, so that the next request needs another."""

    async def behaviour(request: Received, answer: Answer) -> None:
        await asyncio.sleep(after_s)
        if request.json.get("stream"):
            await answer.stream(text)
        else:
            headers = {"connection": "close"} if close else None
            await answer.json(chat_body(text), headers=headers)
        if close:
            answer.close()

    return behaviour


class Load:
    """Requests at a fixed rate, whatever becomes of those before."""

    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(base_url=url, timeout=240, limits=limits, trust_env=False)

    async def burst(
        self, model: str, count: int, *, stream: bool = False, after_s: float = 0.0
    ) -> list[Reply]:
        await asyncio.sleep(after_s)
        return list(await asyncio.gather(*[self._ask(model, stream=stream) for _ in range(count)]))

    async def steady(self, model: str, rate: float, seconds: float) -> list[Reply]:
        tasks: list[asyncio.Task[Reply]] = []
        for _ in range(round(rate * seconds)):
            tasks.append(asyncio.create_task(self._ask(model)))
            await asyncio.sleep(1 / rate)
        return list(await asyncio.gather(*tasks))

    async def close(self) -> None:
        await self._client.aclose()

    async def _ask(self, model: str, *, stream: bool = False) -> Reply:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "hi"}],
            "stream": stream,
        }
        begun = time.monotonic()
        answer = await self._client.post(CHAT, json=body)
        seconds = time.monotonic() - begun
        return Reply(
            model=model,
            status=answer.status_code,
            text=_text(answer, stream=stream),
            seconds=seconds,
            stream=stream,
        )


class Vendors(Struct, kw_only=True, eq=False):
    """The providers, by name, their DNS server, and the port of one that only accepts."""

    by_name: dict[str, Provider]
    dns: DnsServer
    mute: int


@asynccontextmanager
async def vendors() -> AsyncGenerator[Vendors]:
    with running_dns(53) as server:
        server.records = {
            (DEAD, "A"): ["127.0.0.2"],
            (GONE, "A"): [VANISHING],
            (FINE, "A"): ["127.0.0.3"],
        }
        async with (
            provider(answering("dead", close=True), "127.0.0.2") as dead,
            provider(answering("gone"), VANISHING) as gone,
            provider(answering("fine", close=True), "127.0.0.3") as fine,
            provider(answering("b")) as b,
        ):
            with socket.create_server(("127.0.0.4", 0), backlog=1024) as mute:
                yield Vendors(
                    by_name={"dead": dead, "gone": gone, "fine": fine, "b": b},
                    dns=server,
                    mute=mute.getsockname()[1],
                )


async def silent_dns(found: Vendors, load: Load, seconds: float) -> dict[str, list[Reply]]:
    """The DNS server of one vendor, which was never looked up before, does not answer."""
    found.dns.silent.add(DEAD)
    return await _dns_outage(load, seconds)


async def slow_dns(found: Vendors, load: Load, seconds: float) -> dict[str, list[Reply]]:
    """It answers SERVFAIL after three seconds."""
    found.dns.failing[DEAD] = 3.0
    return await _dns_outage(load, seconds)


async def failing_dns(found: Vendors, load: Load, seconds: float) -> dict[str, list[Reply]]:
    """It answers SERVFAIL, for a name that was looked up before."""
    before = await load.burst("bad", 1)
    found.dns.failing[DEAD] = 0.0
    await asyncio.sleep(6.0)
    return {"before": before, **await _dns_outage(load, seconds)}


async def hanging_tls(_: Vendors, load: Load, seconds: float) -> dict[str, list[Reply]]:
    """A vendor accepts connections, and never answers a handshake."""
    return {"hanging": await load.steady("slow", 2, seconds)}


async def moved(found: Vendors, load: Load, seconds: float) -> dict[str, list[Reply]]:
    """The name of pooled connections moves to another address; the old one swallows packets."""
    before = await load.burst("moved", 20)
    gone = found.by_name["gone"]
    async with provider(answering("moved"), "127.0.0.5", gone.port):
        found.dns.records[GONE, "A"] = ["127.0.0.5"]
        _vanish()
        plain, streamed, later = await asyncio.gather(
            load.burst("moved", 6),
            load.burst("moved", 6, stream=True),
            load.burst("moved", 30, after_s=6.0),
        )
    return {"before": before, "plain": plain, "streamed": streamed, "later": later}


async def black_hole(found: Vendors, load: Load, seconds: float) -> dict[str, list[Reply]]:
    """The address of pooled connections swallows packets; the DNS has another one."""
    before = await load.burst("moved", 20)
    _vanish()
    plain, streamed, later = await asyncio.gather(
        load.burst("moved", 6),
        load.burst("moved", 6, stream=True),
        load.burst("moved", 30, after_s=5.0),
    )
    return {"before": before, "plain": plain, "streamed": streamed, "later": later}


async def _dns_outage(load: Load, seconds: float) -> dict[str, list[Reply]]:
    bad, other = await asyncio.gather(
        load.steady("bad", 5, seconds), load.steady("other", 2, seconds)
    )
    return {"bad": bad, "other": other, "number": await load.burst("moved", 5)}


async def thinking(found: Vendors, load: Load, seconds: float) -> dict[str, list[Reply]]:
    """A backend thinks while its network fails: first for a moment, then for good."""
    found.by_name["gone"].behaviour = answering("gone", after_s=20.0)
    blip, _ = await asyncio.gather(load.burst("moved", 3), _away(12.0))
    found.by_name["gone"].behaviour = answering("gone", after_s=1000.0)
    lost, _ = await asyncio.gather(load.burst("moved", 3), _away(None))
    return {"blip": blip, "lost": lost}


async def _away(seconds: float | None) -> None:
    await asyncio.sleep(2.0)
    _vanish()
    if seconds is not None:
        await asyncio.sleep(seconds)
        _run("ip", "route", "del", VANISHING, "dev", "hole")
        _run("ip", "addr", "add", f"{VANISHING}/32", "dev", "lo")


CASES = {
    "silent_dns": silent_dns,
    "slow_dns": slow_dns,
    "failing_dns": failing_dns,
    "black_hole": black_hole,
    "hanging_tls": hanging_tls,
    "moved": moved,
    "thinking": thinking,
}


async def main(case: str, seconds: float, connect_s: float) -> Result:
    """In a network of its own."""
    _prepare()
    with tempfile.TemporaryDirectory() as folder:
        async with vendors() as found:
            ports = {name: one.port for name, one in found.by_name.items()}
            text = CONFIG % {**ports, "mute": found.mute, "connect_s": connect_s}
            async with commanded(Path(folder) / "config.yaml", text) as up:
                load = Load(up.url)
                replies = await CASES[case](found, load, seconds)
                await load.close()
                return Result(replies=replies, log=list(up.lines))


def _text(answer: httpx.Response, *, stream: bool) -> str:
    """Return the text of an answer, or its first bytes."""
    if answer.status_code != 200:
        return answer.text[:300]
    if not stream:
        return str(answer.json()["choices"][0]["message"]["content"])
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if "content" in line]
    deltas = [json.loads(line)["choices"] for line in lines]
    return "".join(one[0]["delta"].get("content") or "" for one in deltas if one)


def _prepare() -> None:
    """Give the system's resolver our DNS server and hosts, and the machine its addresses."""
    folder = Path(tempfile.mkdtemp())
    texts = {
        "resolv.conf": "nameserver 127.0.0.1",
        "hosts": "127.0.0.1 localhost b.hosts.test",
        "nsswitch.conf": "hosts: files dns",  # a plug-in may ask a server of the machine's
    }
    for name, text in texts.items():
        if not Path("/etc", name).exists():
            continue
        (folder / name).write_text(f"{text}\n")
        _run("mount", "--bind", str(folder / name), f"/etc/{name}")
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "addr", "add", f"{VANISHING}/32", "dev", "lo")
    # A cable whose other end nothing reads: packets disappear without an error.
    _run("ip", "link", "add", "hole", "type", "veth", "peer", "name", "end")
    for name in ("hole", "end"):
        _run("ip", "link", "set", name, "arp", "off", "up")
    _run("ip", "addr", "add", "10.8.8.8/24", "dev", "hole")


def _vanish() -> None:
    _run("ip", "addr", "del", f"{VANISHING}/32", "dev", "lo")
    _run("ip", "route", "add", VANISHING, "dev", "hole")


def _run(*words: str) -> None:
    subprocess.run(words, check=True)


if __name__ == "__main__":
    result = asyncio.run(main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
    sys.stdout.write(msgspec.json.encode(result).decode())
