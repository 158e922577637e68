"""TLS at the listener as a part."""

from collections.abc import Mapping
from typing import Any

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.leader_side import LeaderContext, LeaderSide
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.parts.process_side import ProcessContext, ProcessSide
from strowger_gateway.gateway.server.tls.check import check_listener_tls


class ListenerTlsPart(Part):
    """`server.tls` is a field of `Config`."""

    name = "tls"

    def check(self, config: Config, problems: Problems) -> None:
        check_listener_tls(config, problems)

    def restart_needed(self, old: Config, new: Config) -> Mapping[str, str]:
        if (old.server.tls is None) == (new.server.tls is None):
            return {}
        return {"server.tls": "adding or removing it needs a restart"}

    def leader(self, at: LeaderContext) -> LeaderSide[Any, Any]:
        from strowger_gateway.gateway.server.tls.leader_side import TlsLeader

        return TlsLeader(at)

    def process(self, at: ProcessContext) -> ProcessSide[Any, Any]:
        from strowger_gateway.gateway.server.tls.process_side import TlsSide

        return TlsSide(at)
