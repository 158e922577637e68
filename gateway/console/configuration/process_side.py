"""The configuration in force in a serving process, which asks the process that has read it."""

import asyncio
import time

from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.console.configuration.answer import ConfigInForce, SettingsAsked
from strowger_gateway.gateway.console.configuration.leader_side import in_force
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class ConfigurationSide(ProcessSide[None, None]):
    """Without a leader, this process has read the file itself."""

    def __init__(self, at: ProcessContext) -> None:
        self._at = at
        self._since = time.time()

    def use(self, config: Config) -> None:
        self._since = time.time()

    async def read(self, asked: SettingsAsked) -> ConfigInForce:
        """Raises Unavailable if the leader does not answer."""
        if self._at.alone and self._at.leader is None:
            return await asyncio.to_thread(in_force, self._at.config(), asked, self._since)
        return await self._at.ask(asked, ConfigInForce)
