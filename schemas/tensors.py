"""Tensors that travel inside requests and answers, and the word lists packed into them.

Layout: TensorRT-LLM's InferenceRequest,
https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from strowger_gateway.schemas.errors import InvalidRequest

DType = Literal["bool", "int32", "int64", "uint64", "float16", "bfloat16", "float32"]

ITEM_BYTES: dict[DType, int] = {
    "bool": 1,
    "int32": 4,
    "int64": 8,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
}


class Tensor(Struct, frozen=True, kw_only=True):
    """Row-major, little-endian. `data` holds exactly prod(shape) items of `dtype`."""

    dtype: DType
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        items = 1
        for side in self.shape:
            if side < 0:
                raise InvalidRequest(f"shape: a dimension is {side}; dimensions must be 0 or more")
            items *= side
        size = items * ITEM_BYTES[self.dtype]
        if len(self.data) != size:
            raise InvalidRequest(
                f"data: {len(self.data)} bytes, but shape {list(self.shape)} of {self.dtype} "
                f"needs {size}"
            )


def pack_words(words: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pack token sequences into TensorRT-LLM's two rows: all ids, and end offsets padded with -1.

    [5, 7, 3] and [9, 2] become (5, 7, 3, 9, 2) and (3, 5, -1, -1, -1).
    """
    ids = tuple(token for word in words for token in word)
    ends: list[int] = []
    for word in words:
        ends.append((ends[-1] if ends else 0) + len(word))
    return ids, (*ends, *(-1 for _ in range(len(ids) - len(ends))))


def unpack_words(ids: Sequence[int], offsets: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """Invert `pack_words`.

    Raises InvalidRequest if the offsets do not increase or point past the ids.
    """
    words: list[tuple[int, ...]] = []
    start = 0
    for end in offsets:
        if end < 0:
            break
        if end <= start or end > len(ids):
            raise InvalidRequest(
                f"word list: offset {end} must be over {start} and at most {len(ids)}"
            )
        words.append(tuple(ids[start:end]))
        start = end
    return tuple(words)
