"""The engine processes: started, watched, started again after a crash, and stopped."""

import asyncio
import logging
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol

import msgspec

from gateway.config.schema import Engine, Lora, Provider
from gateway.engine_process.environment import engine_environment
from gateway.engine_process.log import log_lines
from local_engine.config import EngineConfig, LoraConfig, ModelConfig
from schemas.errors import InvalidConfig

_log = logging.getLogger("strowger")

GRACE_S = 5.0
"""Between SIGTERM and SIGKILL."""

BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0
"""Before a restart; doubled by each crash, and forgotten after STEADY_S of service."""

STEADY_S = 60.0
STDERR_S = 1.0
"""For the last lines of a process that has ended."""
UNSERVABLE = 2
"""The exit status of an engine whose configuration cannot be served: a restart would not help."""

READY = "ready"
"""What a process says when it accepts connections; the end of its status lines."""

FIRST_LOAD_RETRY_S = 2.0
"""For a client that waits while the engine loads for the first time: how long that takes depends on
the model and the machine, so that nobody should wait much beyond it."""

SOCKET_PATH_BYTES = 100
"""Unix allows 107."""

State = Literal["stopped", "loading", "ready", "restarting", "failed"]
"""failed: it has given up, because its configuration cannot be served."""


def engine_settings(provider: Provider, *, engines: int = 1) -> EngineConfig:
    """What the provider's engine process is told. `provider.engine` must be set.

    engines: how many share this machine; `threads: auto` is an even share of its cores, and
             `kv_cache: auto` of what it would be for one.
    """
    engine = provider.engine
    assert engine is not None

    def number(value: int | str | None) -> int | None:
        return value if isinstance(value, int) else None

    return EngineConfig(
        models=tuple(
            ModelConfig(
                name=model.name,
                path=model.path,
                revision=model.revision,
                special_tokens_in_prompts=model.special_tokens_in_prompts,
                task=model.task,
                matryoshka=model.matryoshka,
                token_inputs=model.token_inputs,
            )
            for model in engine.models
        ),
        device=engine.device,
        dtype=engine.dtype,
        threads=number(engine.threads) or max(1, cores() // engines),
        max_seq_len=engine.max_seq_len,
        max_new_tokens=number(engine.max_new_tokens),
        max_step_tokens=number(engine.max_step_tokens),
        max_sequences=engine.max_sequences,
        kv_cache=engine.kv_cache,
        prefix_cache=engine.prefix_cache,
        compile=engine.compile,
        draft_tokens=engine.draft_tokens,
        max_first_token_wait_s=engine.max_first_token_wait_s,
        max_logits_bytes=engine.max_logits_bytes,
        step_timeout_s=engine.step_timeout_s,
        environment=engine.environment,
        engines=engines,
        loras=tuple(_lora(lora, engine) for lora in engine.loras),
        accept_lora=engine.accept_lora,
        max_loras=engine.max_loras,
        max_lora_bytes=engine.max_lora_bytes,
    )


def _lora(lora: Lora, engine: Engine) -> LoraConfig:
    """The only model that generates is the base of those that name none."""
    bases = (model.name for model in engine.models if model.task == "generate")
    return LoraConfig(name=lora.name, path=lora.path, base=lora.base or next(bases, ""))


def cores() -> int:
    """The cores that this process may use, which in a container may be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class EngineView(Protocol):
    """An engine as whoever sends requests to it sees it, in the process that owns it or another.

    state: in one word. status: the last thing it said, a line for people. pid: of the process
    now, `None` between two. uptime_s: of the process now. restarts: after crashes.
    """

    @property
    def name(self) -> str: ...
    @property
    def socket_path(self) -> Path: ...
    @property
    def state(self) -> State: ...
    @property
    def status(self) -> str: ...
    @property
    def restarts(self) -> int: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def uptime_s(self) -> float: ...
    @property
    def ready(self) -> bool: ...
    def ready_in(self) -> float | None:
        """Seconds until it should be ready; `None`: it is not going to be."""
        ...

    def watch(self, hear: Callable[[str], None]) -> None:
        """From now on `hear` gets each new status."""
        ...

    def unwatch(self, hear: Callable[[str], None]) -> None: ...


class EngineProcess:
    """One engine, kept alive from `start` to `stop`; `async with` does both.

    state:    in one word. status: the last thing it said, a line for people.
    pid:      of the process now, `None` between two.
    restarts: how often it was started again after a crash.
    """

    def __init__(
        self,
        name: str,
        settings: EngineConfig,
        run_dir: Path,
        *,
        backoff_s: float = BACKOFF_S,
        generation: int = 0,
        gathers: bool = False,
    ) -> None:
        """run_dir: where the socket is made; another one for each generation.

        gathers: what it writes on stderr becomes messages of the gateway's log, a line each, so
                 that there is one format; otherwise it goes to the gateway's stderr as it is.
        """
        self.name = name
        self.settings = settings
        self.socket_path = _socket_path(run_dir, f"{name}-{generation}" if generation else name)
        self.state: State = "stopped"
        self.status = "not started"
        self.restarts = 0
        self._backoff_s = backoff_s
        self._gathers = gathers
        self._watchers: list[Callable[[str], None]] = []
        self._stopping = False
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._began = 0.0
        self._load_s: float | None = None

    @property
    def ready(self) -> bool:
        """It accepts connections on `socket_path`."""
        return self.state == "ready"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def uptime_s(self) -> float:
        """Of the process now, seconds; 0 between two."""
        if self._process is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._began

    def ready_in(self) -> float | None:
        """Seconds until it should be ready, at least 1, going by how long it took to load before.

        FIRST_LOAD_RETRY_S where it has not loaded before. `None`: it is not going to be.
        """
        if self.state in ("failed", "stopped"):
            return None
        if self._load_s is None:
            return FIRST_LOAD_RETRY_S
        return max(1.0, self._load_s - self.uptime_s)

    async def start(self) -> None:
        """Returns at once; loading goes on. Starting twice is a bug."""
        assert self._watch is None
        self.state = "loading"
        self._watch = asyncio.create_task(self._keep_running(), name=f"engine {self.name}")

    def watch(self, hear: Callable[[str], None]) -> None:
        """See EngineView.watch."""
        self._watchers.append(hear)

    def unwatch(self, hear: Callable[[str], None]) -> None:
        self._watchers.remove(hear)

    async def wait_ready(self) -> bool:
        """True when it is ready, False when it has given up."""
        assert self._watch is not None
        while not self.ready and not self._watch.done():
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait((changed, self._watch), return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        return self.ready

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL after GRACE_S. Stopping twice, or before `start`, is allowed."""
        self._stopping = True
        if self._watch is None:
            return
        process = self._process
        if process is None:
            self._watch.cancel()
        elif process.returncode is None:
            process.terminate()
            await asyncio.wait((self._watch,), timeout=GRACE_S)
            if process.returncode is None:
                process.kill()
        await asyncio.wait((self._watch,))
        self.state = "stopped"
        self._set_status("stopped")

    async def __aenter__(self) -> "EngineProcess":
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _keep_running(self) -> None:
        clock = asyncio.get_running_loop().time
        crashes = 0
        while True:
            began = clock()
            try:
                status = await self._run_once()
                how = _exit_reason(status)
            except OSError as exc:
                status, how = 1, f"cannot be started ({exc})"
            except Exception:  # noqa: BLE001  of a line that it wrote, for instance: it is killed then
                _log.exception("the engine of provider %s cannot be followed", self.name)
                status, how = 1, "ended, because what it said could not be followed"
            if self._stopping:
                return
            if status == UNSERVABLE:
                self.state = "failed"
                self._set_status(f"failed: {self.status}")
                return
            crashes = 1 if clock() - began > STEADY_S else crashes + 1
            pause = min(self._backoff_s * 2.0 ** (crashes - 1), MAX_BACKOFF_S)
            self.state = "restarting"
            self.restarts += 1
            self._set_status(f"{how}; starting again in {pause:g} s")
            await asyncio.sleep(pause)

    async def _run_once(self) -> int:
        """Start it, follow what it says, and return how it ended."""
        clock = asyncio.get_running_loop().time
        self._set_status("starting")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "local_engine", "--socket", str(self.socket_path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE if self._gathers else None,
            env=engine_environment(os.environ, self.settings.environment),
        )
        self._process, self._began = process, clock()
        gathering: asyncio.Task[None] | None = None
        if process.stderr is not None:
            gathering = asyncio.create_task(log_lines(process.stderr, self.name))
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(self.settings) + b"\n")
            async for line in process.stdout:
                word = line.decode(errors="replace").strip()
                if word == READY:
                    self.state, self._load_s = "ready", clock() - self._began
                self._set_status(word)
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            if gathering is not None:
                # A process of the engine's own may hold its stderr for longer.
                await asyncio.wait({gathering}, timeout=STDERR_S)
                gathering.cancel()
            self._process = None

    def _set_status(self, status: str) -> None:
        self.status = status
        self._changed.set()
        for hear in tuple(self._watchers):
            hear(status)


def _socket_path(run_dir: Path, name: str) -> Path:
    path = run_dir / f"engine-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.sock"
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise InvalidConfig(
            (f"the path for sockets, {run_dir}, is too long; set TMPDIR to a shorter one",)
        )
    return path


def _exit_reason(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"ended with status {status}"
