"""TLS at the listener as a part."""

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.server.tls.check import check_listener_tls


class ListenerTlsPart(Part):
    """`server.tls` is a field of `Config`."""

    name = "tls"

    def check(self, config: Config, problems: Problems) -> None:
        check_listener_tls(config, problems)
