"""How to start the code of another checkout, also of one from before the package had one name."""

from pathlib import Path
from typing import Final

NAME: Final = "strowger_gateway"


def module_in(checkout: Path, module: str) -> str:
    """Return the dotted name of a module there. module: from the packages on: `gateway.cli`."""
    return f"{NAME}.{module}" if (checkout / NAME).is_dir() else module
