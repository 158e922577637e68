"""Properties of every body on the KServe surface, generated and recorded."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.kserve.bodies import error_body
from strowger_gateway.gateway.surfaces.kserve.generate_parse import parse_generate
from strowger_gateway.gateway.surfaces.kserve.generate_wire import GenerateWire
from strowger_gateway.gateway.surfaces.kserve.infer_parse import parse_infer
from strowger_gateway.gateway.surfaces.kserve.parameter_tables import INPUTS, OUTPUTS
from strowger_gateway.gateway.surfaces.kserve.requests import GenerateTextRequest
from strowger_gateway.schemas.errors import CallerError, InvalidRequest

ROOT = Path(__file__).parents[4]
RECORDINGS = Path(os.environ.get("STROWGER_RECORDINGS", ROOT.parent / "shared" / "recordings"))
NAMES = st.sampled_from([spec.name for spec in INPUTS]) | st.text(max_size=3)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=8,
)
SIDES = st.integers(-2, 4) | st.integers(-(2**62), 2**62)
TENSOR = st.fixed_dictionaries(
    {
        "name": NAMES,
        "shape": st.lists(SIDES, max_size=4),
        "datatype": st.sampled_from(["INT32", "FP32", "BOOL", "UINT64", "FP16", "BYTES", "FP64"]),
    },
    optional={
        "data": JSON | st.lists(st.integers(-3, 9), max_size=4),
        "parameters": st.fixed_dictionaries(
            {}, optional={"binary_data_size": st.integers(-5, 40), "x": JSON}
        ),
    },
)
REQUIRED = (
    {"name": "request_output_len", "shape": [1, 1], "datatype": "INT32", "data": [4]},
    {"name": "input_ids", "shape": [1, 2], "datatype": "INT32", "data": [5, 6]},
)
OUTPUT = st.fixed_dictionaries(
    {"name": st.sampled_from([spec.name for spec in OUTPUTS]) | st.text(max_size=2)},
    optional={"parameters": st.dictionaries(st.just("binary_data"), JSON, max_size=1)},
)


def infer(body: bytes, header: int | None = None) -> object:
    headers = [] if header is None else [(b"inference-header-content-length", b"%d" % header)]
    return parse_infer(Inbound(body=body, model="m", max_choices=16, headers=headers))


def generate(body: bytes) -> object:
    return parse_generate(Inbound(body=body, model="m", max_choices=16), body, streams=True)


def is_taken_or_refused(parse: Callable[[bytes], object], body: bytes) -> bool:
    """Parses, or raises nothing but an error of the caller's that says something."""
    try:
        parse(body)
    except CallerError as exc:
        return bool(exc.message)
    return True


@pytest.mark.parametrize("parse", [infer, generate])
@given(body=st.binary(max_size=64))
def test_arbitrary_bytes_are_at_most_refused(parse: Callable[[bytes], object], body: bytes) -> None:
    assert is_taken_or_refused(parse, body)


@given(
    tensors=st.lists(TENSOR, max_size=3),
    whole=st.booleans(),
    outputs=st.none() | st.lists(OUTPUT, max_size=2),
    tail=st.binary(max_size=40),
)
def test_arbitrary_tensors_are_at_most_refused(
    tensors: list[dict[str, object]],
    whole: bool,
    outputs: list[dict[str, object]] | None,
    tail: bytes,
) -> None:
    inputs = [*REQUIRED, *tensors] if whole else tensors
    json = msgspec.json.encode({"inputs": inputs, "outputs": outputs})

    assert is_taken_or_refused(infer, json)
    assert is_taken_or_refused(lambda body: infer(body, header=len(json)), json + tail)


@given(
    fields=st.dictionaries(st.sampled_from(GenerateWire.__struct_fields__), JSON, max_size=5),
    inner=st.dictionaries(st.sampled_from(GenerateWire.__struct_fields__), JSON, max_size=3),
)
def test_arbitrary_fields_are_at_most_refused(
    fields: Mapping[str, object], inner: Mapping[str, object]
) -> None:
    base = {"text_input": "x", "max_tokens": 3}

    assert is_taken_or_refused(generate, msgspec.json.encode({**base, **fields}))
    assert is_taken_or_refused(generate, msgspec.json.encode({**base, "parameters": inner}))


def recorded(case: str) -> bytes:
    path = RECORDINGS / "triton" / case / "request.json"
    if not path.exists():
        pytest.skip("the recordings are not here")
    return path.read_bytes()


@pytest.mark.parametrize(
    "case", ["generate-basic", "generate-bad-and-stop-words", "generate-context-logits"]
)
def test_recorded_requests_to_an_ensemble_are_taken(case: str) -> None:
    body = recorded(case)

    request = generate(body)

    assert isinstance(request, GenerateTextRequest)
    assert request.prompts == ("What is machine learning?",)
    assert request.sampling.max_tokens == 20


def test_a_recorded_request_with_an_image_is_refused_by_its_name() -> None:
    body = recorded("generate-stream-one-event")

    with pytest.raises(InvalidRequest, match="image_url_input: unknown field of generate and"):
        generate(body)


@pytest.mark.parametrize(
    ("exc", "said"),
    [
        (
            InvalidRequest("tokens[2]: token 9 must be within 0 and 7", param="tokens"),
            "input_ids[2]: token 9 must be within 0 and 7",
        ),
        (
            InvalidRequest("p/m: logprobs is not supported", param="logprobs"),
            "p/m: return_log_probs is not supported",
        ),
        (
            InvalidRequest("n: 3 must be within 1 and beam_width, 2", param="n"),
            "num_return_sequences: 3 must be within 1 and beam_width, 2",
        ),
        (InvalidRequest("stop: not here", param="stop"), "stop: not here"),
        (InvalidRequest("tokens are what counts"), "tokens are what counts"),
    ],
)
def test_an_error_names_the_tensor_and_not_a_field_of_ours(exc: InvalidRequest, said: str) -> None:
    assert msgspec.json.decode(error_body(exc)) == {"error": said}
