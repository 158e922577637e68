"""Issued keys as a part: their list, and the rules in force that they bring."""

from typing import Any

from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class IssuedKeysPart(Part):
    """The keys are in the store; `auth.mode` says whether they are used."""

    name = "issued_keys"

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.governance.issued_keys.leader_side import KeysLeader

        return KeysLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide

        return KeysSide(at)
