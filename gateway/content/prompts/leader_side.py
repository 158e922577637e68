"""Record the texts of prompts in the store, once per gateway."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.prompts.section import Prompt
from strowger_gateway.gateway.content.prompts.text_rows import record_texts
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable

_log = logging.getLogger("strowger")

LOOK_S: Final = 1.0
"""Seconds between looks at what is to be recorded."""

MOST_WAITING: Final = 64
"""Configurations that wait for the store; of more, the oldest are not recorded."""

AGAIN_S: Final = 600.0
"""Seconds after which prompts that have not changed are seen again."""

CHANGED: Final = (
    "prompts: %s has a new text (%s, before %s) under the same version, so requests differ in "
    "prompt_digest alone; give the new text a version of its own"
)


class PromptsLeader(LeaderSide[None, None]):
    """An outage of the store delays records, and nothing else."""

    def __init__(self, at: LeaderContext) -> None:
        self._at = at
        self._thread = ThreadPoolExecutor(1, "prompt-texts")
        self._waiting: deque[tuple[float, tuple[Prompt, ...]]] = deque(maxlen=MOST_WAITING)

    async def prepare(self, config: Config) -> None:
        """Note each configuration, also one that the next one replaces at once."""
        if config.prompts:
            self._waiting.append((time.time(), config.prompts))

    def works(self) -> Sequence[Work]:
        return (("prompt texts", self._record),)

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _record(self) -> None:
        """Record the prompts of each configuration, and those in effect now and again."""
        seen = 0.0
        while True:
            prompts, at = self._at.config().prompts, time.time()
            if prompts and not self._waiting and at >= seen + AGAIN_S:
                self._waiting.append((at, prompts))
            while self._waiting:
                one = self._waiting.popleft()
                try:
                    await self._record_once(one[1], one[0])
                except StoreUnavailable as exc:
                    _log.debug("texts of prompts are not recorded yet: %s", exc)
                    if len(self._waiting) < MOST_WAITING:
                        self._waiting.appendleft(one)
                    break
                seen = at
            await asyncio.sleep(LOOK_S)

    async def _record_once(self, prompts: tuple[Prompt, ...], at: float) -> None:
        call = partial(record_texts, self._at.store.database, prompts, at)
        changed = await asyncio.get_running_loop().run_in_executor(self._thread, call)
        digests = {
            (prompt.name, one.name): one.digest for prompt in prompts for one in prompt.versions
        }
        for one in changed:
            new = digests[one.prompt, one.version]
            _log.warning(CHANGED, one.ref, new, one.digest)
