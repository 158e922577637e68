"""The audit log as a part: what operators do in a serving process."""

from collections.abc import Mapping
from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class AuditLogPart(Part):
    """`audit` is a field of `Config`. Events of the leader are recorded by `Records`."""

    name = "audit"

    def check(self, config: Config, problems: Problems) -> None:
        from strowger_gateway.gateway.config.checks.audit import check_audit

        check_audit(config, problems)

    def restart_needed(self, old: Config, new: Config) -> Mapping[str, str]:
        return {} if old.audit == new.audit else {"audit": "changing it needs a restart"}

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.observability.recording.process_side import AuditSide

        return AuditSide(at)
