"""Parse TensorRT-LLM's tensors: by name, as in the seed's first table.

https://nvidia.github.io/TensorRT-LLM/advanced/inference-request.html
"""

import json
from typing import cast

import msgspec
import pytest
from msgspec import UNSET

from strowger_gateway.gateway.surfaces.base import Inbound
from strowger_gateway.gateway.surfaces.kserve.infer_parse import parse_infer
from strowger_gateway.gateway.surfaces.kserve.parameter_tables import INPUTS
from strowger_gateway.gateway.surfaces.kserve.requests import RequestedOutput
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Draft, LoraRequest, PromptTable
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tensors import Tensor
from tests.gateway.surfaces.kserve.kserve_bodies import Tensor as Wire
from tests.gateway.surfaces.kserve.kserve_bodies import body, parsed, parsed_text, refused

SAMPLED: dict[str, Wire] = {"runtime_top_k": ("INT32", [1], [5])}
BEAMS: dict[str, Wire] = {"beam_width": ("INT32", [1], [2])}
EMPTY: Wire = ("INT32", [1, 0], [])
WORDS = [5, 7, 3, 9, 2, 3, 5, -1, -1, -1]
"""The seed: "[[[ 5, 7, 3, 9, 2][ 3, 5, -1, -1, -1]]]"."""


def test_the_two_mandatory_tensors_are_a_whole_request() -> None:
    request = parsed()

    assert (request.model, request.tokens) == ("m", (5, 6, 7))
    assert request.sampling == Sampling(max_tokens=8, temperature=0.0, end_id=-1)
    assert request.optional == ("end_id", "pad_id")
    assert not request.stream


@pytest.mark.parametrize("name", ["request_output_len", "input_ids"])
def test_neither_of_the_mandatory_tensors_may_be_missing(name: str) -> None:
    error = refused({name: None})

    assert error.message.startswith(name)
    assert error.message.endswith("is required")
    assert error.param == name


ONES: list[tuple[str, str, object, str, object]] = [
    ("temperature", "FP32", 0.5, "temperature", 0.5),
    ("runtime_top_k", "INT32", 7, "top_k", 7),
    ("runtime_top_p", "FP32", 0.25, "top_p", 0.25),
    ("runtime_top_p_min", "FP32", 0.25, "top_p_min", 0.25),
    ("runtime_top_p_decay", "FP32", 0.5, "top_p_decay", 0.5),
    ("runtime_top_p_reset_ids", "INT32", 9, "top_p_reset_id", 9),
    ("top_p_min", "FP32", 0.25, "top_p_min", 0.25),
    ("top_p_decay", "FP32", 0.5, "top_p_decay", 0.5),
    ("top_p_reset_ids", "INT32", 9, "top_p_reset_id", 9),
    ("runtime_min_p", "FP32", 0.25, "min_p", 0.25),
    ("repetition_penalty", "FP32", 1.5, "repetition_penalty", 1.5),
    ("min_length", "INT32", 3, "min_tokens", 3),
    ("min_tokens", "INT32", 3, "min_tokens", 3),
    ("presence_penalty", "FP32", -0.5, "presence_penalty", -0.5),
    ("frequency_penalty", "FP32", 0.5, "frequency_penalty", 0.5),
    ("no_repeat_ngram_size", "INT32", 3, "no_repeat_ngram_size", 3),
    ("random_seed", "UINT64", 2**64 - 1, "seed", 2**64 - 1),
    ("seed", "UINT64", 3, "seed", 3),
    ("end_id", "INT32", 2, "end_id", 2),
    ("pad_id", "INT32", 0, "pad_id", 0),
    ("return_log_probs", "BOOL", True, "logprobs", True),
]


@pytest.mark.parametrize(("name", "datatype", "value", "field", "ours"), ONES)
@pytest.mark.parametrize("shape", [[1], [1, 1]], ids=["[1]", "[1, 1]"])
def test_a_sampling_tensor_is_a_field_of_ours(
    name: str, datatype: str, value: object, field: str, ours: object, shape: list[int]
) -> None:
    request = parsed({**SAMPLED, name: (datatype, shape, [value])})

    assert getattr(request.sampling, field) == ours


@pytest.mark.parametrize(
    ("tensors", "beams"),
    [
        ({}, {"length_penalty": 0.0}),
        ({"len_penalty": ("FP32", [1], [2.0])}, {"length_penalty": 2.0}),
        ({"early_stopping": ("INT32", [1], [1])}, {"length_penalty": 0.0, "early_stopping": True}),
        ({"early_stopping": ("INT32", [1], [0])}, {"length_penalty": 0.0, "early_stopping": False}),
        (
            {"early_stopping": ("INT32", [1], [7])},
            {"length_penalty": 0.0, "early_stopping": "never"},
        ),
        (
            {"early_stopping": ("BOOL", [1], [True])},
            {"length_penalty": 0.0, "early_stopping": True},
        ),
        (
            {"num_return_sequences": ("INT32", [1], [1])},
            {"length_penalty": 0.0, "n": 1},
        ),
    ],
)
def test_beams_are_normalised_by_length_only_on_request(
    tensors: dict[str, Wire], beams: dict[str, object]
) -> None:
    """TensorRT-LLM's default lengthPenalty is 0.0; ours, and Hugging Face's, is 1.0."""
    sampling = parsed({**BEAMS, **tensors}).sampling

    wanted = {"max_tokens": 8, "end_id": -1, "n": 2, "beam_width": 2, **beams}
    assert msgspec.to_builtins(sampling) == wanted


@pytest.mark.parametrize(
    ("tensors", "wanted"),
    [
        ({}, {"temperature": 0.0}),
        ({"temperature": 0.5}, {"temperature": 0.0}),
        ({"runtime_top_k": 0, "runtime_top_p": 0.0}, {"temperature": 0.0}),
        ({"runtime_top_p": 0.0}, {"temperature": 0.0}),
        ({"runtime_top_k": 3}, {"top_k": 3}),
        ({"runtime_top_k": 3, "runtime_top_p": 0.0}, {"top_k": 3}),
        ({"runtime_top_k": 0, "runtime_top_p": 0.5}, {"top_k": None, "top_p": 0.5}),
        ({"runtime_top_p": 0.5, "temperature": 0.25}, {"top_p": 0.5, "temperature": 0.25}),
        ({"runtime_top_k": 3, "runtime_top_p": 0.5}, {"top_k": 3, "top_p": 0.5}),
    ],
)
def test_without_top_k_and_top_p_the_search_is_greedy(
    tensors: dict[str, float], wanted: dict[str, object]
) -> None:
    """TensorRT-LLM: "If setting topK = 0 and topP = 0.0f, greedy search is performed"."""
    kinds = {"temperature": "FP32", "runtime_top_k": "INT32", "runtime_top_p": "FP32"}

    request = parsed({name: (kinds[name], [1], [value]) for name, value in tensors.items()})

    assert msgspec.to_builtins(request.sampling) == {"max_tokens": 8, "end_id": -1, **wanted}


def test_an_end_token_that_the_client_names_is_a_demand() -> None:
    request = parsed({"end_id": ("INT32", [1], [2]), "pad_id": ("INT32", [1], [0])})

    assert request.sampling.end_id == 2
    assert request.optional == ("pad_id",)


@pytest.mark.parametrize("shape", [[1, 2, 5], [2, 5]])
@pytest.mark.parametrize(
    ("name", "field"), [("bad_words_list", "bad_word_ids"), ("stop_words_list", "stop_words")]
)
def test_word_lists_are_unpacked(name: str, field: str, shape: list[int]) -> None:
    request = parsed({name: ("INT32", shape, WORDS)})

    assert getattr(request.sampling, field) == ((5, 7, 3), (9, 2))


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([3, 2, -1, -1, -1], "stop_words_list: word list: offset 2 must be over 3 and at most 5"),
        ([3, 6, -1, -1, -1], "offset 6 must be over 3 and at most 5"),
        ([3, -1, 5, -1, -1], "stop_words_list: after an offset of -1 only -1 may follow"),
    ],
)
def test_a_word_list_whose_offsets_do_not_rise_is_refused(offsets: list[int], said: str) -> None:
    error = refused({"stop_words_list": ("INT32", [1, 2, 5], [*WORDS[:5], *offsets])})

    assert said in error.message
    assert error.param == "stop_words_list"


def test_large_tensors_keep_their_own_shape_and_lose_that_of_the_batch() -> None:
    request = parsed(
        {
            "embedding_bias": ("FP32", [1, 3], [0.0, 1.0, -1.0]),
            "draft_input_ids": ("INT32", [1, 2], [8, 9]),
            "draft_logits": ("FP32", [1, 2, 3], [0.0] * 6),
            "lora_task_id": ("UINT64", [1], [2**63]),
            "lora_weights": ("FP32", [2, 4], [0.5] * 8),
            "lora_config": ("INT32", [1, 2, 3], [1, 0, 2, 2, 0, 2]),
            "prompt_embedding_table": ("FP32", [1, 2, 2], [0.0] * 4),
            "prompt_vocab_size": ("INT32", [1], [2]),
        }
    )

    bias = request.sampling.embedding_bias
    assert isinstance(bias, Tensor)
    assert (bias.dtype, bias.shape) == ("float32", (3,))
    assert isinstance(request.draft, Draft)
    assert request.draft.tokens == (8, 9)
    assert cast(Tensor, request.draft.logits).shape == (2, 3)
    assert isinstance(request.lora, LoraRequest)
    assert request.lora.task_id == 2**63
    assert cast(Tensor, request.lora.weights).shape == (2, 4)
    assert cast(Tensor, request.lora.config).shape == (2, 3)
    assert isinstance(request.prompt_table, PromptTable)
    assert (request.prompt_table.table.shape, request.prompt_table.vocab_size) == ((2, 2), 2)


def test_a_prompt_table_may_be_one_row_of_numbers_as_the_seed_writes_it() -> None:
    request = parsed(
        {
            "prompt_embedding_table": ("FP32", [4], [0.0] * 4),
            "prompt_vocab_size": ("INT32", [1], [2]),
        }
    )

    assert isinstance(request.prompt_table, PromptTable)
    assert request.prompt_table.table.shape == (4,)


@pytest.mark.parametrize(
    ("tensors", "param", "said"),
    [
        ({"lora_weights": ("FP32", [1, 1], [0.0])}, "lora_weights", "requires lora_task_id"),
        (
            {"lora_task_id": ("UINT64", [1], [1]), "lora_weights": ("FP32", [1, 1], [0.0])},
            "lora_config",
            "configuration together",
        ),
        ({"prompt_vocab_size": ("INT32", [1], [1])}, "prompt_vocab_size", "requires prompt_embed"),
        ({"prompt_embedding_table": ("FP32", [1], [0])}, "prompt_vocab_size", "is required"),
        ({"draft_logits": ("FP32", [1, 1], [0.0])}, "draft_logits", "requires draft_input_ids"),
        ({"input_lengths": ("INT32", [1], [4])}, "input_lengths", "at most 3, the length of"),
        ({"input_ids": EMPTY}, "input_ids", "at least one token"),
        ({"input_ids": ("INT32", [1], [-5])}, "input_ids", "token -5 must be at least 0"),
        (
            {"seed": ("UINT64", [1], [1]), "random_seed": ("UINT64", [1], [1])},
            "random_seed",
            "random_seed and seed mean the same",
        ),
        ({"stop": ("BOOL", [1], [True])}, "stop", "close the connection"),
        ({"streaming": ("BOOL", [1], [True])}, "streaming", "/generate_stream"),
        ({"return_perf_metrics": ("BOOL", [1], [True])}, "return_perf_metrics", "/metrics"),
        (
            {"beam_search_diversity_rate": ("FP32", [1], [0.5])},
            "beam_search_diversity_rate",
            "must be 0",
        ),
    ],
)
def test_invalid_combinations_of_tensors_are_refused(
    tensors: dict[str, Wire], param: str, said: str
) -> None:
    error = refused(tensors)

    assert error.message.startswith(param)
    assert said in error.message
    assert error.param == param


@pytest.mark.parametrize(
    ("name", "datatype", "value", "said"),
    [
        ("request_output_len", "INT32", 0, "request_output_len: 0 must be at least 1"),
        ("temperature", "FP32", -0.5, "temperature: -0.5 must be at least 0"),
        ("runtime_top_k", "INT32", -1, "runtime_top_k: -1 must be at least 0"),
        ("runtime_top_p", "FP32", 1.5, "runtime_top_p: 1.5 must be at least 0 and at most 1"),
        ("top_p_decay", "FP32", 0.0, "top_p_decay: 0 must be over 0 and at most 1"),
        ("runtime_top_p_min", "FP32", 0.0, "runtime_top_p_min: 0 must be over 0"),
        ("repetition_penalty", "FP32", 0.0, "repetition_penalty: 0 must be over 0"),
        ("min_tokens", "INT32", -1, "min_tokens: -1 must be at least 0"),
        ("end_id", "INT32", -2, "end_id: -2 must be at least -1"),
        ("beam_width", "INT32", 17, "beam_width: must be at most 16"),
        ("num_return_sequences", "INT32", 17, "num_return_sequences: must be at most 16"),
        ("presence_penalty", "FP32", 1e39, "presence_penalty: inf must be finite"),
    ],
)
def test_a_value_out_of_range_is_refused_by_the_name_that_the_client_used(
    name: str, datatype: str, value: float, said: str
) -> None:
    error = refused({name: (datatype, [1], [value])})

    assert said in error.message
    assert error.param == name


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        (
            {"seed": ("UINT64", [1], [1]), "random_seed": ("UINT64", [1], [1]), "top_k": -1},
            "random_seed and seed mean the same; send only one of them",
        ),
        ({"seed": ("UINT64", [1], [1]), "pad_id": -2, "beam_width": -1}, "beam_width: -1 must be"),
        ({"pad_id": -2, "top_k": -1}, "top_k: -1 must be at least 0"),
        ({"pad_id": -2, "num_return_sequences": 17}, "pad_id: -2 must be at least -1"),
        ({"min_tokens": -1, "top_p": ("FP32", [1], [1e39])}, "top_p: inf must be finite"),
    ],
)
def test_of_several_mistakes_the_same_one_is_named_in_whatever_order_they_are_sent(
    tensors: dict[str, Wire | int], said: str
) -> None:
    wires: list[tuple[str, Wire]] = [
        (name, ("INT32", [1], [wire]) if isinstance(wire, int) else wire)
        for name, wire in tensors.items()
    ]

    for order in (wires, wires[::-1]):
        assert refused(dict(order)).message.startswith(said)


@pytest.mark.parametrize("name", [spec.name for spec in INPUTS])
def test_another_shape_or_datatype_is_refused_with_what_is_allowed(name: str) -> None:
    spec = next(one for one in INPUTS if one.name == name)

    shape = refused({name: (spec.datatypes[0], [2, 2, 2, 2], [0] * 16)})
    datatype = refused({name: ("FP64", list(spec.shapes[-1]), [0])})

    assert shape.message.startswith(f"{name}: shape [2, 2, 2, 2] must be [")
    assert datatype.message == f"{name}: datatype FP64 must be {' or '.join(spec.datatypes)}"
    assert shape.param == datatype.param == name


def test_a_batch_of_two_is_refused() -> None:
    error = refused({"input_ids": ("INT32", [2, 3], [1, 2, 3, 4, 5, 6])})

    assert error.message == "input_ids: shape [2, 3] must be [1, n] or [n]"


def test_an_unknown_tensor_and_one_given_twice_are_refused_by_name() -> None:
    unknown = refused({"lookahead_window_size": ("INT32", [1], [1])})
    wire = json.loads(body())
    wire["inputs"].append(wire["inputs"][0])

    with pytest.raises(InvalidRequest, match="request_output_len: this tensor was sent twice"):
        parse_infer(Inbound(body=json.dumps(wire).encode(), model="m", max_choices=1))

    assert unknown.param == "lookahead_window_size"
    assert "unknown input tensor" in unknown.message


def test_input_lengths_strips_padding_as_in_tensorrtllm_backend() -> None:
    assert parsed({"input_lengths": ("INT32", [1, 1], [2])}).tokens == (5, 6)


def test_the_answers_outputs_are_those_that_the_flags_call_for() -> None:
    flags: dict[str, Wire] = {
        "return_log_probs": ("BOOL", [1], [True]),
        "return_context_logits": ("BOOL", [1], [True]),
        "return_generation_logits": ("BOOL", [1], [False]),
    }

    plain = parsed().reply.outputs
    more = parsed(flags, parameters={"binary_data_output": True}).reply.outputs

    assert plain == (RequestedOutput(name="output_ids"), RequestedOutput(name="sequence_length"))
    assert [(one.name, one.binary) for one in more] == [
        ("output_ids", True),
        ("sequence_length", True),
        ("output_log_probs", True),
        ("cum_log_probs", True),
        ("context_logits", True),
    ]


def test_outputs_may_be_chosen_each_with_its_own_form() -> None:
    request = parsed(
        outputs=[
            {"name": "sequence_length", "parameters": {"binary_data": False}},
            {"name": "output_ids"},
        ],
        parameters={"binary_data_output": True},
    )

    assert request.reply.outputs == (
        RequestedOutput(name="sequence_length", binary=False),
        RequestedOutput(name="output_ids", binary=True),
    )


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ({"name": "text_output"}, "outputs[0].name: a tokens request has no output"),
        ({"name": "cum_log_probs"}, "cum_log_probs is available only if return_log_probs is true"),
        ({"name": "output_ids", "parameters": {"classification": 2}}, "outputs[0].parameters"),
        ({"name": "output_ids", "parameters": {"shared_memory_region": "r"}}, "shared_memory"),
    ],
)
def test_an_output_that_there_will_not_be_is_refused(output: object, said: str) -> None:
    error = refused(outputs=[output])

    assert said in error.message


def test_parameters_of_the_protocol_become_ours() -> None:
    request = parsed(parameters={"priority": 2, "timeout": 1_500_000}, id="42", model_name="m")
    silent = parsed(parameters={"priority": 0, "timeout": 0})

    assert (request.priority, request.timeout_s, request.reply.id) == (2, 1.5, "42")
    assert (silent.priority, silent.timeout_s) == (UNSET, UNSET)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"parameters": {"sequence_id": 7}}, "parameters: object contains unknown field"),
        ({"parameters": {"priority": 6}}, "parameters.priority: 6 must be at least 0"),
        ({"parameters": {"timeout": -1}}, "parameters.timeout: -1 must be at least 0 micro"),
        ({"model_name": "other"}, "model_name: is 'other', but the path has 'm'"),
        ({"model_version": "2"}, "model_version: is '2', but the path has '1'"),
        ({"what": 1}, "what: unknown field of an infer request"),
        ({"id": 7}, "id must be a string"),
        ({"inputs": {}}, "inputs must be a list of tensors"),
    ],
)
def test_fields_next_to_the_tensors_are_checked_too(fields: dict[str, object], said: str) -> None:
    assert said in refused(None, **fields).message


def test_a_tensor_needs_data_in_one_place() -> None:
    wire = json.loads(body())
    del wire["inputs"][0]["data"]
    neither = json.dumps(wire).encode()
    wire["inputs"][0] |= {"data": [1], "parameters": {"binary_data_size": 4}}
    both = json.dumps(wire).encode()

    for sent, said in ((neither, "has neither data nor"), (both, "has both data and")):
        with pytest.raises(InvalidRequest, match=f"request_output_len: {said}"):
            parse_infer(Inbound(body=sent, model="m", max_choices=1))


def test_text_input_makes_a_request_of_text_which_ends_where_its_tokenizer_does() -> None:
    """As tensorrtllm_backend's ensemble takes it."""
    request = parsed_text(
        {
            "top_k": ("INT32", [1, 1], [3]),
            "top_p": ("FP32", [1, 1], [0.5]),
            "length_penalty": ("FP32", [1, 1], [0.5]),
            "stop_words": ("BYTES", [1, 2], ["a", ""]),
            "bad_words": ("BYTES", [1], ["b"]),
            "return_log_probs": ("BOOL", [1, 1], [True]),
            "exclude_input_in_output": ("BOOL", [1], [False]),
        },
        id="7",
    )

    assert (request.model, request.prompts, request.template) == ("m", ("Hello",), False)
    assert msgspec.to_builtins(request.sampling) == {
        "max_tokens": 8,
        "top_k": 3,
        "top_p": 0.5,
        "stop": ("a",),
        "bad_words": ("b",),
        "logprobs": True,
    }
    assert request.echo is True
    assert [one.name for one in request.reply.outputs] == [
        "text_output",
        "output_log_probs",
        "cum_log_probs",
    ]


@pytest.mark.parametrize("name", ["input_ids", "lora_task_id", "return_context_logits"])
def test_tensors_of_tokens_do_not_go_with_text(name: str) -> None:
    spec = next(one for one in INPUTS if one.name == name)
    data: list[object] = [True] if spec.datatypes[0] == "BOOL" else [1]

    error = refused(
        {
            "input_ids": None,
            "text_input": ("BYTES", [1], ["a"]),
            name: (spec.datatypes[0], [1], data),
        }
    )

    assert error.message.startswith(f"{name}: only supported in requests with input_ids")
    assert error.param == name
