"""Mirrors as a part: copies of answered requests, of which no client sees anything."""

from typing import Any

from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class MirrorsPart(Part):
    """`models[].mirror` is a field of `Config`."""

    name = "mirrors"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.experiments.mirror.process_side import MirrorsSide

        return MirrorsSide(at)
