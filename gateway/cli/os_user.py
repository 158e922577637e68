"""Who runs a command, for records of what it changes."""

import getpass

from strowger_gateway.gateway.audit.event import Actor


def os_user() -> Actor:
    """Return the user of the operating system, as far as it is known."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):
        return Actor(kind="cli", label="command line")
    return Actor(kind="cli", name=name, label=f"command line ({name})")
