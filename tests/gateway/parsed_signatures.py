"""Litestar's reading of a function, kept for the next gateway of the same process.

Each gateway in a test registers the same hundred functions again, as closures. Reading their
annotations again is a third of the time that building its application takes.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import CodeType, FunctionType

from litestar.utils.signature import ParsedSignature


@cache
def keep_parsed_signatures() -> None:
    """Let Litestar read functions once that are declared in the same way."""
    parse = ParsedSignature.from_fn
    kept: dict[CodeType, tuple[tuple[object, ...], ParsedSignature]] = {}

    def from_fn(
        fn: Callable[..., object], signature_namespace: dict[str, object]
    ) -> ParsedSignature:
        if not isinstance(fn, FunctionType):
            return parse(fn, signature_namespace)
        declared = (fn.__module__, fn.__annotations__, fn.__defaults__, fn.__kwdefaults__)
        found = kept.get(fn.__code__)
        if found is None or found[0] != declared:
            found = kept[fn.__code__] = (declared, parse(fn, signature_namespace))
        return replace(found[1], parameters=dict(found[1].parameters))

    setattr(ParsedSignature, "from_fn", staticmethod(from_fn))  # noqa: B010  it is not ours
