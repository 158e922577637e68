"""Identity providers as a part: their keys are fetched again when they are due."""

from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class IdentitiesPart(Part):
    """`auth.jwt` is a field of `Config`; `Keyring` checks the tokens."""

    name = "identities"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.config.checks.identities import check_identities

        check_identities(config, problems)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.identities.process_side import IdentitiesSide

        return IdentitiesSide(at)
