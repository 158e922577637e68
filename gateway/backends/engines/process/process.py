"""Start an engine process, follow its status, restart it after a crash, and stop it."""

import asyncio
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol

import msgspec

from strowger_gateway.gateway.backends.engines.process.environment import engine_environment
from strowger_gateway.gateway.backends.engines.process.log import log_lines
from strowger_gateway.gateway.config.schema.config import Engine, Lora, Provider
from strowger_gateway.local_engine.child_process.interpreter import module_command
from strowger_gateway.local_engine.config import EngineConfig, LoraConfig, ModelConfig
from strowger_gateway.schemas.errors import InvalidConfig

_log = logging.getLogger("strowger")

GRACE_S = 5.0
"""Delay between SIGTERM and SIGKILL, seconds."""

BACKOFF_S, MAX_BACKOFF_S = 0.5, 30.0
"""Delay before a restart; doubled by each crash, reset after STEADY_S of service."""

STEADY_S = 60.0
STDERR_S = 1.0
"""Timeout for the last lines of a process that has exited."""

UNSERVABLE = 2
"""The exit status of an engine whose configuration cannot be served: a restart would not help."""

READY = "ready"
"""The status line of a process that accepts connections; the last of its start."""

FIRST_LOAD_RETRY_S = 2.0
"""Retry-after while the engine loads for the first time: the duration depends on the model and the
machine, so clients should not wait much longer than needed."""

SOCKET_PATH_BYTES = 100
"""Maximum length of a socket's path; Unix allows 107."""

State = Literal["stopped", "loading", "ready", "restarting", "failed", "unreachable"]
"""failed: no restart is attempted, because the configuration cannot be served. unreachable: it is
on another machine and does not answer."""


def engine_settings(provider: Provider, *, engines: int = 1) -> EngineConfig:
    """Build the settings that the provider's engine process gets. `provider.engine` must be set.

    engines: how many share this machine; `threads: auto` is an even share of its cores, and
             `kv_cache: auto` an even share of what a single engine would take.
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
                tool_calls=model.tool_calls,
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
        graphs=engine.graphs,
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
    """Without a named base, the only model that generates is the base."""
    bases = (model.name for model in engine.models if model.task == "generate")
    return LoraConfig(name=lora.name, path=lora.path, base=lora.base or next(bases, ""))


def cores() -> int:
    """Return the cores that this process may use; a container may have fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class EngineView(Protocol):
    """An engine as seen by the senders of requests, in the process that owns it or another.

    state:    in one word. status: its last status line, for people.
    pid:      of the current process, `None` between two. uptime_s: of the current process.
    restarts: after crashes.
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
        """Return the expected seconds until it is ready; `None`: it will not be."""
        ...

    def watch(self, on_status: Callable[[str], None]) -> None:
        """Call `on_status` with each new status from now on."""
        ...

    def unwatch(self, on_status: Callable[[str], None]) -> None: ...


class EngineProcess:
    """One engine, kept alive from `start` to `stop`; `async with` does both.

    state:    in one word. status: its last status line, for people.
    pid:      of the current process, `None` between two.
    restarts: the number of restarts after a crash.
    """

    def __init__(
        self,
        name: str,
        settings: EngineConfig,
        run_dir: Path,
        *,
        backoff_s: float = BACKOFF_S,
        generation: int = 0,
        log_stderr: bool = False,
    ) -> None:
        """run_dir: the folder of the socket; each generation has its own socket.

        log_stderr: log each line of its stderr as a message of the gateway's log, in the same
                    format; otherwise its stderr is the gateway's.
        """
        self.name = name
        self.settings = settings
        self.socket_path = _socket_path(run_dir, f"{name}-{generation}" if generation else name)
        self.state: State = "stopped"
        self.status = "not started"
        self.restarts = 0
        self._backoff_s = backoff_s
        self._log_stderr = log_stderr
        self._watchers: list[Callable[[str], None]] = []
        self._stopping = False
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._began = 0.0
        self._load_s: float | None = None

    @property
    def ready(self) -> bool:
        """True if it accepts connections on `socket_path`."""
        return self.state == "ready"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def uptime_s(self) -> float:
        """Uptime of the current process, seconds; 0 between two."""
        if self._process is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._began

    def ready_in(self) -> float | None:
        """Return the expected seconds until it is ready, at least 1, from its last load time.

        FIRST_LOAD_RETRY_S if it has not loaded before. `None`: it will not be ready.
        """
        if self.state in ("failed", "stopped"):
            return None
        if self._load_s is None:
            return FIRST_LOAD_RETRY_S
        return max(1.0, self._load_s - self.uptime_s)

    async def start(self) -> None:
        """Start loading and return immediately. Starting twice is a bug."""
        assert self._watch is None
        self.state = "loading"
        self._watch = asyncio.create_task(self._keep_running(), name=f"engine {self.name}")

    def watch(self, on_status: Callable[[str], None]) -> None:
        """See EngineView.watch."""
        self._watchers.append(on_status)

    def unwatch(self, on_status: Callable[[str], None]) -> None:
        self._watchers.remove(on_status)

    async def wait_ready(self) -> bool:
        """Wait until it is ready; False if it has failed for good."""
        assert self._watch is not None
        while not self.ready and not self._watch.done():
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait((changed, self._watch), return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
        return self.ready

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after GRACE_S. Allowed twice, and before `start`."""
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
            except Exception:  # noqa: BLE001  for instance an unreadable line; the process is killed then
                _log.exception("internal error while following the engine of %s", self.name)
                status, how = 1, "stopped after an internal error in the gateway"
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
            self._set_status(f"{how}; restarting in {pause:g} s")
            await asyncio.sleep(pause)

    async def _run_once(self) -> int:
        """Start the process and follow its status lines; return its exit status."""
        clock = asyncio.get_running_loop().time
        self._set_status("starting")
        process = await asyncio.create_subprocess_exec(
            *module_command("strowger_gateway.local_engine"),
            *("--socket", str(self.socket_path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE if self._log_stderr else None,
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
                # A child process of the engine may keep stderr open for longer.
                await asyncio.wait({gathering}, timeout=STDERR_S)
                gathering.cancel()
            self._process = None

    def _set_status(self, status: str) -> None:
        self.status = status
        self._changed.set()
        for on_status in tuple(self._watchers):
            on_status(status)


def _socket_path(run_dir: Path, name: str) -> Path:
    path = run_dir / f"engine-{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}.sock"
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise InvalidConfig(
            (f"the path for sockets, {run_dir}, is too long; set TMPDIR to a shorter path",)
        )
    return path


def _exit_reason(status: int) -> str:
    return f"killed by signal {-status}" if status < 0 else f"exited with status {status}"
