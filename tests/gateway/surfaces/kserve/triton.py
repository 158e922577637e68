"""Triton's own HTTP client for tests, unchanged but typed, with a new client per call.

A client belongs to the thread that made it (it runs on gevent), so ask in `asyncio.to_thread`.
"""

# tritonclient annotates nothing:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeArgument=false

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, cast

import ml_dtypes
import numpy as np
import tritonclient.http as http
from msgspec import Struct
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

Array = NDArray[np.generic]
Compression = Literal["gzip", "deflate"]
_Ask = Callable[..., http.InferResult | http.InferAsyncRequest]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Answered(Struct, frozen=True, kw_only=True, eq=False):
    """json: the answer's JSON. tensors: its outputs by name."""

    json: dict[str, object]
    tensors: dict[str, Array]


class Refused(Exception):
    """The server's error. status: HTTP's. message: the envelope's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message


@contextmanager
def client(url: str) -> Generator[http.InferenceServerClient]:
    asking = http.InferenceServerClient(url.removeprefix("http://"))
    try:
        yield asking
    finally:
        asking.close()


def inputs(tensors: Mapping[str, Array], *, binary: bool = True) -> list[http.InferInput]:
    found: list[http.InferInput] = []
    for name, array in tensors.items():
        datatype = cast(str, np_to_triton_dtype(array.dtype))
        one = http.InferInput(name, list(array.shape), datatype)
        one.set_data_from_numpy(array, binary_data=binary)
        found.append(one)
    return found


def requested(names: Mapping[str, bool]) -> list[http.InferRequestedOutput]:
    """names: each output, and whether it is wanted as binary data."""
    return [http.InferRequestedOutput(name, binary_data=binary) for name, binary in names.items()]


def infer(
    url: str,
    model: str,
    tensors: Mapping[str, Array],
    *,
    binary: bool = True,
    outputs: Mapping[str, bool] | None = None,
    request_id: str = "",
    version: str = "",
    later: bool = False,
    compression: Compression | None = None,
    headers: Mapping[str, str] | None = None,
    timeout_us: int | None = None,
) -> Answered:
    """Raises Refused. later: through async_infer."""
    with client(url) as asking:
        ask = cast(_Ask, asking.async_infer if later else asking.infer)
        try:
            result = ask(
                model,
                inputs(tensors, binary=binary),
                model_version=version,
                outputs=None if outputs is None else requested(outputs),
                request_id=request_id,
                request_compression_algorithm=compression,
                headers=None if headers is None else dict(headers),
                timeout=timeout_us,
            )
            found = result.get_result() if isinstance(result, http.InferAsyncRequest) else result
        except InferenceServerException as exc:
            raise Refused(int(exc.status() or 0), exc.message()) from exc
        return answered(found)


def answered(result: http.InferResult) -> Answered:
    json = cast("dict[str, object]", result.get_response())
    outputs = cast(Sequence[Mapping[str, object]], json["outputs"])
    names = [cast(str, output["name"]) for output in outputs]
    tensors = {name: cast(Array, result.as_numpy(name)) for name in names}
    return Answered(json=json, tensors=tensors)
