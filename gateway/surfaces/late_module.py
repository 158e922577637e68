"""Modules that are imported when they are used first."""

from collections.abc import Collection
from importlib import import_module
from importlib.util import find_spec


class LateModule:
    """Stands for a module, and imports it when an attribute of it is read first, in any thread.

    For the translations of surfaces that a gateway may never serve: 0.1 to 0.5 MB each. Declare
    the module itself for type checkers:

        if TYPE_CHECKING:
            from strowger_gateway.gateway.surfaces.mindie import translation
        else:
            translation = LateModule("gateway/surfaces/mindie/translation.py")
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        found: object = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found


def import_translations(surfaces: Collection[str]) -> None:
    """Import now what the first request of these surfaces would import: it takes 30 to 60 ms.

    surfaces: their names; those without such a module are left out.
    """
    for name in surfaces:
        package = f"strowger_gateway.gateway.surfaces.{name}"
        if name.isidentifier() and find_spec(package) and find_spec(f"{package}.translation"):
            import_module(f"{package}.translation")
