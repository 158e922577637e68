"""End users as a part: which of them requests belong to, and how many are counted alone."""

from typing import Any

from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class EndUsersPart(Part):
    """`end_users` is a field of `Config`."""

    name = "end_users"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.end_users.process_side import EndUsersSide

        return EndUsersSide(at)
