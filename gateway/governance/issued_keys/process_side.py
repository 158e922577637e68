"""Issued keys in a serving process: the list in effect, its expiry, and the rules in force."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from strowger_gateway.gateway.governance.issued_keys.desk import KeyDesk
from strowger_gateway.gateway.governance.issued_keys.keys_in_effect import TICK_S, IssuedKeys
from strowger_gateway.gateway.governance.issued_keys.messages import (
    KeysApplied,
    KeysChanged,
    KeysToLeader,
    KeysUsed,
)
from strowger_gateway.gateway.governance.issued_keys.rules_in_force import RulesInForce
from strowger_gateway.gateway.parts.leader_side import Work
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.storage.sql.key_rows import KeyList


class KeysSide(ProcessSide[KeysToLeader, KeyList]):
    """rules: the limits and budgets in force here. desk: changes keys; `None` without a store."""

    receives = KeyList

    def __init__(self, at: ProcessContext) -> None:
        self._issued = at.own(IssuedKeys)
        self._send = at.send
        self._stages_changed = at.stages_changed
        self.rules = RulesInForce(at.config, lambda: self._issued.keys)
        self._followers: list[Callable[[], None]] = []
        self.desk: KeyDesk | None = None
        if at.store is not None:
            changed = partial(at.send, KeysChanged())
            self.desk = KeyDesk(at.store.issued_keys, at.config, changed, follows=True)
        first = at.first(KeyList)
        if first is not None:
            self.on_message(first)

    def follow_rules(self, follower: Callable[[], None]) -> None:
        """Call this whenever `rules` may have changed because the keys have."""
        self._followers.append(follower)

    def on_message(self, message: KeyList) -> None:
        """Put a list of issued keys into effect."""
        self._issued.push(message)
        for follower in self._followers:
            follower()
        self._stages_changed()
        if self.desk is not None:
            self.desk.in_effect(message.version)
        self._send(KeysApplied(version=message.version))

    def works(self) -> Sequence[Work]:
        return (("issued keys", self._tick),)

    async def close(self, within_s: float) -> None:
        self._report()
        if self.desk is not None:
            self.desk.close()

    async def _tick(self) -> None:
        """Notice keys that expire, and report those that are used, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            if self._issued.tick():
                self._report()

    def _report(self) -> None:
        if used := self._issued.take_used():
            self._send(KeysUsed(times=used))
