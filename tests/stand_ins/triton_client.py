"""The official tritonclient.http with the types that it lacks, in a thread because it blocks."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from tritonclient import http

T = TypeVar("T")
DTYPES = {
    "INT32": np.int32,
    "INT64": np.int64,
    "UINT64": np.uint64,
    "BOOL": np.bool_,
    "FP16": np.float16,
    "FP32": np.float32,
    "BYTES": np.object_,
}


class Result(Protocol):
    def as_numpy(self, name: str) -> NDArray[np.generic]: ...


class Client(Protocol):
    def infer(
        self,
        model_name: str,
        inputs: Sequence[http.InferInput],
        *,
        outputs: Sequence[http.InferRequestedOutput] | None = None,
    ) -> Result: ...

    def is_server_live(self) -> bool: ...

    def is_server_ready(self) -> bool: ...

    def is_model_ready(self, model_name: str) -> bool: ...

    def get_model_metadata(self, model_name: str) -> dict[str, list[dict[str, object]]]: ...


class _Settable(Protocol):
    def set_data_from_numpy(
        self, input_tensor: NDArray[np.generic], *, binary_data: bool
    ) -> object: ...


async def with_client(base_url: str, act: Callable[[Client], T]) -> T:
    """Run `act` with a client of the server at this URL, and return its result."""

    def work() -> T:
        with http.InferenceServerClient(base_url.removeprefix("http://")) as client:
            return act(cast("Client", client))

    return await asyncio.to_thread(work)


def tensor(name: str, values: object, datatype: str, *, binary: bool = True) -> http.InferInput:
    """values: nested lists, whose nesting is the shape."""
    data = np.array(values, dtype=DTYPES[datatype])
    wire = http.InferInput(name, list(data.shape), datatype)
    cast("_Settable", wire).set_data_from_numpy(data, binary_data=binary)
    return wire


def items(result: Result, name: str) -> object:
    """Return an output as nested lists."""
    return result.as_numpy(name).tolist()
