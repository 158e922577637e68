"""The input tensors of one infer request, checked against TensorRT-LLM's table, by name."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.gateway.surfaces.kserve.binary import BinaryTail
from strowger_gateway.gateway.surfaces.kserve.parameter_tables import INPUT, TensorSpec, shape_text
from strowger_gateway.gateway.surfaces.kserve.tensors import (
    Datatype,
    Integers,
    numbers,
    read_json,
    scalar,
    strings_of_bytes,
    strings_of_json,
    tensor_of_bytes,
)
from strowger_gateway.gateway.surfaces.kserve.wire import InputWire
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.tensors import Tensor, unpack_words


class Inputs:
    """A request's tensors. Reading a tensor that was not sent returns `UNSET`.

    Several names for the same tensor can be read together; sending two of them is an error.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor | Integers],
        texts: Mapping[str, tuple[str, ...]],
    ) -> None:
        """texts: the tensors of strings, which are BYTES on the wire."""
        self._tensors = tensors
        self._texts = texts

    @property
    def names(self) -> Iterable[str]:
        """The tensors of numbers that were sent."""
        return self._tensors

    def required(self, *names: str) -> Sequence[int]:
        """Return the integers of the tensor; raise InvalidRequest if it is missing."""
        tensor = self._one(*names)
        if isinstance(tensor, UnsetType):
            raise InvalidRequest(f"{' or '.join(names)} is required", param=names[0])
        return numbers(tensor)

    def tensor(self, name: str) -> Tensor | UnsetType:
        tensor = self._tensors.get(name, UNSET)
        return tensor.packed() if isinstance(tensor, Integers) else tensor

    def _one(self, *names: str) -> Tensor | Integers | UnsetType:
        if len(names) == 1:
            return self._tensors.get(names[0], UNSET)
        sent = [name for name in names if name in self._tensors]
        if len(sent) > 1:
            raise InvalidRequest(
                f"{' and '.join(sent)} mean the same; send only one of them", param=sent[0]
            )
        return self._tensors[sent[0]] if sent else UNSET

    def integer(self, *names: str) -> int | UnsetType:
        tensor = self._one(*names)
        return UNSET if isinstance(tensor, UnsetType) else int(scalar(tensor))

    def number(self, *names: str) -> float | UnsetType:
        """Return the number; raise InvalidRequest for NaN and infinities."""
        tensor = self._one(*names)
        if isinstance(tensor, UnsetType):
            return UNSET
        value = float(scalar(tensor))
        if not isfinite(value):
            name = self.sent(*names)
            raise InvalidRequest(f"{name}: {value} must be finite", param=name)
        return value

    def flag(self, name: str, *, silent: bool = False) -> bool:
        tensor = self._tensors.get(name)
        return silent if tensor is None else bool(scalar(tensor))

    def tokens(self, name: str) -> tuple[int, ...]:
        return tuple(self.required(name))

    def words(self, name: str) -> tuple[tuple[int, ...], ...] | UnsetType:
        """Return token sequences, packed as two rows. Raises InvalidRequest."""
        tensor = self._tensors.get(name)
        if tensor is None:
            return UNSET
        ids, width = list(numbers(tensor)), tensor.shape[-1]
        offsets = ids[width:]
        ends = offsets.index(-1) if -1 in offsets else width
        if any(offset != -1 for offset in offsets[ends:]):
            raise InvalidRequest(f"{name}: after an offset of -1 only -1 may follow", param=name)
        try:
            return unpack_words(ids[:width], offsets[:ends])
        except InvalidRequest as exc:
            raise InvalidRequest(f"{name}: {exc.message}", param=name) from exc

    def sent(self, *names: str) -> str:
        """Return which of several names of a tensor the client used; else the first."""
        return next((name for name in names if name in self._tensors), names[0])

    def texts(self, name: str) -> tuple[str, ...] | UnsetType:
        return self._texts.get(name, UNSET)

    def has(self, name: str) -> bool:
        return name in self._tensors or name in self._texts

    def has_any(self, names: frozenset[str]) -> bool:
        """Return whether a tensor of numbers with one of these names was sent."""
        return not names.isdisjoint(self._tensors)


def read_inputs(wires: Sequence[InputWire], tail: BinaryTail) -> Inputs:
    """Read all tensors. Raises InvalidRequest that names the tensor, and what is allowed."""
    tensors: dict[str, Tensor | Integers] = {}
    texts: dict[str, tuple[str, ...]] = {}
    for wire in wires:
        if wire.name in tensors or wire.name in texts:
            raise InvalidRequest(f"{wire.name}: this tensor was sent twice", param=wire.name)
        spec = INPUT.get(wire.name)
        if spec is None:
            raise InvalidRequest(
                f"{wire.name}: unknown input tensor; GET /v2/models/{{model}} lists the known ones",
                param=wire.name,
            )
        _check(spec, wire)
        if wire.datatype == "BYTES":
            texts[wire.name] = _strings(wire, tail)
        else:
            tensors[wire.name] = _tensor(spec, wire, tail)
    tail.close()
    return Inputs(tensors, texts)


def _tensor(spec: TensorSpec, wire: InputWire, tail: BinaryTail) -> Tensor | Integers:
    datatype = cast(Datatype, wire.datatype)
    data = _data(wire, tail)
    if isinstance(data, Raw):
        tensor = read_json(wire.name, datatype, wire.shape, data)
    else:
        tensor = tensor_of_bytes(wire.name, datatype, wire.shape, data)
    return _without_batch(tensor, spec) if len(tensor.shape) > spec.rank else tensor


def _strings(wire: InputWire, tail: BinaryTail) -> tuple[str, ...]:
    data = _data(wire, tail)
    if isinstance(data, Raw):
        return strings_of_json(wire.name, wire.shape, data)
    return strings_of_bytes(wire.name, wire.shape, data)


def _data(wire: InputWire, tail: BinaryTail) -> Raw | bytes:
    """Return the JSON data, or the bytes after the JSON."""
    size = wire.parameters.binary_data_size if wire.parameters else None
    if size is None:
        if isinstance(wire.data, UnsetType):
            raise InvalidRequest(
                f"{wire.name}: has neither data nor parameters.binary_data_size", param=wire.name
            )
        return wire.data
    if not isinstance(wire.data, UnsetType):
        raise InvalidRequest(
            f"{wire.name}: has both data and parameters.binary_data_size", param=wire.name
        )
    return tail.take(wire.name, size)


def _check(spec: TensorSpec, wire: InputWire) -> None:
    if wire.datatype not in spec.datatypes:
        raise InvalidRequest(
            f"{spec.name}: datatype {wire.datatype} must be {' or '.join(spec.datatypes)}",
            param=spec.name,
        )
    if not spec.takes(wire.shape):
        raise InvalidRequest(
            f"{spec.name}: shape {list(wire.shape)} must be "
            f"{' or '.join(map(shape_text, spec.shapes))}",
            param=spec.name,
        )


def _without_batch(tensor: Tensor | Integers, spec: TensorSpec) -> Tensor | Integers:
    """Return the tensor without its leading batch dimension of one."""
    if isinstance(tensor, Integers):
        return Integers(shape=tensor.shape[1:], values=tensor.values)
    if spec.name == "prompt_embedding_table" and len(tensor.shape) == 2:
        return tensor
    return msgspec.structs.replace(tensor, shape=tensor.shape[1:])
