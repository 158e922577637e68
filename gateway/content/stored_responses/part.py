"""Stored responses as a part: the archive, and the seals of what clients keep themselves."""

from typing import Any

from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class StoredResponsesPart(Part):
    """`responses` is a field of `Config`."""

    name = "stored_responses"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.content.stored_responses.process_side import (
            StoredResponsesSide,
        )

        return StoredResponsesSide(at)
