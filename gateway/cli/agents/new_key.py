"""A key for an agent, issued into the store that a gateway on this machine reads."""

import time
from typing import Final

from strowger_gateway.gateway.cli.issuing.store_access import changing, reading
from strowger_gateway.gateway.cli.os_user import os_user
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.issued_keys.authority import KeyFields
from strowger_gateway.gateway.governance.issued_keys.view import details

WITHIN_S: Final = 15.0
"""Seconds in which running gateways have read a new key: 2 s, more on a busy machine."""

PAUSE_S: Final = 0.1


def issued(config: Config, name: str) -> str:
    """Issue a key and return its secret once running gateways accept it. Raises Faults.

    The store says when they do: to try the key until then would count as wrong keys.
    """
    with changing(config, "key.create", name) as authority:
        secret = authority.create(name, KeyFields(), os_user()).secret
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        with reading(config) as authority:
            found = details(authority.find(name), authority.rows.readers(), config)
        if found.in_effect:
            break
        time.sleep(PAUSE_S)
    return secret
