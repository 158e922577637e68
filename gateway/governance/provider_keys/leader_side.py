"""The pauses of keys, once per gateway: passed on to all processes."""

from strowger_gateway.gateway.governance.provider_keys.messages import KeyRest, KeyRests, later
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide


class KeyPoolsLeader(LeaderSide[KeyRest, KeyRest | KeyRests]):
    """Keeps the last rest of each key of the configuration, for workers that start later."""

    receives = KeyRest

    def __init__(self, at: LeaderContext) -> None:
        self._at = at
        self._last: dict[tuple[str, str], KeyRest] = {}

    def first(self) -> KeyRests:
        return KeyRests(rests=tuple(self._last.values()))

    def on_message(self, worker: int, message: KeyRest) -> None:
        known = {
            (one.name, key.name): key.digest
            for one in self._at.config().providers
            for key in one.pooled_keys
        }
        self._last = {
            name: rest for name, rest in self._last.items() if known.get(name) == rest.digest
        }
        name = message.provider, message.key
        if known.get(name) == message.digest:
            self._last[name] = later(message, self._last.get(name))
            self._at.broadcast(message)
