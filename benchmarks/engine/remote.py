"""Latency that TCP with mutual TLS adds to the engine's socket: short chats with a small model.

    python -m benchmarks.engine.remote [--rounds 300]

Two processes have the same model, one on a Unix socket and one on TCP. Requests alternate between
them, one at a time and then eight, so that both see the same machine. The rows are the median and
the 95th percentile of one token and of a whole answer of 16 tokens.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trustme
import uvloop
from msgspec import Struct

from benchmarks.engine.timing import conditions
from strowger_gateway.gateway.backends.engines.link.places import EnginePlace, TcpPlace, UnixPlace
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.local_engine import LocalUpstream
from strowger_gateway.local_engine.config import EngineConfig, ModelConfig
from strowger_gateway.local_engine.process import LISTENING, READY
from strowger_gateway.local_engine.protocol.address import parse_address
from strowger_gateway.local_engine.protocol.mutual_tls import MutualTls, TlsPaths
from strowger_gateway.schemas.events import TextDelta
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling

TOKENS = 16
ASKED = ChatRequest(
    model="m",
    messages=(Message(role="user", content="Count to 50."),),
    sampling=Sampling(temperature=0.0, max_tokens=TOKENS, ignore_eos=True),
)


class Measured(Struct, frozen=True):
    """Seconds of one answer."""

    first: float
    whole: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    print(f"{conditions()}; tiny-chat on one thread, {TOKENS} tokens per answer")
    uvloop.run(_compare(options.rounds))
    return 0


async def _compare(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tls = _certificates(folder)
        async with _engine(folder, None) as socket, _engine(folder, tls) as tcp:
            sides = {"socket": socket, "tcp+mtls": tcp}
            for upstream in sides.values():
                await asyncio.gather(*(_ask(upstream) for _ in range(20)))
            for at_once in (1, 8):
                found: dict[str, list[Measured]] = {side: [] for side in sides}
                for _ in range(max(1, rounds // at_once)):
                    for side, upstream in sides.items():
                        found[side] += await asyncio.gather(
                            *(_ask(upstream) for _ in range(at_once))
                        )
                for side, times in found.items():
                    _row(at_once, side, times)


def _row(at_once: int, side: str, times: Sequence[Measured]) -> None:
    def shown(values: list[float]) -> str:
        cuts = statistics.quantiles(values, n=20)
        return f"p50 {1e3 * statistics.median(values):6.2f} ms, p95 {1e3 * cuts[-1]:6.2f} ms"

    first = shown([one.first for one in times])
    whole = shown([one.whole for one in times])
    print(f"{at_once} at a time  {side:9}  first token {first}   whole {whole}")


async def _ask(upstream: LocalUpstream) -> Measured:
    began = time.perf_counter()
    first = 0.0
    call = Call(model="m", deadline=asyncio.get_running_loop().time() + 60, request_id="r")
    async for batch in upstream.generate(ASKED, call):
        if not first and any(isinstance(event, TextDelta) for event in batch):
            first = time.perf_counter() - began
    return Measured(first, time.perf_counter() - began)


def _certificates(folder: Path) -> TlsPaths:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    paths = TlsPaths(**{name: str(folder / f"{name}.pem") for name in ("cert", "key", "ca")})
    issued.cert_chain_pems[0].write_to_path(paths.cert)
    issued.private_key_pem.write_to_path(paths.key)
    authority.cert_pem.write_to_path(paths.ca)
    return paths


@asynccontextmanager
async def _engine(folder: Path, tls: TlsPaths | None) -> AsyncGenerator[LocalUpstream, None]:
    """A process with the model. tls: on TCP; `None`: on a socket."""
    config = folder / "engine.json"
    model = ModelConfig(name="m", path="bundled:tiny-chat")
    settings = EngineConfig(models=(model,), device="cpu", dtype="float32", threads=1)
    config.write_bytes(msgspec.json.encode(settings))
    path = folder / "engine.sock"
    words = ["--socket", str(path)]
    if tls is not None:
        words = ["--listen", "127.0.0.1:0", "--tls-cert", tls.cert, "--tls-key", tls.key]
        words += ["--tls-ca", tls.ca]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "strowger_gateway.local_engine", "--config", str(config), *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    place: EnginePlace = UnixPlace(path)
    async for line in process.stdout:
        said = line.decode().strip()
        if said.startswith(LISTENING):
            address = parse_address(said.removeprefix(LISTENING))
            place = TcpPlace(address, None if tls is None else MutualTls(tls, server=False))
        if said == READY:
            break
    upstream = LocalUpstream("engine", place)
    try:
        yield upstream
    finally:
        await upstream.aclose()
        process.kill()
        await process.wait()


if __name__ == "__main__":
    sys.exit(main())
