"""Models over remote providers and local engines that behave as their names say.

    async with staged(run_dir, {"hedged": ("never", "fast")}) as stage:
        await stage.ask("hedged", "tokens on a local engine")

A cast is a client's task with the adapters of its model's backends, in order; every cast has a
model of its own for every play, so that nothing is shared.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from msgspec import Struct

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.schemas.errors import UpstreamBusy, UpstreamFailed
from tests.gateway.routing.failures import engine_faults, fault_scenarios
from tests.gateway.routing.failures.engine_stand_in import (
    Asked,
    Conduct,
    StandIns,
    stand_ins,
    works,
)
from tests.gateway.routing.failures.fault_scenarios import TRITON_STREAMS
from tests.gateway.routing.failures.fault_tasks import TASKS, Task
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

LOCAL = "local"
LATE_S = 0.5


class Cast(Struct, frozen=True, kw_only=True):
    """adapters: of the first backend, the second, and so on; the last one's for any more."""

    task: Task
    adapters: tuple[str, ...]


CASTS: Mapping[str, Cast] = {
    **{name: Cast(task=task, adapters=("openai",)) for name, task in TASKS.items() if task.is_text},
    "tokens": Cast(task=TASKS["tokens"], adapters=("mindie",)),
    "tokens-stream": Cast(task=TASKS["tokens-stream"], adapters=("mindie",)),
    "tensors": Cast(task=TASKS["tensors"], adapters=("triton-tokens",)),
    "tensors-stream": Cast(task=TASKS["tensors-stream"], adapters=(TRITON_STREAMS,)),
    **{f"{name}, here": Cast(task=task, adapters=(LOCAL,)) for name, task in TASKS.items()},
    "chat-stream, here then there": Cast(task=TASKS["chat-stream"], adapters=(LOCAL, "openai")),
    "chat, there then here": Cast(task=TASKS["chat"], adapters=("openai", LOCAL)),
    "embedding, there then here": Cast(task=TASKS["embedding"], adapters=("openai", LOCAL)),
    "tokens-stream, here then there": Cast(task=TASKS["tokens-stream"], adapters=(LOCAL, "mindie")),
    "tensors, there then here": Cast(task=TASKS["tensors"], adapters=("triton-tokens", LOCAL)),
}


async def late(request: Received, answer: Answer) -> None:
    await asyncio.sleep(LATE_S)
    await fault_scenarios.fails(500, {}, {})(request, answer)


async def engine_fails_late(asked: Asked) -> None:
    await asyncio.sleep(LATE_S)
    await asked.fail(UpstreamFailed("boom", upstream="engine"))


ROLES: Mapping[str, tuple[Behaviour, Conduct]] = {
    "never": (fault_scenarios.silent, engine_faults.silent),
    "fast": (fault_scenarios.answers, works),
    "half": (fault_scenarios.stalls, engine_faults.stalls),
    "down": (
        fault_scenarios.fails(500, {}, {}),
        engine_faults.fails(UpstreamFailed("boom", upstream="engine")),
    ),
    "late": (late, engine_fails_late),
    "busy": (
        fault_scenarios.fails(503, {}, {"retry-after": "3"}),
        engine_faults.fails(UpstreamBusy("full", upstream="engine", retry_after=3.0)),
    ),
}
"""What a remote provider does, and what an engine does, by the first word of its name."""

PAUSE_S = 0.25
TIRED: tuple[Behaviour, Conduct] = (
    fault_scenarios.fails(503, {}, {"retry-after-ms": str(round(PAUSE_S * 1e3))}),
    engine_faults.fails(UpstreamBusy("full", upstream="engine", retry_after=PAUSE_S)),
)
"""What one whose name begins with `tired` does at first; afterwards it works."""


def _role(name: str, received: int) -> tuple[Behaviour, Conduct]:
    """heard: requests so far, this one included."""
    role = name.split("-")[0]
    if role != "tired":
        return ROLES[role]
    return TIRED if received == 1 else ROLES["fast"]


class Stage(Struct, frozen=True, kw_only=True, eq=False):
    """working: requests that are being answered, by the backend's name."""

    gateway: Serving
    remote: Provider
    engines: StandIns
    working: Counter[str]
    received: Counter[str]

    async def ask(self, play: str, cast: str) -> httpx.Response:
        return await CASTS[cast].task.ask(self.gateway.url, model_of(play, cast))

    async def ask_all(self, play: str, casts: Iterable[str] = CASTS) -> dict[str, httpx.Response]:
        """Of every cast at once."""
        names = tuple(casts)
        found = await asyncio.gather(*(self.ask(play, one) for one in names))
        return dict(zip(names, found, strict=True))

    def line(self, play: str, cast: str) -> AccessLine:
        """What the log says of the last request."""
        wanted = model_of(play, cast)
        return [one for one in self.gateway.access_lines() if one.model == wanted][-1]

    async def rest(self, role: str, seconds: float = 60.0) -> None:
        """Wait until no backend of this role is working."""
        async with asyncio.timeout(seconds):
            while any(count for name, count in self.working.items() if name.startswith(role)):  # noqa: ASYNC110  two kinds of servers would have to signal it
                await asyncio.sleep(0.005)


def model_of(play: str, cast: str) -> str:
    return f"{play}-{cast}".replace(",", "").replace(" ", "-")


def config(url: str, plays: Mapping[str, Sequence[str]], more: Mapping[str, str]) -> str:
    providers, models = ["providers:"], ["models:"]
    for play, roles in plays.items():
        for name, cast in CASTS.items():
            model, backends = model_of(play, name), list[str]()
            for place, role in enumerate(roles):
                adapter = cast.adapters[min(place, len(cast.adapters) - 1)]
                owner = f"{role}-{place}-{model}"
                providers.append(f"  - {{name: {owner}, {_provider(adapter, owner, url)}}}")
                backends.append(f"{{provider: {owner}, model: {owner}}}")
            extra = more.get(play, "").replace("MODEL", model)
            models.append(
                f"  - {{name: {model}, policy: in_order, {extra}\n"
                f"     backends: [{', '.join(backends)}]}}"
            )
    return "\n".join([*providers, *models])


def _provider(adapter: str, name: str, url: str) -> str:
    """Its name is the beginning of its paths, or the name of the engine's model."""
    if adapter == LOCAL:
        models = f'[{{name: {name}, path: "bundled:tiny-chat"}}]'
        return f"adapter: local, engine: {{models: {models}}}"
    prefix = "/v1" if adapter == "openai" else ""
    return f"adapter: {adapter}, base_url: {url}/{name}{prefix}, api_key: k"


@asynccontextmanager
async def staged(
    run_dir: Path,
    plays: Mapping[str, Sequence[str]],
    more: Mapping[str, str] | None = None,
    beside: str = "",
) -> AsyncGenerator[Stage, None]:
    """plays: the roles of each one's backends. beside: other sections of the configuration.

    more: of a play's models; MODEL in it is the model's own name.
    """
    working: Counter[str] = Counter()
    received: Counter[str] = Counter()

    async def behave(request: Received, answer: Answer) -> None:
        name = request.path.split("/")[1]
        received[name] += 1
        working[name] += 1
        try:
            await _role(name, received[name])[0](request, answer)
        finally:
            working[name] -= 1

    async def conduct(asked: Asked) -> None:
        received[asked.model] += 1
        working[asked.model] += 1
        try:
            await _role(asked.model, received[asked.model])[1](asked)
        finally:
            working[asked.model] -= 1

    async with stand_ins(run_dir, conduct) as engines, provider(behave) as remote:
        text = config(remote.origin, plays, more or {}) + beside
        async with serving(text, run_dir, engine=engines) as gateway:
            yield Stage(
                gateway=gateway, remote=remote, engines=engines, working=working, received=received
            )
