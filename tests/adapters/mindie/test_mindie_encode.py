"""Requests are encoded for MindIE's /infer_token and /generate."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.capabilities import unsupported
from strowger_gateway.adapters.mindie.adapter import MindIEAdapter
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import (
    CompletionRequest,
    EmbeddingsRequest,
    GenerateRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.mindie.mindie_doubles import (
    CHAT,
    TEXT,
    TOKENS,
    body,
    mindie,
    parameters,
    sampled,
)
from tests.stand_ins.mindie_checks import check_text, check_tokens

BOUND = {"details": True, "max_new_tokens": 2147483647}
BOTH = pytest.mark.parametrize("request_", [TOKENS, TEXT], ids=["tokens", "text"])


def faults(request: Request) -> list[str]:
    return [one.field for one in unsupported(request, mindie().supports)]


@pytest.mark.parametrize("base_url", ["https://npu.test:1025", "https://npu.test:1025/v1/"])
def test_the_base_url_is_the_servers_own(base_url: str) -> None:
    adapter = mindie(base_url)

    targets = [adapter.encode(one, "m").target for one in (TOKENS, TEXT, CHAT)]

    assert targets == ["/infer_token", "/generate_stream", "/v1/chat/completions"]


def test_a_path_before_the_routes_is_kept() -> None:
    adapter = mindie("https://gateway.test/npu/v1")

    targets = [adapter.encode(one, "m").target for one in (TOKENS, TEXT, CHAT)]

    assert targets == ["/npu/infer_token", "/npu/generate_stream", "/npu/v1/chat/completions"]


@BOTH
def test_key_and_headers_of_the_operator_go_with_every_request(request_: GenerateRequest) -> None:
    adapter = MindIEAdapter(Endpoint(name="a", base_url="https://n", headers=(("X-Pool", "7"),)))

    assert ("authorization", "Bearer sk-mindie") in mindie().encode(request_, "m").headers
    assert ("x-pool", "7") in adapter.encode(request_, "m").headers


@pytest.mark.parametrize("stream", [False, True])
def test_tokens_are_always_streamed(stream: bool) -> None:
    request = msgspec.structs.replace(TOKENS, stream=stream)

    outbound = mindie().encode(request, "m")

    assert outbound.stream
    assert ("accept", "text/event-stream") in outbound.headers
    assert body(request) == {"input_id": [5, 6, 7], "stream": True, "parameters": BOUND}


@pytest.mark.parametrize(("stream", "path"), [(False, "/generate"), (True, "/generate_stream")])
def test_text_is_streamed_when_it_is_wanted_so(stream: bool, path: str) -> None:
    request = msgspec.structs.replace(TEXT, stream=stream)

    outbound = mindie().encode(request, "m")

    assert (outbound.target, outbound.stream) == (path, stream)
    assert body(request) == {"inputs": "x", "parameters": BOUND}


@BOTH
def test_every_sampling_parameter_has_its_own_name(request_: GenerateRequest) -> None:
    request = sampled(
        request_,
        temperature=0.5,
        top_k=10,
        top_p=0.95,
        do_sample=True,
        max_tokens=20,
        seed=7,
        repetition_penalty=1.03,
    )

    assert parameters(request) == {
        "details": True,
        "temperature": 0.5,
        "top_k": 10,
        "top_p": 0.95,
        "do_sample": True,
        "max_new_tokens": 20,
        "seed": 7,
        "repetition_penalty": 1.03,
    }


@BOTH
@pytest.mark.parametrize("bound", [None, msgspec.UNSET])
def test_no_limit_is_the_servers_limit_and_not_its_default_of_twenty(
    request_: GenerateRequest, bound: None
) -> None:
    assert parameters(sampled(request_, max_tokens=bound))["max_new_tokens"] == 2147483647


@BOTH
@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({"temperature": 0.0}, {"do_sample": False}),
        ({"top_p": 0.0}, {"do_sample": False}),
        ({"temperature": 0.0, "do_sample": True}, {"do_sample": False}),
        ({"temperature": 0.0, "top_p": 0.5}, {"do_sample": False, "top_p": 0.5}),
        ({"do_sample": False, "temperature": 0.7}, {"do_sample": False, "temperature": 0.7}),
        ({"temperature": 0.7, "top_p": 1.0}, {"temperature": 0.7}),
    ],
)
def test_greedy_is_a_switch_and_a_top_p_of_1_is_omitted(
    request_: GenerateRequest, fields: dict[str, object], sent: dict[str, object]
) -> None:
    assert parameters(sampled(request_, **fields)) == {**BOUND, **sent}


@BOTH
def test_parameters_that_the_server_takes_without_effect_are_reported_and_not_sent(
    request_: GenerateRequest,
) -> None:
    request = sampled(request_, typical_p=0.5, watermark=True)

    assert faults(request) == ["typical_p", "watermark"]
    assert parameters(request) == BOUND


def test_a_token_requests_priority_and_deadline_go_along_in_whole_seconds() -> None:
    request = msgspec.structs.replace(TOKENS, priority=2, timeout_s=2.5)

    assert parameters(request) == {**BOUND, "priority": 2, "timeout": 3}


def test_stop_strings_are_for_text_only() -> None:
    text, tokens = sampled(TEXT, stop=("a", "b")), sampled(TOKENS, stop=("a",))

    assert parameters(text)["stop"] == ["a", "b"]
    assert "stop" not in parameters(sampled(TEXT, stop=()))
    assert faults(text) == []
    assert faults(tokens) == ["stop"]


@pytest.mark.parametrize("prompts", [("a", "b"), ((1, 2),), ()])
def test_text_is_one_prompt(prompts: tuple[str, ...]) -> None:
    request = CompletionRequest(model="m", prompts=prompts)

    with pytest.raises(InvalidRequest, match="a single text prompt") as caught:
        mindie().encode(request, "m")

    assert caught.value.param == "prompt"


def test_more_prompts_and_prompts_of_tokens_are_reported() -> None:
    several = CompletionRequest(model="m", prompts=("a", "b"), batch=True)
    tokens = CompletionRequest(model="m", prompts=((1, 2),))

    assert faults(several) == ["prompt.batch"]
    assert faults(tokens) == ["prompt.tokens"]


def test_embeddings_are_not_offered() -> None:
    request = EmbeddingsRequest(model="m", inputs=("x",))

    assert faults(request) == ["embeddings"]
    with pytest.raises(InvalidRequest, match="ascend does not offer embeddings"):
        mindie().encode(request, "m")
    with pytest.raises(InvalidRequest, match="ascend does not offer embeddings"):
        mindie().embeddings(request, b"{}")


@pytest.mark.parametrize(
    ("field", "inside", "outside"),
    [
        ("seed", 0, -1),
        ("seed", 2**63 - 1, 2**63),
        ("max_tokens", 2**31 - 1, 2**31),
        ("max_tokens", 1, 0),
        ("top_k", 1, 0),
        ("repetition_penalty", 0.1, 0.0),
    ],
)
def test_ranges_are_the_servers(field: str, inside: float, outside: float) -> None:
    assert faults(sampled(TOKENS, **{field: inside})) == []
    assert faults(sampled(TOKENS, **{field: outside})) == [field]


def test_unknown_fields_of_token_and_text_requests_are_reported() -> None:
    extra = {"chat_template_kwargs": Raw(b"{}"), "adapter_id": Raw(b'"l"')}

    for request in (TOKENS, TEXT):
        assert faults(msgspec.structs.replace(request, extra=extra)) == sorted(extra)


SAMPLINGS = st.builds(
    Sampling,
    temperature=st.floats(0, 2) | st.just(msgspec.UNSET),
    top_p=st.floats(0, 1) | st.just(msgspec.UNSET),
    top_k=st.integers(1, 2**31 - 1) | st.none() | st.just(msgspec.UNSET),
    do_sample=st.booleans() | st.just(msgspec.UNSET),
    max_tokens=st.integers(1, 2**31 - 1) | st.none() | st.just(msgspec.UNSET),
    seed=st.integers(0, 2**63 - 1) | st.none() | st.just(msgspec.UNSET),
    repetition_penalty=st.floats(0, 2, exclude_min=True) | st.just(msgspec.UNSET),
)


@given(
    sampling=SAMPLINGS,
    tokens=st.lists(st.integers(0, 1024 * 1024), min_size=1).map(tuple),
    timeout=st.floats(0.001, 3600) | st.just(msgspec.UNSET),
)
def test_nothing_that_is_in_range_is_refused(
    sampling: Sampling, tokens: tuple[int, ...], timeout: float
) -> None:
    asked = TokenRequest(model="m", tokens=tokens, sampling=sampling, timeout_s=timeout)
    text = msgspec.structs.replace(TEXT, sampling=sampling)

    assert check_tokens(body(asked)) is None
    assert check_text(body(text)) is None
    assert unsupported(asked, mindie().supports) == ()
