"""A gateway over HTTP whose backends are simulated: attempts end at the times of a test's clock."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.routing.backend_events.process_side import BackendEventsSide
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.schemas.errors import GatewayError, UpstreamFailed
from tests.gateway.serving import Serving, serving

KEY = "key-of-the-operator"
BEGUN = 1_800_000_000.0
"""Unix seconds at the beginning."""

BOOM = UpstreamFailed("the server is on fire", upstream="p")
CONFIG = """
auth: {admin_key: key-of-the-operator}
providers:
  - {name: p, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}
  - {name: q, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}
models:
  - {name: chat, backends: [{provider: p, model: m}]}
  - {name: pair, fallback: [chat], backends: [{provider: p, model: m}, {provider: q, model: m}]}
  - {name: "any/*", backends: [{provider: q, model: "*"}]}
"""


class Clock:
    """Monotonic seconds, and the Unix time that goes with them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wall(self) -> float:
        return BEGUN + self.now - 1000.0


class Simulated:
    """The gateway, its clock, and a client with the operator's key."""

    def __init__(self, up: Serving, clock: Clock, client: httpx.AsyncClient, run_dir: Path) -> None:
        self.up, self.clock, self.client = up, clock, client
        self._run_dir = run_dir

    def breaker(self, key: str, name: str = "") -> Breaker:
        """key: `MODEL: PROVIDER/MODEL`. name: the requested one, of a wildcard."""
        backend = self.up.state.runtime.backends[key]
        return backend.breakers.of(name) if name else backend.breaker

    def attempt(self, key: str, *, ok: bool, name: str = "", error: GatewayError = BOOM) -> bool:
        """An attempt, as routing makes it: not while the backend asks for a pause.

        False if none was made.
        """
        breaker, at = self.breaker(key, name), self.clock.now
        if breaker.last_resort_in(at) > 0:
            return False
        probe = breaker.begin(at)
        if ok:
            if probe or breaker.unsettled:
                breaker.succeed(at, probe=probe)
            else:
                breaker.outcomes.add(at)
            return True
        breaker.failing_on = error, None
        breaker.fail(at, probe=probe)
        breaker.failing_on = None
        return True

    def reload(self, config: str) -> None:
        """Put another configuration into effect, as a reload does."""
        state = self.up.state
        settings = read_config(config, source="config.yaml", env={})
        state.use_runtime(Runtime(settings, run_dir=self._run_dir, before=state.runtime))

    async def metrics(self) -> str:
        return (await self.client.get("/metrics")).text

    async def gauge(self, key: str) -> float:
        model, _, backend = key.partition(": ")
        labels = f'{{backend="{backend}",model="{model}"}}'
        (line,) = [
            line
            for line in (await self.metrics()).splitlines()
            if line.startswith(f"strowger_backend_available{labels}")
        ]
        return float(line.split()[-1])

    async def page(self) -> str:
        return (await self.client.get("/admin/live")).text

    async def band(self) -> str:
        """What the page has at its top."""
        return (await self.page()).partition('id="problems"')[2].partition("</section>")[0]

    async def events(self, **wanted: str) -> list[dict[str, object]]:
        """Oldest first."""
        answer = await self.client.get("/admin/events", params=wanted)
        assert answer.status_code == 200, answer.text
        return list(reversed(answer.json()["events"]))

    async def kinds(self, **wanted: str) -> list[str]:
        return [str(one["kind"]) for one in await self.events(**wanted)]


@asynccontextmanager
async def simulated(run_dir: Path, config: str = CONFIG) -> AsyncGenerator[Simulated]:
    clock = Clock()

    def equip(gateway: Gateway) -> None:
        watch = gateway.side(BackendEventsSide).watch
        gateway.processes.clock = watch.clock = clock
        watch.wall = clock.wall

    async with (
        serving(config, run_dir, equip=equip) as up,
        httpx.AsyncClient(
            base_url=up.url, headers={"authorization": f"Bearer {KEY}"}, timeout=60
        ) as client,
    ):
        yield Simulated(up, clock, client, run_dir)
