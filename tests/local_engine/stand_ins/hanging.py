"""The engine's process with a device that hangs: `python -m tests.local_engine.stand_ins.hanging
…`.

Everything is real except one model's lane, whose step never returns.
"""

import gc
import sys
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, cast

import msgspec

from strowger_gateway.local_engine.config import EngineConfig
from strowger_gateway.local_engine.loading.lean_imports import import_lean
from strowger_gateway.local_engine.start import read_start

if TYPE_CHECKING:
    from strowger_gateway.local_engine.execution.jobs import Delta, Job
    from strowger_gateway.local_engine.execution.model_lane import ModelLane
    from strowger_gateway.local_engine.protocol.stats import Stats
    from strowger_gateway.local_engine.server.model_host import ServedModel


class HangingLane:
    """Accepts jobs and never generates tokens."""

    def __init__(self, lane: "ModelLane") -> None:
        self._lane = lane
        self.validate_prompt_length = lane.validate_prompt_length
        self.validate_beams = lane.validate_beams
        self.longest = lane.longest

    @property
    def busy(self) -> bool:
        return self._lane.busy

    def add(self, job: "Job") -> None:
        self._lane.add(job)

    def stats(self) -> "Stats":
        return self._lane.stats()

    def step(self, now: float) -> "list[Delta]":
        while True:
            Event().wait(60)


def hanging(config: EngineConfig, report: Callable[[str], None]) -> "dict[str, ServedModel]":
    """Like `host`, but the models named `hangs` hang."""
    from strowger_gateway.local_engine.server.model_host import host

    return {
        name: msgspec.structs.replace(hosted, lane=cast("ModelLane", HangingLane(hosted.lane)))
        if name == "hangs"
        else hosted
        for name, hosted in host(config, report).items()
    }


if __name__ == "__main__":
    gc.disable()  # until it is served, as in local_engine/__main__.py
    started = read_start(sys.argv[1:])
    import_lean()
    from strowger_gateway.local_engine.process import main

    sys.exit(main(started, hosting=hanging))
