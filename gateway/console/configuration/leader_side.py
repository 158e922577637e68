"""The configuration in force, where it was read: in the leader, or in the only process."""

import asyncio
import time
from collections import deque
from typing import Final

from strowger_gateway.gateway.config.parts.file_type import section_types
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.console.configuration.answer import (
    ConfigInForce,
    SettingsAsked,
    find,
)
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.reload_result import ReloadResult

KEPT: Final = 50
"""Reloads that are listed; the audit log has all."""


class ConfigurationLeader(LeaderSide[None, None]):
    """Remembers reloads, and lists settings when it is asked to."""

    questions = SettingsAsked
    carries = list[ReloadResult]

    def __init__(self, at: LeaderContext) -> None:
        self._at = at
        self._reloads: deque[ReloadResult] = deque(maxlen=KEPT)
        self._since = time.time()

    def reloaded(self, result: ReloadResult) -> None:
        if result.outcome == "applied":
            self._since = result.time
        last = self._reloads[-1] if self._reloads else None
        if result.outcome != "unchanged" or (last is not None and last.rejected):
            self._reloads.append(result)

    def carried(self) -> object:
        return list(self._reloads)

    def carry(self, found: list[ReloadResult]) -> None:
        self._reloads.extendleft(reversed(found[-KEPT:]))

    async def answer(self, question: SettingsAsked) -> ConfigInForce:
        config, reloads = self._at.config(), tuple(reversed(self._reloads))
        return await asyncio.to_thread(in_force, config, question, self._since, reloads)


def in_force(
    config: Config, asked: SettingsAsked, since: float, reloads: tuple[ReloadResult, ...] = ()
) -> ConfigInForce:
    """Blocks for a second if there are thousands of keys or models. since: Unix seconds."""
    from strowger_gateway.gateway.assembly.parts import PARTS

    found = find(config.written, section_types(PARTS), asked)
    return ConfigInForce(
        file=config.written.file,
        digest=config.digest,
        since=since,
        sections=found.sections,
        settings=found.settings,
        total=found.total,
        rejected=reloads[0] if reloads and reloads[0].rejected else None,
        reloads=reloads,
    )
