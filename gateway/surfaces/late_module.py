"""Modules that are imported when they are used first."""

from importlib import import_module


class LateModule:
    """Stands for a module, and imports it when an attribute of it is read first, in any thread.

    For the translations of surfaces that a gateway may never serve: 0.1 to 0.5 MB each. Declare
    the module itself for type checkers:

        if TYPE_CHECKING:
            from gateway.surfaces.mindie import translation
        else:
            translation = LateModule("gateway.surfaces.mindie.translation")
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        found: object = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found
