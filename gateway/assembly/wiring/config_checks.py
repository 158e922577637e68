"""The checks of a configuration that need code above `config`."""

from typing import Final

from strowger_gateway.gateway.config.checks.check import Check
from strowger_gateway.gateway.server.tls.check import check_listener_tls

CONFIG_CHECKS: Final[tuple[Check, ...]] = (check_listener_tls,)
"""Hand them to `load_config`: `strowger serve` does so, and each command that reads the file."""
