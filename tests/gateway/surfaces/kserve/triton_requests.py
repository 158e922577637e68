"""Input tensors of TensorRT-LLM clients for the bundled model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]  # a generic path inside

from strowger_gateway import local_engine
from strowger_gateway.schemas.tensors import pack_words

VOCABULARY, HIDDEN = 1024, 128
INPUT_IDS = (1, 434, 230, 317, 230, 26, 32, 230, 20, 230, 27, 30, 40)
"""What is 17 + 25?"""


def tokens(ids: Sequence[int]) -> NDArray[np.int32]:
    return np.array([ids], dtype=np.int32)


def integer(value: int) -> NDArray[np.int32]:
    return np.array([value], dtype=np.int32)


def number(value: float) -> NDArray[np.float32]:
    return np.array([value], dtype=np.float32)


def unsigned(value: int) -> NDArray[np.uint64]:
    return np.array([value], dtype=np.uint64)


def flag(value: bool) -> NDArray[np.bool_]:
    return np.array([value], dtype=np.bool_)


def biased(tokens: Mapping[int, float]) -> NDArray[np.float32]:
    row = np.zeros((1, VOCABULARY), dtype=np.float32)
    for token, value in tokens.items():
        row[0, token] = value
    return row


def words(given: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    return np.array([pack_words(given)], dtype=np.int32)


def embeddings() -> NDArray[np.float32]:
    """The bundled model's own, [V, hidden]."""
    path = Path(local_engine.__file__).parent / "bundled" / "tiny-chat" / "model.safetensors"
    weights = cast("dict[str, NDArray[np.float32]]", load_file(path))
    return weights["model.embed_tokens.weight"]
