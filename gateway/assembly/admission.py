"""Admit requests: count those in flight, limit them, and drain them on shutdown."""

import asyncio

from strowger_gateway.gateway.assembly.request_log import RequestLog
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.schemas.errors import Unavailable


class Admission:
    """The requests in flight in this process.

    draining: /readyz says no. refusing: new requests get 503.
    in_flight: requests being answered. others_in_flight: those of the other processes, as last
    reported. idle: set when, after `refuse`, the last request in flight has ended.
    """

    def __init__(self, log: RequestLog) -> None:
        """log: its recorder must have room, under `store.usage: required`."""
        self._log = log
        self.in_flight = self.others_in_flight = 0
        self.draining = False
        self.refusing = False
        self.idle = asyncio.Event()

    def enter(self, runtime: Runtime) -> None:
        """Count a request that arrives, admitted or not. runtime: that it is answered with."""
        self.in_flight += 1
        runtime.in_flight += 1

    def admit(self, runtime: Runtime) -> None:
        """Raise Unavailable if the request cannot be answered now.

        While the gateway shuts down, with `max_in_flight` requests in flight, and while
        `recording_blocked`.
        """
        if self.refusing:
            raise Unavailable("the gateway is shutting down", retry_after=1)
        config = runtime.config
        if self.in_flight + self.others_in_flight > config.server.max_in_flight:
            raise Unavailable(
                f"{config.server.max_in_flight} requests are in flight, the most that "
                "server.max_in_flight allows",
                retry_after=1,
            )
        if config.store.usage == "required" and self.recording_blocked(runtime):
            raise Unavailable(
                "usage records cannot be written now, and store.usage requires them", retry_after=5
            )

    def leave(self, runtime: Runtime) -> None:
        """Count a request that has ended. runtime: the one given to `enter`."""
        runtime.in_flight -= 1
        self.in_flight -= 1
        if self.refusing and self.in_flight == 0:
            self.idle.set()

    def recording_blocked(self, runtime: Runtime) -> bool:
        """Whether `store.usage` requires records, and the recorder can take no more."""
        recorder = self._log.recorder
        return recorder is not None and recorder.full and runtime.config.store.usage == "required"

    def refuse(self) -> None:
        """Answer new requests with 503 from now on; `idle` is set after the last in flight."""
        self.refusing = True
        if self.in_flight == 0:
            self.idle.set()
