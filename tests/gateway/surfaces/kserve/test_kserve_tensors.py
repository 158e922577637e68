"""Tensor data in JSON and in bytes, compared with Triton's own client."""

# tritonclient annotates nothing:
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false

import gzip
import zlib
from typing import cast

import msgspec
import numpy as np
import pytest
import tritonclient.http as http
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from msgspec import Raw
from numpy.typing import NDArray
from tritonclient.http._utils import _get_inference_request
from tritonclient.utils import np_to_triton_dtype

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.kserve.binary import MAX_INFLATED, split_body
from strowger_gateway.gateway.surfaces.kserve.infer_render import InferRenderer
from strowger_gateway.gateway.surfaces.kserve.requests import (
    InferReply,
    InferRequest,
    RequestedOutput,
)
from strowger_gateway.gateway.surfaces.kserve.tensors import (
    DATATYPES,
    Datatype,
    bytes_of_strings,
    int32,
    json_of_tensor,
    numbers,
    read_json,
    scalar,
    strings_of_bytes,
    strings_of_json,
    tensor_of_bytes,
    tensor_of_json,
)
from strowger_gateway.schemas.answers import Answer, Choice
from strowger_gateway.schemas.errors import BodyTooLarge, InvalidRequest
from strowger_gateway.schemas.events import Started
from strowger_gateway.schemas.tensors import Tensor
from tests.gateway.surfaces.kserve.triton import BFLOAT16, Array, answered, inputs

NUMPY: dict[Datatype, np.dtype[np.generic]] = {
    "BOOL": np.dtype(np.bool_),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "UINT64": np.dtype(np.uint64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
}
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)
ARRAYS = st.sampled_from(sorted(NUMPY)).flatmap(lambda name: arrays.arrays(NUMPY[name], SHAPES))


def datatype(array: Array) -> Datatype:
    return cast(Datatype, np_to_triton_dtype(array.dtype))


def array_of(tensor: Tensor) -> Array:
    return np.frombuffer(tensor.data, dtype=NUMPY[DATATYPES[tensor.dtype]]).reshape(tensor.shape)


@given(st.lists(ARRAYS, max_size=4))
def test_what_tritons_client_puts_behind_the_json_is_read_as_it_was(given: list[Array]) -> None:
    sent = inputs({f"t{place}": array for place, array in enumerate(given)})
    body, length = _get_inference_request(sent, "", None, 0, False, False, 0, None, None)
    headers = [(b"inference-header-content-length", b"%d" % length)] if length else []

    json, tail = split_body(Inbound(body=body, max_choices=1, headers=headers))
    sizes = [each.nbytes for each in given]
    read = [
        tensor_of_bytes("t", datatype(array), array.shape, tail.take("t", size))
        for array, size in zip(given, sizes, strict=True)
    ]
    tail.close()

    assert len(msgspec.json.decode(json)["inputs"]) == len(given)
    for array, tensor in zip(given, read, strict=True):
        np.testing.assert_array_equal(array_of(tensor), array)


@given(ARRAYS.filter(lambda array: array.dtype != np.float16 and bool(np.isfinite(array).all())))
def test_what_tritons_client_writes_as_json_is_read_as_it_was(array: Array) -> None:
    (sent,) = inputs({"t": array}, binary=False)
    data = Raw(msgspec.json.encode(sent._get_tensor()["data"]))

    tensor = tensor_of_json("t", datatype(array), array.shape, data)

    np.testing.assert_array_equal(array_of(tensor), array)


@given(st.booleans(), arrays.arrays(np.float32, (1, 2, 3)), st.lists(st.integers(0, 9)))
def test_tritons_client_reads_our_outputs_in_both_forms(
    binary: bool, logits: NDArray[np.float32], ids: list[int]
) -> None:
    logits = np.nan_to_num(logits)
    tensor = Tensor(dtype="float32", shape=(2, 3), data=logits.tobytes())
    choice = Choice(index=0, tool_calls=[], logprobs=[], token_ids=ids, opaque={})
    answer = Answer(started=Started(), choices=[choice], context_logits=tensor)
    wanted = tuple(
        RequestedOutput(name=name, binary=binary) for name in ("context_logits", "output_ids")
    )
    renderer = InferRenderer(
        InferRequest(model="m", tokens=(1,), reply=InferReply(id="7", outputs=wanted))
    )

    body = renderer.answer(answer)
    length = dict(renderer.headers("p/m")).get(b"inference-header-content-length")
    result = answered(
        http.InferResult.from_response_body(
            body, header_length=None if length is None else int(length)
        )
    )

    assert (length is not None) == binary
    assert (result.json["model_name"], result.json["id"]) == ("m", "7")
    np.testing.assert_array_equal(result.tensors["context_logits"], logits)
    assert result.tensors["output_ids"].tolist() == [ids]


@given(st.lists(st.text()))
def test_strings_are_read_from_the_bytes_and_the_json_that_tritons_client_writes(
    texts: list[str],
) -> None:
    array = np.array([text.encode() for text in texts], dtype=np.object_)
    (binary,) = inputs({"t": array})
    (plain,) = inputs({"t": array}, binary=False)
    json = Raw(msgspec.json.encode(plain._get_tensor().get("data", [])))

    read = strings_of_bytes("t", (len(texts),), cast(bytes, binary._get_binary_data()))

    assert read == tuple(texts)
    assert bytes_of_strings(texts) == binary._get_binary_data()
    assert strings_of_json("t", (len(texts),), json) == read


def test_bfloat16_travels_as_bytes_and_has_no_json_form() -> None:
    array = np.array([1.5, -2.0], dtype=BFLOAT16)
    (sent,) = inputs({"t": array})

    tensor = tensor_of_bytes("t", "BF16", (2,), cast(bytes, sent._get_binary_data()))

    assert (tensor.dtype, tensor.data) == ("bfloat16", array.tobytes())
    for name in ("FP16", "BF16"):
        with pytest.raises(InvalidRequest, match=f"t: {name} has no JSON form"):
            tensor_of_json("t", name, (1,), Raw(b"[1.0]"))


@pytest.mark.parametrize("data", [b"[1,2,3,4]", b"[[1,2],[3,4]]", b"[[[1],[2]],[3,4]]"])
def test_json_data_may_be_flat_or_nested(data: bytes) -> None:
    assert tensor_of_json("t", "INT32", (2, 2), Raw(data)) == int32((2, 2), (1, 2, 3, 4))
    assert list(numbers(read_json("t", "INT32", (2, 2), Raw(data)))) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("datatype", "data", "said"),
    [
        ("INT32", b'["1"]', "t: data must be integers \\(INT32\\), in one list or in nested ones"),
        ("INT32", b"[1.5]", "must be integers"),
        ("INT32", b"[true]", "must be integers"),
        ("INT32", b"[2147483648]", "t: a value is out of range for INT32"),
        ("UINT64", b"[-1]", "t: a value is out of range for UINT64"),
        ("FP32", b'[{"a":1}]', "t: data must be numbers"),
        ("BOOL", b"[1]", "t: data must be true or false"),
        ("INT32", b"[1,2]", r"t: its data has 2 items, but shape \[1\] has 1"),
    ],
)
def test_json_data_of_another_kind_or_size_is_refused(
    datatype: Datatype, data: bytes, said: str
) -> None:
    for read in (tensor_of_json, read_json):
        with pytest.raises(InvalidRequest, match=said) as caught:
            read("t", datatype, (1,), Raw(data))

        assert caught.value.param == "t"


def test_bytes_that_fit_no_tensor_are_refused() -> None:
    body = b'{"a":1}xyz'
    headers = [(b"inference-header-content-length", b"7")]
    _, tail = split_body(Inbound(body=body, max_choices=1, headers=headers))

    with pytest.raises(InvalidRequest, match="t: binary_data_size is 4, but 3 bytes are left"):
        tail.take("t", 4)
    with pytest.raises(InvalidRequest, match="t: binary_data_size is -1"):
        tail.take("t", -1)
    with pytest.raises(InvalidRequest, match="the body has 3 bytes after those of its tensors"):
        tail.close()
    with pytest.raises(InvalidRequest, match=r"t: its data has 0.75 items, but shape \[1\] has 1"):
        tensor_of_bytes("t", "INT32", (1,), tail.take("t", 3))


@pytest.mark.parametrize("length", [b"8x", b"-1", b"99"])
def test_a_length_of_the_json_that_cannot_be_is_refused(length: bytes) -> None:
    headers = [(b"inference-header-content-length", length)]

    with pytest.raises(InvalidRequest, match="must be the JSON's length, at most the body's 2"):
        split_body(Inbound(body=b"{}", max_choices=1, headers=headers))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "GZIP"])
def test_a_compressed_body_is_unfolded(encoding: str) -> None:
    body = gzip.compress(b"{}") if encoding.lower() == "gzip" else zlib.compress(b"{}")

    json, _ = split_body(inbound(body, encoding))

    assert json == b"{}"


def inbound(body: bytes, encoding: str) -> Inbound:
    return Inbound(body=body, max_choices=1, headers=[(b"content-encoding", encoding.encode())])


def test_a_compressed_body_has_a_bound_and_must_be_whole() -> None:
    bomb = gzip.compress(bytes(MAX_INFLATED + 1))
    whole = gzip.compress(b"{}" * 100)

    with pytest.raises(BodyTooLarge, match="is larger than"):
        split_body(inbound(bomb, "gzip"))
    for broken in (whole[:-3], whole + b"x"):
        with pytest.raises(InvalidRequest, match="truncated or has trailing"):
            split_body(inbound(broken, "gzip"))
    with pytest.raises(InvalidRequest, match="the body is not valid gzip"):
        split_body(inbound(b"{}", "gzip"))
    with pytest.raises(InvalidRequest, match="'br' is not supported; send gzip, deflate or none"):
        split_body(inbound(b"{}", "br"))


def test_what_json_cannot_write_becomes_the_nearest_that_it_can() -> None:
    values = np.array([np.inf, -np.inf, np.nan, 1.5], dtype=np.float32)

    written = json_of_tensor(Tensor(dtype="float32", shape=(4,), data=values.tobytes()))

    largest = float(np.finfo(np.float32).max)
    assert msgspec.json.decode(written) == [largest, -largest, 0.0, 1.5]


@given(st.floats(width=32))
def test_a_float32_is_the_shortest_number_that_rounds_to_it(value: float) -> None:
    array = np.array([value], dtype=np.float32)

    found = scalar(Tensor(dtype="float32", shape=(1,), data=array.tobytes()))

    np.testing.assert_array_equal(np.array([found], dtype=np.float32), array)
    assert len(repr(found)) <= len(repr(value)) + 1


@pytest.mark.parametrize("value", [0.7, 0.9, 1e-6, 0.95, 1.1, 3.0])
def test_a_number_that_the_client_wrote_as_float32_goes_on_as_it_was_written(value: float) -> None:
    array = np.array([value], dtype=np.float32)

    assert scalar(Tensor(dtype="float32", shape=(1,), data=array.tobytes())) == value
