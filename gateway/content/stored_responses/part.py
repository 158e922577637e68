"""Stored responses as a part: the archive, and the seals of what clients keep themselves."""

from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class StoredResponsesPart(Part):
    """`responses` is a field of `Config`."""

    name = "stored_responses"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.content.stored_responses.check import check_responses

        check_responses(config, problems)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.content.stored_responses.process_side import (
            StoredResponsesSide,
        )

        return StoredResponsesSide(at)
