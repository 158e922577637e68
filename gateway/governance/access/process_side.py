"""The wrong keys that a serving process has seen."""

from strowger_gateway.gateway.governance.access.key_shares import KeyShares
from strowger_gateway.gateway.governance.access.wrong_keys import WrongKeyThrottle
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class WrongKeysSide(ProcessSide[None, None]):
    """throttle: delays the answers to clients that send wrong keys."""

    def __init__(self, at: ProcessContext) -> None:
        self._config, self._shares = at.config, at.own(KeyShares)
        self.throttle = WrongKeyThrottle(in_flight=self._most_in_flight)

    def _most_in_flight(self) -> int:
        return min(self._config().server.max_in_flight, self._shares.room)
