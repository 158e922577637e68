"""The LLM API's model on Triton: its names, cumulative text and finish reasons."""

import msgspec
import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.testing import translate
from strowger_gateway.adapters.triton.llmapi import TritonLlmApiAdapter
from strowger_gateway.schemas.errors import InvalidRequest, UpstreamBroken, UpstreamFailed
from strowger_gateway.schemas.events import Event, Finished, Started, TextDelta
from strowger_gateway.schemas.requests import CompletionRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.traffic import fixture
from tests.stand_ins.triton_models import MODELS
from tests.stand_ins.triton_wire import read_generate

LLM = TritonLlmApiAdapter(Endpoint(name="triton", base_url="http://gpu.test:8000"))


def asking(**sampling: object) -> CompletionRequest:
    return CompletionRequest(
        model="m", prompts=("Why?",), sampling=msgspec.structs.replace(Sampling(), **sampling)
    )


def streaming() -> CompletionRequest:
    return msgspec.structs.replace(asking(), stream=True)


def sent(request: CompletionRequest) -> dict[str, object]:
    """Return the server's view; every key must be an input of the model."""
    outbound = LLM.encode(request, "llmapi")
    asked = read_generate(MODELS["llmapi"], "generate", outbound.body)
    assert not asked.parameters
    return {name: one.items for name, one in asked.tensors.items()}


PLAIN = {
    "text_input": ["Why?"],
    "sampling_param_exclude_input_from_output": [True],
    "return_finish_reason": [True],
    "return_stop_reason": [True],
}


@pytest.mark.parametrize(
    ("sampling", "wire"),
    [
        ({}, {}),
        ({"max_tokens": 5}, {"max_tokens": [5]}),
        ({"temperature": 0.5}, {"temperature": [0.5], "top_p": [1.0]}),
        ({"temperature": 0.0, "top_p": 0.5}, {"top_k": [1]}),
        ({"seed": -1, "best_of": 2}, {"seed": [2**64 - 1], "best_of": [2]}),
        ({"stop": ("a", "b")}, {"stop": ["a", "b"]}),
        ({"presence_penalty": 0.5, "top_k": 3}, {"presence_penalty": [0.5], "top_k": [3]}),
    ],
)
def test_sampling_has_the_llm_apis_names(
    sampling: dict[str, object], wire: dict[str, object]
) -> None:
    named = {f"sampling_param_{name}": value for name, value in wire.items()}

    assert sent(asking(**sampling)) == {**PLAIN, **named}


def test_a_stream_is_requested_by_endpoint_and_by_field() -> None:
    outbound = LLM.encode(streaming(), "llmapi")

    assert outbound.target == "/v2/models/llmapi/generate_stream"
    assert sent(streaming())["streaming"] == [True]


@pytest.mark.parametrize("field", ["min_tokens", "repetition_penalty", "end_id", "logprobs", "n"])
def test_what_the_model_has_no_input_for_is_reported(field: str) -> None:
    values = {"logprobs": True, "repetition_penalty": 1.5}

    problems = unsupported(asking(**{field: values.get(field, 2)}), LLM.supports)

    assert [one.field for one in problems] == [field]


def test_token_ids_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="prompt: "):
        LLM.encode(msgspec.structs.replace(asking(), prompts=((1, 2),)), "m")


def read(name: str, request: CompletionRequest) -> list[Event]:
    return translate(LLM, request, [fixture(f"triton/{name}").body])


def test_a_complete_answer_has_a_finish_reason() -> None:
    assert read("llm-whole", asking()) == [
        Started(model="tensorrt_llm"),
        TextDelta(text=" Because of this"),
        Finished(reason="length"),
    ]
    assert read("llm-stop", asking())[-1] == Finished(reason="stop", stop_match="this")


def test_only_what_is_new_of_each_event_is_passed_on() -> None:
    events = read("llm-stream", streaming())

    pieces = [one.text for one in events if isinstance(one, TextDelta)]
    assert pieces == [" Le", " caf", "é", "."]
    assert events[-1] == Finished(reason="length")


def test_a_stream_without_its_reason_is_cut_short() -> None:
    body = fixture("triton/llm-stream").body

    with pytest.raises(UpstreamBroken, match="stream ended early"):
        translate(LLM, streaming(), [body[: body.rindex(b"data: ")]])


@pytest.mark.parametrize("word", ["timeout", "cancelled"])
def test_an_answer_that_the_server_gave_up_is_a_failure(word: str) -> None:
    body = fixture("triton/llm-whole").body.replace(b'"length"', f'"{word}"'.encode())

    with pytest.raises(UpstreamFailed, match=word):
        translate(LLM, asking(), [body])


def test_an_error_inside_a_stream_is_the_backends_failure() -> None:
    with pytest.raises(UpstreamFailed, match="triton: Error generating request"):
        read("llm-stream-error", streaming())
