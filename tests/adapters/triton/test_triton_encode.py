"""Completions are encoded for Triton's text models."""

import msgspec
import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.triton.ensemble import TritonTextAdapter
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import CompletionRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret

TRITON = TritonTextAdapter(Endpoint(name="triton", base_url="http://gpu.test:8000"))


def asking(**sampling: object) -> CompletionRequest:
    return CompletionRequest(
        model="m",
        prompts=("Why?",),
        sampling=msgspec.structs.replace(Sampling(max_tokens=9), **sampling),
    )


def streaming(**sampling: object) -> CompletionRequest:
    return msgspec.structs.replace(asking(**sampling), stream=True)


def body(request: CompletionRequest) -> dict[str, object]:
    return msgspec.json.decode(TRITON.encode(request, "ensemble").body, type=dict[str, object])


def added(**sampling: object) -> dict[str, object]:
    """Return what these fields add to the smallest body."""
    plain = body(asking())
    return {name: value for name, value in body(asking(**sampling)).items() if name not in plain}


def test_the_prompt_and_the_limit_are_sent_and_counts_requested() -> None:
    assert body(asking()) == {
        "text_input": "Why?",
        "max_tokens": 9,
        "exclude_input_in_output": True,
        "return_num_input_tokens": True,
        "return_num_output_tokens": True,
    }


@pytest.mark.parametrize(
    ("sampling", "wire"),
    [
        ({"temperature": 0.7}, {"temperature": 0.7, "top_p": 1.0}),
        ({"temperature": 0.7, "top_k": 5}, {"temperature": 0.7, "top_k": 5}),
        ({"do_sample": True}, {"top_p": 1.0}),
        ({"do_sample": False, "temperature": 0.7}, {"top_k": 1}),
        ({"top_p": 0.9, "top_k": 40}, {"top_p": 0.9, "top_k": 40}),
        ({"stop": ("END", "\n")}, {"stop_words": ["END", "\n"]}),
        ({"stop": ()}, {}),
        ({"bad_words": ("no",)}, {"bad_words": ["no"]}),
        ({"presence_penalty": 0.5}, {"presence_penalty": 0.5}),
        ({"frequency_penalty": -0.5}, {"frequency_penalty": -0.5}),
        ({"repetition_penalty": 1.1}, {"repetition_penalty": 1.1}),
        ({"end_id": 2, "pad_id": 0}, {"end_id": 2, "pad_id": 0}),
        ({"ignore_eos": True, "end_id": 2}, {"end_id": -1}),
        ({"ignore_eos": False}, {}),
        ({"n": 2}, {"num_return_sequences": 2}),
        ({"n": 1}, {}),
        ({"seed": None, "top_k": None}, {}),
    ],
)
def test_sampling_has_tritons_names(sampling: dict[str, object], wire: dict[str, object]) -> None:
    assert added(**sampling) == wire


def test_what_was_renamed_is_sent_under_both_names_for_each_server_reads_its_own() -> None:
    assert added(seed=7) == {"seed": 7, "random_seed": 7}
    assert added(min_tokens=3) == {"min_tokens": 3, "min_length": 3}


def test_a_seed_that_no_request_parameter_can_hold_has_one_name_only() -> None:
    assert added(seed=2**64 - 1) == {"seed": 2**64 - 1}
    assert added(seed=-1) == {"seed": 2**64 - 1}


def test_greedy_is_one_candidate_in_every_version_of_the_server() -> None:
    assert added(temperature=0.0, top_p=0.5, top_k=9) == {"top_k": 1}


def test_beams_return_as_many_answers_as_were_requested() -> None:
    assert added(beam_width=4, length_penalty=0.5) == {
        "beam_width": 4,
        "length_penalty": 0.5,
        "num_return_sequences": 1,
    }
    assert "top_p" not in added(beam_width=4, temperature=0.5)
    assert added(beam_width=4, n=3) == {"beam_width": 4, "num_return_sequences": 3}


@pytest.mark.parametrize(
    ("request_", "target"),
    [
        (asking(), "/v2/models/ensemble/generate"),
        (streaming(), "/v2/models/ensemble/generate_stream"),
        (asking(n=2), "/v2/models/ensemble/generate_stream"),
        (streaming(beam_width=2), "/v2/models/ensemble/generate"),
    ],
)
def test_an_endpoint_with_one_response_gets_no_request_for_more(
    request_: CompletionRequest, target: str
) -> None:
    outbound = TRITON.encode(request_, "ensemble")

    assert outbound.target == target
    assert outbound.stream == ("stream" in body(request_))


def test_a_path_before_the_api_and_a_models_version_are_kept() -> None:
    behind = TritonTextAdapter(Endpoint(name="t", base_url="http://proxy.test/triton/"))

    outbound = behind.encode(asking(), "my model/versions/3")

    assert outbound.target == "/triton/v2/models/my%20model/versions/3/generate"


@pytest.mark.parametrize(
    "model",
    ["", "..", "a/b", "../repository", "a/versions/", "a/versions/1/x", "a/versions/x"],
)
def test_a_name_reaches_no_other_path_of_the_server(model: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a Triton model name") as caught:
        TRITON.encode(asking(), model)

    assert caught.value.param == "model"


def test_a_key_is_for_the_proxy_in_front() -> None:
    keyed = TritonTextAdapter(
        Endpoint(
            name="t",
            base_url="http://t.test",
            key=Secret("sk-proxy"),
            headers=(("triton-restricted", "x"),),
        )
    )

    sent = dict(keyed.encode(asking(), "ensemble").headers)

    assert sent["authorization"] == "Bearer sk-proxy"
    assert sent["triton-restricted"] == "x"
    assert "authorization" not in dict(TRITON.encode(asking(), "ensemble").headers)


def test_a_request_without_a_limit_is_refused_and_never_given_one() -> None:
    unbounded = asking(max_tokens=None)

    assert [one.field for one in unsupported(unbounded, TRITON.supports)] == ["max_tokens"]
    with pytest.raises(InvalidRequest, match=r"max_tokens: .* model's defaults") as caught:
        TRITON.encode(unbounded, "ensemble")
    assert caught.value.param == "max_tokens"


@pytest.mark.parametrize("prompts", [("one", "two"), ((1, 2),)])
def test_prompts_that_a_text_model_cannot_take_are_refused(prompts: tuple[str, ...]) -> None:
    request = msgspec.structs.replace(asking(), prompts=prompts)

    assert unsupported(request, TRITON.supports)
    with pytest.raises(InvalidRequest, match=r"prompt: .* a single text prompt"):
        TRITON.encode(request, "ensemble")


@pytest.mark.parametrize(
    "sampling", [{"logprobs": True}, {"logit_bias": {5: 1.0}}, {"stop_token_ids": (3,)}]
)
def test_fields_without_an_exact_equivalent_are_reported(sampling: dict[str, object]) -> None:
    (problem,) = unsupported(asking(**sampling), TRITON.supports)

    assert problem.field == next(iter(sampling))
