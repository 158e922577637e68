"""A new configuration while the gateway runs: everywhere or nowhere, and never half."""

import asyncio
import contextlib
import hashlib
import logging
import stat
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

from msgspec import Struct

from gateway.config.schema import Config
from gateway.config.text_files import LARGEST
from gateway.engine_process.process import EngineProcess
from gateway.processes.engine_pool import EnginePool
from gateway.processes.reload_target import ProcessEnded, Proposal, Target
from gateway.processes.restart_required import needs_restart
from gateway.telemetry.logs import set_level
from gateway.telemetry.process_metrics import ProcessMetrics
from schemas.errors import InvalidConfig

_log = logging.getLogger("strowger")

PREPARE_S = 30.0
"""For all processes to get a configuration ready; a worker that just starts takes seconds."""

APPLY_ATTEMPTS = 2
"""To bring a configuration into force while processes end."""

POLL_S = 0.4
"""Between looks at the file. A change counts when two looks in a row saw the same."""

MISSING_POLLS = 5
"""So many looks in a row must find no file before that counts: editors and mounts replace it."""


class Reload:
    """Reads the file again, checks it, and brings it into force in every target, or in none.

    config: what is in force. refused: the file was changed since, and cannot be.
    """

    def __init__(
        self,
        config: Config,
        *,
        source: Path,
        read: Callable[[], Config],
        engines: EnginePool,
        targets: Callable[[], Sequence[Target]],
        metrics: ProcessMetrics,
        hold_starts: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        prepare_s: float = PREPARE_S,
    ) -> None:
        """read: the file as it is now, with what the command line changes; raises InvalidConfig.

        targets: the processes that serve now; none joins them within `still`.
        """
        self.config = config
        self.refused = False
        self._source = source
        self._read = read
        self._engines = engines
        self._targets = targets
        self._metrics = metrics
        self._hold_starts = hold_starts
        self._prepare_s = prepare_s
        self._number = 0
        self._lock = asyncio.Lock()
        self._stopping: set[asyncio.Task[None]] = set()
        self._known: _FileState | None = None

    async def reload(self, by: str) -> bool:
        """Whether the file as it is now is in force; what is wrong with it is in the log.

        by: who or what asked for it, for the log. A bug on the way is a refusal, too: what is in
        force goes on, and so does whoever called.
        """
        async with self._lock:
            _log.info("reading the configuration in %s: %s", self._source, by)
            try:
                config = await asyncio.to_thread(self._read)
                if config != self.config:
                    await self._apply_with_retry(config)
                else:
                    _log.info("the configuration in %s is the one in force", self._source)
            except InvalidConfig as exc:
                self._reject(exc.problems)
                return False
            except Exception as exc:  # noqa: BLE001  of whatever a file makes our code do
                _log.exception("a configuration cannot be brought into force by a bug of ours")
                self._metrics.internal_errors.count("reload")
                self._reject((f"an internal error: {type(exc).__name__}; the log has the trace",))
                return False
            self._notify(refused=False)
            return True

    async def watch(self) -> None:
        """Reload whenever the file's content has changed and has come to rest.

        A file that is gone, or cannot be read, is a change as well, which is refused. When this
        crashed and is called again, it goes on from what it had seen.
        """
        seen = await asyncio.to_thread(_file_state, self._source)
        if self._known is None:
            self._known = seen
        same = 1
        while True:
            await asyncio.sleep(POLL_S)
            before, seen = seen, await asyncio.to_thread(_file_state, self._source)
            same = same + 1 if seen == before else 1
            if seen != self._known and same >= (2 if seen.readable else MISSING_POLLS):
                self._known = seen
                await self.reload("it has changed" if seen.readable else "it cannot be read")

    async def close(self) -> None:
        for task in tuple(self._stopping):
            task.cancel()
        await asyncio.gather(*self._stopping, return_exceptions=True)

    async def _apply_with_retry(self, config: Config) -> None:
        """A process that ends meanwhile, of whatever, makes no configuration a wrong one.

        But one that ends twice over it might have ended of it. Raises InvalidConfig.
        """
        for _ in range(APPLY_ATTEMPTS):
            with contextlib.suppress(ProcessEnded):
                async with self._hold_starts():
                    await self._apply(config)
                return
            _log.warning("a worker ended while it got the configuration ready")
        raise InvalidConfig((f"a worker ended {APPLY_ATTEMPTS} times while it got it ready",))

    async def _apply(self, config: Config) -> None:
        """Both phases. Raises InvalidConfig, and Ended, with nothing changed anywhere."""
        self._number += 1
        number = self._number
        plan = self._engines.plan(config, number)
        problems = (*needs_restart(self.config, config), *plan.problems)
        if problems:
            raise InvalidConfig(problems)
        targets = tuple(self._targets())
        proposal = Proposal(number=number, config=config, engines=plan.processes)
        try:
            answers = await self._prepare_all(targets, proposal)
        except BaseException:
            for one in targets:
                one.discard(number)
            raise
        problems = tuple(dict.fromkeys(problem for answer in answers for problem in answer))
        if problems:
            for one in targets:
                one.discard(number)
            raise InvalidConfig(problems)
        committing = asyncio.gather(*(one.commit(number) for one in targets))
        self.config = config
        set_level(config.logging)
        leaving = self._engines.apply(plan)
        await committing
        self._metrics.reloaded("done")
        _log.info("the configuration in %s is in force", self._source)
        if leaving:
            task = asyncio.create_task(self._stop(leaving, targets))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    async def _prepare_all(
        self, targets: Sequence[Target], proposal: Proposal
    ) -> Sequence[Sequence[str]]:
        """What is wrong with it for each, that it takes too long too. Raises Ended."""
        late = {one.name for one in targets}

        async def prepared(one: Target) -> tuple[str, ...]:
            problems = await one.prepare(proposal)
            late.discard(one.name)
            return problems

        try:
            async with asyncio.timeout(self._prepare_s):
                return await asyncio.gather(*(prepared(one) for one in targets))
        except TimeoutError:
            names = ", ".join(sorted(late))
            return [(f"{names} did not get it ready within {self._prepare_s:g} s",)]

    async def _stop(self, leaving: Sequence[EngineProcess], targets: Sequence[Target]) -> None:
        """Engines go when no request can be theirs any more, or drain_timeout_s is over."""
        settled = asyncio.gather(*(one.wait_old_requests() for one in targets))
        try:
            await asyncio.wait_for(settled, self.config.server.drain_timeout_s)
        except TimeoutError:
            _log.warning("requests on a former engine outlasted drain_timeout_s and are cut")
        await self._engines.stop(leaving)

    def _reject(self, problems: Sequence[str]) -> None:
        self._metrics.reloaded("refused")
        self._notify(refused=True)
        _log.error(
            "the configuration in %s is refused, the one before it stays in force: %s",
            self._source,
            "; ".join(problems),
        )

    def _notify(self, *, refused: bool) -> None:
        self.refused = refused
        self._metrics.refused(refused)
        for one in self._targets():
            one.notify_config_rejected(refused=refused)


class _FileState(Struct, frozen=True):
    """What a look at the file found. mark: of the content, or of why there is none."""

    readable: bool
    mark: bytes


def _file_state(path: Path) -> _FileState:
    """The content counts, and no times: editors replace files, and mounts swap links.

    Never waits for what a pipe brings, and reads no more than a configuration may have.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            return _FileState(False, b"not a regular file")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as exc:
        return _FileState(False, str(exc.errno).encode())
    size = b"" if len(content) <= LARGEST else str(found.st_size).encode()
    return _FileState(True, hashlib.blake2b(content, digest_size=16).digest() + size)
