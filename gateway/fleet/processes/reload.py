"""Reload the configuration while the gateway runs: in all processes or in none."""

import asyncio
import contextlib
import hashlib
import logging
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

from msgspec import Struct

from strowger_gateway.gateway.assembly.leader_parts import LeaderParts
from strowger_gateway.gateway.assembly.part_failures import told
from strowger_gateway.gateway.audit.log import AuditLog, NoAudit
from strowger_gateway.gateway.backends.engines.process.process import EngineProcess
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.text_files import LARGEST
from strowger_gateway.gateway.fleet.processes.audit_events import ReloadAudit
from strowger_gateway.gateway.fleet.processes.engine_pool import EnginePool
from strowger_gateway.gateway.fleet.processes.reload_target import ProcessEnded, Proposal, Target
from strowger_gateway.gateway.fleet.processes.restart_required import needs_restart
from strowger_gateway.gateway.observability.telemetry.logs import set_level
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.gateway.parts.reload_result import ReloadResult
from strowger_gateway.schemas.errors import InvalidConfig

_log = logging.getLogger("strowger")

PREPARE_S = 30.0
"""Timeout for all processes to prepare; a worker that is just starting takes seconds."""

APPLY_ATTEMPTS = 2
"""Attempts to apply a configuration when workers exit while they prepare it."""

POLL_S = 0.4
"""Interval between checks of the file. A change counts when two checks in a row agree."""

MISSING_POLLS = 5
"""Consecutive checks without a file before that counts: editors and mounts replace it."""


class Reload:
    """Read the file again, check it, and put it into effect in every target, or in none.

    config: the current configuration, with replicas. declared: the same as in its file.
    rejected: the file has changed since and was rejected.
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
        audit: AuditLog | None = None,
        parts: LeaderParts | None = None,
        prepare_s: float = PREPARE_S,
    ) -> None:
        """read: reads the file and applies the command line's overrides; raises InvalidConfig.

        targets: the serving processes; none is added within `hold_starts`.
        audit: records what each reload changed, or why it was rejected.
        parts: get ready for a new configuration.
        """
        self.config = self.declared = config
        self._expanded: Callable[[Config], Config] = lambda config: config
        self.rejected = False
        self._source = source
        self._read = read
        self._engines = engines
        self._targets = targets
        self._metrics = metrics
        metrics.configured(config.digest)
        self._hold_starts = hold_starts
        self._audit = ReloadAudit(NoAudit() if audit is None else audit, source)
        self._prepare_s = prepare_s
        self._parts = parts
        self._number = 0
        self._lock = asyncio.Lock()
        self._stopping: set[asyncio.Task[None]] = set()
        self._known = _file_state(source)  # now: it may change before `watch` runs

    async def reload(self, by: str) -> bool:
        """Read and apply the file; False if it was rejected, with the problems in the log.

        by: the trigger, which is logged. An internal error also rejects the file: the current
        configuration stays in effect, and the caller continues.
        """
        async with self._lock:
            _log.info("reading the configuration in %s: %s", self._source, by)
            before, config = self.config, None
            try:
                declared = await asyncio.to_thread(self._read)
                config = self._expanded(declared)
                if config != before:
                    if self._parts is not None:
                        await self._parts.prepare(config)
                    await self._apply_with_retry(config)
                    self.declared = declared
                    self._report(await asyncio.to_thread(self._audit.applied, before, config, by))
                else:
                    # Its lines may have moved.
                    self.config, self.declared = config, declared
                    _log.info("the configuration in %s is unchanged", self._source)
                    self._report(
                        ReloadResult(
                            time=time.time(), trigger=by, outcome="unchanged", digest=config.digest
                        )
                    )
            except InvalidConfig as exc:
                self._reject(exc.problems)
                self._report(
                    await asyncio.to_thread(self._audit.rejected, before, config, by, exc.problems)
                )
                return False
            except Exception as exc:  # noqa: BLE001  no file may stop the gateway
                _log.exception("internal error while applying a configuration")
                self._metrics.internal_errors.count("reload")
                why = f"internal error: {told(exc)}; see the traceback in the log"
                self._reject((why,))
                rejected = (before, config, by, (why,), "failed")
                self._report(await asyncio.to_thread(self._audit.rejected, *rejected))
                return False
            self._notify(rejected=False)
            return True

    def expand(self, declared: Config, expanded: Callable[[Config], Config]) -> None:
        """From now on, put replicas into each configuration that is read.

        declared: the current configuration before that.
        """
        self.declared, self._expanded = declared, expanded

    async def use_addresses(self) -> bool:
        """Put the replicas that are known now into effect; false if that failed.

        The file is not read: a broken one does not keep replicas away.
        """
        async with self._lock:
            try:
                config = self._expanded(self.declared)
                if config != self.config:
                    await self._apply_with_retry(config)
            except InvalidConfig as exc:
                _log.error("replicas cannot be put into effect: %s", exc)
                return False
            return True

    async def watch(self) -> None:
        """Reload whenever the file's content has changed and is stable.

        A missing or unreadable file is a change too, and is rejected. After a crash of this loop,
        the next call continues from the last seen state.
        """
        seen = await asyncio.to_thread(_file_state, self._source)
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
        """Apply the configuration, and retry if a worker exits while it prepares.

        One exit does not prove the configuration wrong; repeated exits may be caused by it.
        Raises InvalidConfig.
        """
        for _ in range(APPLY_ATTEMPTS):
            with contextlib.suppress(ProcessEnded):
                async with self._hold_starts():
                    await self._apply(config)
                return
            _log.warning("a worker exited while it prepared the configuration")
        why = f"a worker exited {APPLY_ATTEMPTS} times while it prepared the configuration"
        raise InvalidConfig((why,))

    async def _apply(self, config: Config) -> None:
        """Run both phases. Raises InvalidConfig or ProcessEnded with nothing changed anywhere."""
        self._number += 1
        number = self._number
        plan = self._engines.plan(config, number)
        listed = () if self._parts is None else self._parts.listed
        problems = (*needs_restart(listed, self.config, config), *plan.problems)
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
        self._metrics.configured(config.digest)
        set_level(config.logging)
        leaving = self._engines.apply(plan)
        await committing
        self._metrics.reloaded("done")
        _log.info("the configuration in %s is in effect", self._source)
        if leaving:
            task = asyncio.create_task(self._stop(leaving, targets))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    async def _prepare_all(
        self, targets: Sequence[Target], proposal: Proposal
    ) -> Sequence[Sequence[str]]:
        """Return the problems of each target, timeouts included. Raises ProcessEnded."""
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
            return [(f"{names} did not prepare it within {self._prepare_s:g} s",)]

    async def _stop(self, leaving: Sequence[EngineProcess], targets: Sequence[Target]) -> None:
        """Stop replaced engines when no request can use them, or after drain_timeout_s."""
        idle = asyncio.gather(*(one.wait_old_requests() for one in targets))
        try:
            async with asyncio.timeout(self.config.server.drain_timeout_s):
                await idle
        except TimeoutError:
            _log.warning("cutting requests on a replaced engine that outlasted drain_timeout_s")
        await self._engines.stop(leaving)

    def _report(self, result: ReloadResult) -> None:
        """Let parts know."""
        if self._parts is not None:
            self._parts.reloaded(result)

    def _reject(self, problems: Sequence[str]) -> None:
        self._metrics.reloaded("refused")
        self._notify(rejected=True)
        _log.error(
            "configuration %s rejected, keeping the previous one: %s",
            self._source,
            "; ".join(problems),
        )

    def _notify(self, *, rejected: bool) -> None:
        self.rejected = rejected
        self._metrics.refused(rejected)
        for one in self._targets():
            one.notify_config_rejected(rejected=rejected)


class _FileState(Struct, frozen=True):
    """The result of one check of the file.

    mark: a digest of the content, or the reason why it cannot be read.
    """

    readable: bool
    mark: bytes


def _file_state(path: Path) -> _FileState:
    """Compare content, not times: editors replace files, and mounts swap links.

    Never blocks on a pipe, and reads no more than the maximum size of a configuration.
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
