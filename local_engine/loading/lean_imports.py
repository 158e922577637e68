"""Keep the imports of a process that serves models to what it uses, which halves their time.

transformers imports torch's compiler (`torch._dynamo`, with torch._inductor and torch.onnx) to mark
functions for it, and torch's distributed tensors. An engine compiles and distributes nothing.
transformers also reads each file of all its models, twice, for the names that they define, and
looks at each line.

What is left out is still there for code that needs it: the compiler is imported when anything but a
marker of functions is taken from it, and the names are those that transformers itself finds.
"""

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final, cast

COMPILER: Final = "torch._dynamo"
TRACED: Final = "torch._dynamo._trace_wrapped_higher_order_op"
MARKERS: Final = ("disable", "allow_in_graph", "assume_constant_result")
"""Decorators that only mark functions for the compiler."""

NAMES: Final = "transformers.utils.import_utils"


def import_lean() -> None:
    """Import torch, and leave out of the later import of transformers what an engine never uses.

    Only for a process of our own, and before transformers, else it changes nothing. Raises
    ModuleNotFoundError without torch.
    """
    torch = importlib.import_module("torch")
    if "transformers" in sys.modules:
        return
    if COMPILER not in sys.modules:  # a device's plug-in may have imported it
        stand_in, traced = _AbsentPackage(COMPILER), _Absent(TRACED)
        for name in MARKERS:
            setattr(stand_in, name, _unmarked)
        traced.__dict__["TransformGetItemToIndex"] = _Traced
        sys.modules.update({COMPILER: stand_in, TRACED: traced})
        setattr(torch, "_dynamo", stand_in)  # noqa: B010  it has no such name yet
    distributed = importlib.import_module("torch.distributed")
    setattr(distributed, "is_available", _undistributed)  # noqa: B010  as in builds without it
    sys.meta_path.insert(0, _NamesFinder())


class _Absent(ModuleType):
    """Takes the place of a module of the compiler until something is taken from it."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # `inspect` looks for a file in each module
            raise AttributeError(name)
        return cast(object, getattr(_compiler(self.__name__), name))


class _AbsentPackage(_Absent):
    @property
    def __path__(self) -> list[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Read by the import of a module below this one."""
        return cast("list[str]", _compiler(self.__name__).__path__)


class _Traced:
    """The class of the compiler that transformers' masks use, imported with its first use."""

    def __new__(cls) -> "_Traced":
        return cast(Callable[[], _Traced], _compiler(TRACED).TransformGetItemToIndex)()


def _compiler(name: str) -> ModuleType:
    """Import the compiler's own module in the stand-in's place."""
    if isinstance(stand_in := sys.modules.get(COMPILER), _Absent):
        for absent in (COMPILER, TRACED):
            sys.modules.pop(absent, None)
        for marker in MARKERS:
            vars(stand_in).pop(marker, None)
        vars(sys.modules["torch"]).pop("_dynamo", None)
    return importlib.import_module(name)


def _unmarked(function: object = None, *_: object, **__: object) -> object:
    """Decorate nothing, with or without arguments."""
    return _unmarked if function is None else function


def _undistributed() -> bool:
    return False


class _NamesFinder:
    """Quickens transformers' search for names as soon as its module is imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != NAMES:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_quicken(module: ModuleType) -> None:
                execute(module)
                quicken(module)

            spec.loader.exec_module = execute_and_quicken
        return spec


def quicken(names: ModuleType) -> None:
    """Search each file of transformers once, from its last `__all__` on.

    names: `transformers.utils.import_utils`, or a version of it, in which the functions may differ
    or be absent.
    """
    listed = cast("Callable[..., object] | None", getattr(names, "fetch__all__", None))
    scan = cast(
        "Callable[..., object] | None", getattr(names, "create_import_structure_from_path", None)
    )
    if listed is not None:

        def listed_at_the_end(*arguments: object) -> object:
            match arguments:
                case (str(text),):
                    return listed(text[text.rfind("\n__all__") + 1 :])
                case _:
                    return listed(*arguments)

        setattr(names, "fetch__all__", listed_at_the_end)  # noqa: B010  no type knows it
    if scan is not None:
        scanned: dict[str, object] = {}

        def scan_once(*arguments: object) -> object:
            match arguments:
                case (str() | os.PathLike(),):
                    path = os.fspath(cast("str | os.PathLike[str]", arguments[0]))
                    folder = os.path.dirname(path) if os.path.isfile(path) else path
                    if folder not in scanned:
                        scanned[folder] = scan(folder)
                    return _copied(scanned[folder])
                case _:
                    return scan(*arguments)

        setattr(names, "create_import_structure_from_path", scan_once)  # noqa: B010  the same


def _copied(names: object) -> object:
    """Copy dictionaries and sets, which transformers changes after it has searched."""
    if isinstance(names, dict):
        named = cast("dict[object, object]", names)
        return {key: _copied(value) for key, value in named.items()}
    return set(cast("set[str]", names)) if isinstance(names, set) else names
