"""Replay as a part: its reports, and its pairs to read and to vote on."""

from collections.abc import Sequence
from typing import Any

from strowger_gateway.gateway.parts.console import AdminRoute, PageView
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class ReplayPart(Part):
    """Runs are made by the command `strowger experiments replay`, and read here."""

    name = "replay"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any] | None:
        if at.access is None:
            return None
        from strowger_gateway.gateway.experiments.replay.process_side import ReplaySide

        return ReplaySide(at.access)

    def routes(self) -> Sequence[AdminRoute[Any]]:
        from strowger_gateway.gateway.experiments.replay.routes import ROUTES

        return ROUTES

    def views(self) -> Sequence[PageView[Any]]:
        from strowger_gateway.gateway.experiments.replay.routes import VIEW

        return (VIEW,)
