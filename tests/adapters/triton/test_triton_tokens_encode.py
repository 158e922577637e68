"""Token requests are encoded as tensors for Triton's raw-tensor models."""

import json
from typing import Protocol, cast

import pytest
from tritonclient import http

from strowger_gateway.adapters.base import Adapter
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Draft, LoraRequest, PromptTable, TokenRequest
from strowger_gateway.schemas.tensors import Tensor
from tests.adapters.triton.triton_doubles import (
    GENERATE,
    INFER,
    asking,
    float16,
    float32,
    generated,
    header_length,
    inferred,
    with_fields,
)
from tests.stand_ins.triton_client import tensor
from tests.stand_ins.triton_models import MODELS
from tests.stand_ins.triton_wire import Inference, read_infer

Values = dict[str, tuple[tuple[int, ...], list[object]]]

PLAIN: Values = {
    "input_ids": ((1, 3), [5, 6, 7]),
    "input_lengths": ((1, 1), [3]),
    "request_output_len": ((1, 1), [9]),
    "exclude_input_in_output": ((1, 1), [True]),
}

SAMPLING: list[tuple[dict[str, object], Values]] = [
    ({"temperature": 0.5}, {"temperature": ((1, 1), [0.5]), "runtime_top_p": ((1, 1), [1.0])}),
    ({"do_sample": False}, {"runtime_top_k": ((1, 1), [1])}),
    (
        {"top_p": 0.75, "top_k": 4},
        {"runtime_top_p": ((1, 1), [0.75]), "runtime_top_k": ((1, 1), [4])},
    ),
    (
        {"top_p_decay": 0.5, "top_p_min": 0.25, "top_p_reset_id": 3},
        {
            "runtime_top_p_decay": ((1, 1), [0.5]),
            "runtime_top_p_min": ((1, 1), [0.25]),
            "runtime_top_p_reset_ids": ((1, 1), [3]),
        },
    ),
    ({"temperature": 0.0, "top_p": 0.5, "top_p_decay": 0.5}, {"runtime_top_k": ((1, 1), [1])}),
    ({"seed": -1}, {"seed": ((1, 1), [2**64 - 1])}),
    ({"min_tokens": 2}, {"min_tokens": ((1, 1), [2])}),
    ({"end_id": 2, "pad_id": 0}, {"end_id": ((1, 1), [2]), "pad_id": ((1, 1), [0])}),
    ({"ignore_eos": True, "end_id": 2}, {"end_id": ((1, 1), [-1])}),
    (
        {"beam_width": 2, "length_penalty": 0.5, "early_stopping": True, "n": 2},
        {
            "beam_width": ((1, 1), [2]),
            "len_penalty": ((1, 1), [0.5]),
            "early_stopping": ((1, 1), [True]),
            "num_return_sequences": ((1, 1), [2]),
        },
    ),
    (
        {"bad_word_ids": ((5, 7, 3), (9, 2))},
        {"bad_words_list": ((1, 2, 5), [5, 7, 3, 9, 2, 3, 5, -1, -1, -1])},
    ),
    (
        {"stop_words": ((5, 7), (5,), ()), "stop_token_ids": (8,)},
        {"stop_words_list": ((1, 2, 4), [5, 7, 5, 8, 2, 3, 4, -1])},
    ),
    ({"stop_words": (), "bad_word_ids": ((),)}, {}),
    (
        {"embedding_bias": float32((3,), (0.5, 0.0, -1.0))},
        {"embedding_bias": ((1, 3), [0.5, 0.0, -1.0])},
    ),
    ({"logprobs": True}, {"return_log_probs": ((1, 1), [True])}),
    ({"logprobs": False, "seed": None}, {}),
]


def values(inference: Inference) -> Values:
    return {name: (one.shape, list(one.items)) for name, one in inference.tensors.items()}


@pytest.mark.parametrize(("sampling", "added"), SAMPLING)
def test_infer_sends_todays_tensors_with_a_dimension_for_the_batch(
    sampling: dict[str, object], added: Values
) -> None:
    assert values(inferred(asking(**sampling))) == {**PLAIN, **added}


@pytest.mark.parametrize(("sampling", "added"), SAMPLING)
def test_a_decoupled_model_gets_the_same_tensors_from_json_keys(
    sampling: dict[str, object], added: Values
) -> None:
    assert values(generated(asking(**sampling))) == {**PLAIN, **added}


def test_a_decoupled_model_gets_what_was_renamed_under_both_names() -> None:
    asked = generated(asking(seed=7, min_tokens=3))

    assert asked.parameters == {"random_seed": 7, "min_length": 3}
    assert generated(asking(seed=-1)).parameters == {}


def adapted() -> TokenRequest:
    return with_fields(
        asking(embedding_bias=float32((4,), (1.0, 0.0, 0.0, -1.0))),
        lora=LoraRequest(
            task_id=2**63 + 1,
            weights=float16((2, 3), (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)),
            config=Tensor(dtype="int32", shape=(1, 3), data=bytes(12)),
        ),
        prompt_table=PromptTable(table=float16((1, 2, 2), (1.0, 2.0, 3.0, 4.0)), vocab_size=50),
        draft=Draft(tokens=(8, 9), logits=float32((2, 2), (0.5, 1.5, 2.5, 3.5))),
        return_context_logits=True,
        return_generation_logits=True,
    )


def test_large_tensors_are_sent_as_bytes_and_logits_requested_as_bytes() -> None:
    asked = inferred(adapted())

    assert {name: one.shape for name, one in asked.tensors.items() if name not in PLAIN} == {
        "embedding_bias": (1, 4),
        "return_context_logits": (1, 1),
        "return_generation_logits": (1, 1),
        "lora_task_id": (1, 1),
        "lora_weights": (1, 2, 3),
        "lora_config": (1, 1, 3),
        "prompt_embedding_table": (1, 2, 2),
        "prompt_vocab_size": (1, 1),
        "draft_input_ids": (1, 2),
        "draft_logits": (1, 2, 2),
    }
    assert asked.tensors["lora_weights"].items == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert asked.tensors["lora_task_id"].items == [2**63 + 1]
    assert asked.outputs == {
        "output_ids": False,
        "sequence_length": False,
        "context_logits": True,
        "generation_logits": True,
    }


class Body(Protocol):
    def __call__(
        self, inputs: list[http.InferInput], *, outputs: list[http.InferRequestedOutput]
    ) -> tuple[bytes, int | None]: ...


def test_the_bytes_mean_what_those_of_tritons_own_client_mean() -> None:
    theirs = cast("Body", http.InferenceServerClient.generate_request_body)
    body, size = theirs(
        [
            tensor("input_ids", [[5, 6, 7]], "INT32", binary=False),
            tensor("input_lengths", [[3]], "INT32", binary=False),
            tensor("request_output_len", [[9]], "INT32", binary=False),
            tensor("exclude_input_in_output", [[True]], "BOOL", binary=False),
            tensor("seed", [[42]], "UINT64", binary=False),
            tensor("stop_words_list", [[[7, 8], [2, -1]]], "INT32", binary=False),
            tensor("embedding_bias", [[1.0, -1.0]], "FP32"),
            tensor("return_generation_logits", [[True]], "BOOL", binary=False),
            tensor("lora_task_id", [[5]], "UINT64", binary=False),
            tensor("lora_weights", [[[1.0, 2.0]]], "FP16"),
        ],
        outputs=[
            http.InferRequestedOutput("output_ids", binary_data=False),
            http.InferRequestedOutput("sequence_length", binary_data=False),
            http.InferRequestedOutput("generation_logits", binary_data=True),
        ],
    )
    assert size is not None

    ours = INFER.encode(
        with_fields(
            asking(seed=42, stop_words=((7, 8),), embedding_bias=float32((2,), (1.0, -1.0))),
            return_generation_logits=True,
            lora=LoraRequest(task_id=5, weights=float16((1, 2), (1.0, 2.0))),
        ),
        "tensorrt_llm",
    )

    head = int(header_length(ours) or 0)
    assert json.loads(ours.body[:head])["inputs"] == json.loads(body[:size])["inputs"]
    assert ours.body[head:] == body[size:]
    model = MODELS["tensorrt_llm"]
    assert read_infer(model, ours.body, str(head)) == read_infer(model, body, str(size))
    assert dict(ours.headers)["content-type"] == "application/octet-stream"


def test_a_request_of_numbers_is_plain_json() -> None:
    outbound = INFER.encode(asking(), "tensorrt_llm")

    assert outbound.target == "/v2/models/tensorrt_llm/infer"
    assert header_length(outbound) is None
    assert dict(outbound.headers)["content-type"] == "application/json"


def test_a_model_that_cannot_stream_gets_a_request_for_the_complete_answer() -> None:
    outbound = INFER.encode(with_fields(asking(), stream=True), "tensorrt_llm")

    assert outbound == INFER.encode(asking(), "tensorrt_llm")
    assert not outbound.stream


@pytest.mark.parametrize(
    ("request_", "door"),
    [
        (asking(), "generate"),
        (asking(n=2), "generate_stream"),
        (asking(n=2, beam_width=2), "generate"),
        (with_fields(asking(), stream=True), "generate_stream"),
        (with_fields(asking(beam_width=2), stream=True), "generate"),
    ],
)
def test_a_decoupled_model_streams_what_it_can_stream(request_: TokenRequest, door: str) -> None:
    outbound = GENERATE.encode(request_, "m")

    assert outbound.target == f"/v2/models/m/{door}"
    assert outbound.stream == (b'"streaming":true' in outbound.body)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"lora": LoraRequest(task_id=1, weights=float16((1, 1), (1.0,)))}, "lora_weights"),
        ({"draft": Draft(tokens=(1,), logits=float32((1, 1), (1.0,)))}, "draft_logits"),
    ],
)
def test_tensors_that_json_cannot_carry_are_refused_by_name(
    fields: dict[str, object], param: str
) -> None:
    with pytest.raises(InvalidRequest, match="triton-tokens") as caught:
        GENERATE.encode(with_fields(asking(), **fields), "m")

    assert caught.value.param == param


def test_logits_and_prompt_tables_need_a_model_that_is_not_decoupled() -> None:
    named = {one.field for one in unsupported(adapted(), GENERATE.supports)}

    assert named == {"prompt_table", "return_context_logits", "return_generation_logits"}
    assert not unsupported(adapted(), INFER.supports)


@pytest.mark.parametrize("shape", [(4,), (2, 2, 1), (2, 1, 2)])
def test_a_tensor_of_another_rank_is_refused_by_name(shape: tuple[int, ...]) -> None:
    table = PromptTable(table=float16(shape, (1.0, 2.0, 3.0, 4.0)), vocab_size=5)

    with pytest.raises(InvalidRequest, match="prompt_table: its shape is") as caught:
        INFER.encode(with_fields(asking(), prompt_table=table), "m")

    assert caught.value.param == "prompt_table"


def test_early_stopping_never_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="early_stopping"):
        INFER.encode(asking(beam_width=2, early_stopping="never"), "m")


@pytest.mark.parametrize("adapter", [INFER, GENERATE])
@pytest.mark.parametrize("field", ["stop", "no_repeat_ngram_size", "min_p", "logit_bias"])
def test_what_the_model_has_no_tensor_for_is_reported(adapter: Adapter, field: str) -> None:
    samples = {"stop": ("x",), "no_repeat_ngram_size": 2, "min_p": 0.1, "logit_bias": {1: 1.0}}

    problems = unsupported(asking(**{field: samples[field]}), adapter.supports)

    assert [one.field for one in problems] == [field]
