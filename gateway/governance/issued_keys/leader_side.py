"""The list of issued keys, once per gateway, and the rules in force in the leader."""

from functools import partial

from strowger_gateway.gateway.coordination.leader_side import CoordinationLeader
from strowger_gateway.gateway.governance.issued_keys.messages import KeysToLeader
from strowger_gateway.gateway.governance.issued_keys.metrics import IssuedKeyCollector
from strowger_gateway.gateway.governance.issued_keys.rules_in_force import RulesInForce
from strowger_gateway.gateway.governance.issued_keys.sync import KeySync, latest_keys
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.storage.sql.key_rows import KeyList


class KeysLeader(LeaderSide[KeysToLeader, KeyList]):
    """sync: follows the store. rules: the limits and budgets in force."""

    receives = KeysToLeader

    def __init__(self, at: LeaderContext) -> None:
        self.sync = KeySync(at.store.issued_keys, at.config)
        self.sync.send = at.broadcast
        self.rules = RulesInForce(at.config, partial(latest_keys, self.sync))
        at.side(CoordinationLeader).keys = self.sync
        self._crashed = at.crashed
        at.registry.register(IssuedKeyCollector(self.sync))

    async def start(self) -> None:
        await self.sync.start(self._crashed)

    def first(self) -> KeyList | None:
        return self.sync.latest

    def left(self, worker: int) -> None:
        self.sync.leave(worker)

    def on_message(self, worker: int, message: KeysToLeader) -> None:
        self.sync.on_message(worker, message)

    async def close(self) -> None:
        await self.sync.close()
