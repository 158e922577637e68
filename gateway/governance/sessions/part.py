"""Sessions of browsers at /admin as a part."""

from typing import Any

from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide


class SessionsPart(Part):
    """`auth.admin_session_s` and `auth.sign_in` are fields of `Config`."""

    name = "sessions"

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.governance.sessions.process_side import SessionsSide

        return SessionsSide(at)
