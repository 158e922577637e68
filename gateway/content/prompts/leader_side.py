"""Record the texts of prompts in the store, once per gateway."""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from strowger_gateway.gateway.config.schema.prompts.section import Prompt
from strowger_gateway.gateway.content.prompts.text_rows import record_texts
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide, Work
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable

_log = logging.getLogger("strowger")

LOOK_S: Final = 1.0
"""Seconds between looks at the configuration in effect."""

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

    def works(self) -> Sequence[Work]:
        return (("prompt texts", self._record),)

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _record(self) -> None:
        """Record the prompts of each configuration that is in effect, and then now and again."""
        known: tuple[Prompt, ...] = ()
        seen = 0.0
        while True:
            prompts = self._at.config().prompts
            at = time.time()
            if prompts and (prompts != known or at >= seen + AGAIN_S):
                try:
                    await self._record_once(prompts, at)
                except StoreUnavailable as exc:
                    _log.debug("texts of prompts are not recorded yet: %s", exc)
                else:
                    known, seen = prompts, at
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
