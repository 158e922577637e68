"""The answers to wrong keys as a part: they get slower, per client."""

from typing import Any

from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class WrongKeysPart(Part):
    """It has no settings of its own; `server.max_in_flight` bounds it."""

    name = "wrong_keys"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.access.process_side import WrongKeysSide

        return WrongKeysSide(at)
