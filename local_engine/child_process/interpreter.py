"""Start another process with a module of ours, which finds all modules where this one does.

The processes of a gateway are one program. If a child looked elsewhere for a module, it would run
another version of a hook than the process that checked the configuration, or fail where that one
did not.
"""

import os
import sys
from typing import Final

_ZIP: Final = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
"""The archive that the interpreter itself puts before its standard library."""


def module_command(module: str) -> tuple[str, ...]:
    """Return the words that run a module of ours as a process.

    `-P`, because `-m` alone puts the current folder first on the path: a file there with the name
    of a module would be imported in its place.
    """
    return sys.executable, "-P", "-m", module


def import_path() -> str:
    """Return the PYTHONPATH of such a process: the folders before our standard library, in order.

    The interpreter adds the others by itself: those of installed packages, and those that their
    `.pth` files name.
    """
    library = os.path.dirname(os.__file__)
    before = sys.path[: sys.path.index(library)] if library in sys.path else sys.path
    folders = (os.path.abspath(folder) for folder in before if os.path.basename(folder) != _ZIP)
    return os.pathsep.join(dict.fromkeys(folders))
