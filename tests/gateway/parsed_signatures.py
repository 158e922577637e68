"""Litestar's reading of a function, kept for the next gateway of the same process.

Each gateway in a test registers the same hundred functions again, as closures. Reading their
annotations again, and making a model of their parameters, is half of the time that building its
application takes.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import CodeType, FunctionType

from litestar._signature import SignatureModel
from litestar.dto import AbstractDTO
from litestar.params import ParameterKwarg
from litestar.types import TypeDecodersSequence
from litestar.utils.signature import ParsedSignature


@cache
def keep_parsed_signatures() -> None:
    """Let Litestar read functions once that are declared in the same way."""
    _keep_signatures()
    _keep_models()
    # Its own hash is that of all members, and a tenth of the time that an application takes.
    setattr(ParameterKwarg, "__hash__", _hash_of)  # noqa: B010


def _keep_signatures() -> None:
    parse = ParsedSignature.from_fn
    kept: dict[CodeType, tuple[tuple[object, ...], ParsedSignature]] = {}

    def from_fn(
        fn: Callable[..., object], signature_namespace: dict[str, object]
    ) -> ParsedSignature:
        if not isinstance(fn, FunctionType):
            return parse(fn, signature_namespace)
        declared = _declared(fn)
        found = kept.get(fn.__code__)
        if found is None or found[0] != declared:
            found = kept[fn.__code__] = (declared, parse(fn, signature_namespace))
        return replace(found[1], parameters=dict(found[1].parameters))

    setattr(ParsedSignature, "from_fn", staticmethod(from_fn))  # noqa: B010  it is not ours


def _keep_models() -> None:
    make = SignatureModel.create  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  of any DTO
    kept: dict[CodeType, tuple[tuple[object, ...], type[SignatureModel]]] = {}

    def create(
        dependency_name_set: set[str],
        fn: Callable[..., object],
        parsed_signature: ParsedSignature,
        type_decoders: TypeDecodersSequence,
        data_dto: type[AbstractDTO[object]] | None = None,
    ) -> type[SignatureModel]:
        def made() -> type[SignatureModel]:
            return make(dependency_name_set, fn, parsed_signature, type_decoders, data_dto)

        if not isinstance(fn, FunctionType):
            return made()
        declared = (*_declared(fn), dependency_name_set, list(type_decoders), data_dto)
        found = kept.get(fn.__code__)
        if found is None or found[0] != declared:
            found = kept[fn.__code__] = (declared, made())
        return found[1]

    setattr(SignatureModel, "create", staticmethod(create))  # noqa: B010  it is not ours


def _hash_of(one: ParameterKwarg) -> int:
    return hash((one.name, one.description))


def _declared(fn: FunctionType) -> tuple[object, ...]:
    return (fn.__module__, fn.__annotations__, fn.__defaults__, fn.__kwdefaults__)
