"""Every adapter keeps the contract: cut anywhere, cut short, refused, and field by field."""

import msgspec
import pytest

from adapters.base import Adapter
from adapters.registry import Registry
from adapters.testing import (
    TASKS,
    Case,
    check_breaks,
    check_cuts,
    check_fields,
    check_statuses,
    check_supports,
    check_truncation,
    contract_endpoint,
    request_for,
    translate,
)
from schemas.answers import Fold
from schemas.errors import CallerError, GatewayError, UpstreamError, UpstreamRejected
from schemas.events import Event
from schemas.fields import Task
from schemas.requests import EmbeddingsRequest
from tests.adapters.traffic import traffic

REGISTRY = Registry(())

TRAFFIC: dict[str, tuple[str, ...]] = {
    "openai": (
        "openai/",
        "openai-compatible/",
        "huggingface/router",
        "ollama/v1",
        "tgi/v1-completions",
        "triton/openai",
    ),
    # Not: anthropic/count-tokens, another route; anthropic/stream-spliced-message-start, where a
    # second answer begins when the first was shown: a failure (test_anthropic_decode.py).
    "anthropic": (
        "anthropic/cached-",
        "anthropic/chat-",
        "anthropic/error-",
        "anthropic/refusal",
        "anthropic/stop-",
        "anthropic/stream-max-",
        "anthropic/stream-refusal",
        "anthropic/stream-th",
        "anthropic/stream-to",
        "anthropic/structured-",
        "anthropic/stub-",
        "anthropic/thinking",
        "anthropic/tools-",
    ),
    "cohere": ("cohere/",),
    "azure": ("azure/",),
    # Not: bedrock/count-tokens and bedrock/invoke-stream-claude, of routes that are not asked;
    # bedrock/stream-broken, which is no event stream (test_bedrock_decode.py).
    "bedrock": (
        "bedrock/cache",
        "bedrock/converse",
        "bedrock/embeddings",
        "bedrock/error-",
        "bedrock/finish",
        "bedrock/guardrail",
        "bedrock/stream-tools",
        "bedrock/structured",
        "bedrock/thinking",
        "bedrock/tools",
    ),
    "databricks": ("databricks/",),
    "mistral": ("mistral/",),
    "mindie": (
        "mindie/chat-json-schema",
        "mindie/chat-length",
        "mindie/chat-stream-n2",
        "mindie/chat-tool",
        "mindie/infer-native",
        "mindie/stream-",
        "mindie/whole-",
        "mindie/error-",
    ),
    "triton": ("triton/generate", "triton/error-"),
    "triton-llmapi": ("triton/llm", "triton/error-"),
    # Not: ollama/doc-generate-unload, an order and no answer; ollama/embeddings-old, a route that
    # `/api/embed` has replaced.
    "ollama": (
        "ollama/chat-",
        "ollama/generate-",
        "ollama/embed-",
        "ollama/error-",
        "ollama/doc-chat-",
        "ollama/doc-error-",
        "ollama/doc-stream-",
    ),
    # Not: gemini/count-tokens, no answer; gemini/finish-unexpected-tool-call and
    # gemini/error-400-key, a failed answer and a 400 that is no caller's fault (test_gemini_ends).
    "gemini": (
        "gemini/cached-",
        "gemini/chat-",
        "gemini/embeddings-",
        "gemini/error-404",
        "gemini/error-429",
        "gemini/finish-max-",
        "gemini/finish-safety",
        "gemini/logprobs",
        "gemini/prompt-",
        "gemini/stream-",
        "gemini/structured-",
        "gemini/thinking-",
        "gemini/tools-",
    ),
    "sglang": ("sglang/",),
    "vllm": ("vllm/",),
    # Not: tgi/sagemaker, whose prompt is part of the answer.
    "tgi": ("tgi/generate-", "tgi/error-", "tgi/v1-chat", "tgi/v1-tool"),
    "triton-tokens": ("triton/infer", "triton/error-"),
    "triton-tokens-decoupled": ("triton/tokens", "triton/error-"),
}
"""Whose answers an adapter must read, by the beginnings of their names."""


def adapter(name: str) -> Adapter:
    base = REGISTRY.base_url(name) or "https://backend.test/v1"
    return REGISTRY.build(name, contract_endpoint(base))


def recorded(*, streamed: bool | None = None) -> list[object]:
    return [
        pytest.param(name, case, id=f"{name}-{case.name}")
        for name, vendors in TRAFFIC.items()
        for case in traffic(*vendors)
        if case.status == 200 and (streamed is None or case.streamed == streamed)
    ]


def recorded_errors() -> list[object]:
    return [
        pytest.param(name, case, id=f"{name}-{case.name}")
        for name, vendors in TRAFFIC.items()
        for case in traffic(*vendors)
        if case.status != 200
    ]


def read(name: str, case: Case) -> list[Event]:
    request = request_for(case)
    assert not isinstance(request, EmbeddingsRequest)
    return translate(adapter(name), request, [case.body])


@pytest.mark.parametrize("name", REGISTRY.names)
def test_supported_fields_are_known_fields(name: str) -> None:
    check_supports(adapter(name))


@pytest.mark.parametrize("name", REGISTRY.names)
def test_every_error_status_has_a_meaning(name: str) -> None:
    check_statuses(adapter(name))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", REGISTRY.names)
def test_every_field_is_sent_or_reported(name: str, task: Task) -> None:
    check_fields(adapter(name), task)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", TRAFFIC)
def test_bytes_that_are_no_answer_are_an_error(name: str, task: Task) -> None:
    check_breaks(adapter(name), task)


@pytest.mark.parametrize(("name", "case"), recorded(streamed=True))
def test_chunk_boundaries_never_show(name: str, case: Case) -> None:
    check_cuts(adapter(name), case)


@pytest.mark.parametrize(("name", "case"), recorded())
def test_an_answer_cut_short_is_an_error(name: str, case: Case) -> None:
    if isinstance(request_for(case), EmbeddingsRequest) or tells_error(name, case):
        pytest.skip("no events to cut short")
    check_truncation(adapter(name), case)


@pytest.mark.parametrize(("name", "case"), recorded())
def test_an_answer_folds_to_finished_choices(name: str, case: Case) -> None:
    request = request_for(case)
    if isinstance(request, EmbeddingsRequest):
        embeddings = adapter(name).embeddings(request, case.body)
        assert len(embeddings.vectors) == len(request.inputs)
        return
    if tells_error(name, case):
        return
    fold = Fold()

    fold.add(read(name, case))

    choices = fold.answer().choices
    assert choices
    assert all(choice.finish is not None for choice in choices)
    for choice in choices:
        shown = choice.text is not None or choice.tool_calls or choice.refusal or choice.opaque
        assert shown or (choice.finish and choice.finish.reason == "content_filter")
        for call in choice.tool_calls:
            assert isinstance(msgspec.json.decode(call.arguments), dict)
            assert call.id
            assert call.name


@pytest.mark.parametrize(("name", "case"), recorded_errors())
def test_a_recorded_error_tells_what_went_wrong(name: str, case: Case) -> None:
    error = adapter(name).error(case.status, case.headers, case.body)

    assert isinstance(error, UpstreamError | UpstreamRejected)
    assert error.message.removeprefix("contract: ")
    assert isinstance(error, CallerError) == (case.status in (400, 413, 422))


def tells_error(name: str, case: Case) -> bool:
    try:
        read(name, case)
    except GatewayError:
        assert "error" in case.name, f"{case.name} should have been an answer"
        return True
    return False
