"""An adapter's declaration of each request field matches its bytes, alone and together."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.adapters.base import Adapter, Outbound, Supports
from strowger_gateway.adapters.capabilities import offered
from strowger_gateway.adapters.conformance.checks import TASKS, check_supports
from strowger_gateway.adapters.conformance.translation_checks import (
    ANY_MODEL,
    Models,
    check_together,
    check_translations,
)
from strowger_gateway.adapters.mistral.adapter import MistralAdapter
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.adapters.testing import contract_endpoint
from strowger_gateway.schemas.fields import FIELDS, Task, sent_fields, without
from strowger_gateway.schemas.requests import ChatRequest, Request
from tests.examples import examples

REGISTRY = Registry(())
HEADERS = {"later": (("anthropic-version", "2026-01-01"),)}

ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "compatible": ("openai", "https://b.test/v1"),
    "later": ("anthropic", "https://b.test"),
    "azure, dated": ("azure", "https://b.test/openai?api-version=2024-02-01"),
    "azure, deployments": ("azure", "https://b.test/openai?api-version=2024-10-21"),
    "foundry": ("azure", "https://b.test/models?api-version=2024-05-01-preview"),
    "databricks, openai": ("databricks", "https://b.test/serving-endpoints"),
    "vertex": ("gemini", "https://b.test/v1/projects/p/locations/l/publishers/google"),
}
"""What other addresses make of an adapter; the contract (test_contract.py) has the usual ones."""

ADDRESSES: Mapping[str, tuple[str, str]] = {
    **{name: (name, REGISTRY.base_url(name) or "https://b.test/v1") for name in REGISTRY.names},
    **ELSEWHERE,
}
"""Every adapter, and every row of the catalogue."""

MODELS: Mapping[tuple[str, Task], Models] = {
    ("later", "chat"): {"m": {}, "claude-3-7-sonnet-latest": {}},
    ("vertex", "embeddings"): {"m": {}, "gemini-embedding-001": {}},
}
"""Where the model decides how something is said: one for each way."""

TOOLS = frozenset({"tools", "tool_choice", "parallel_tool_calls", "tools.opaque"})
NOT_WITH_TOOLS: Mapping[str, frozenset[str]] = {"cohere": frozenset({"response_format"})}
"""What a backend takes alone, but refuses beside tools (test_cohere_encode.py)."""

IMPLIED: Mapping[str, frozenset[str]] = {
    name: frozenset({"do_sample"})
    for name in ("triton", "triton-llmapi", "triton-tokens", "triton-tokens-decoupled")
}
"""Where candidates are cut, or beams searched, TensorRT-LLM needs no word to draw, or draws not."""


def adapter(name: str) -> Adapter:
    kind, base_url = ADDRESSES[name]
    return REGISTRY.build(kind, replace(contract_endpoint(base_url), headers=HEADERS.get(name, ())))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_an_address_changes_is_reported(name: str, task: Task) -> None:
    check_supports(adapter(name))
    check_translations(adapter(name), task, MODELS.get((name, task), ANY_MODEL))


@pytest.mark.parametrize("name", ADDRESSES)
@given(st.data())
@settings(max_examples=examples(20))
def test_any_fields_together_are_sent_or_reported(name: str, data: st.DataObject) -> None:
    of_the_name = adapter(name)
    tasks: list[Task] = [task for task in TASKS if offered(of_the_name.supports, task) is not None]
    task = data.draw(st.sampled_from(tasks))
    fields = data.draw(st.frozensets(st.sampled_from(sorted(FIELDS[task]))))
    if not fields.isdisjoint(TOOLS):
        fields -= NOT_WITH_TOOLS.get(name, frozenset())

    check_together(of_the_name, task, fields, IMPLIED.get(name, ()))


def mistaken(field: str, way: str) -> Adapter:
    """Return an adapter with a wrong declaration of a field; "": with none."""

    class Mistaken(MistralAdapter):
        def supported(self) -> Supports:
            known = super().supported()
            said = {**known.translated["chat"], field: way}
            return replace(known, translated={"chat": {one: at for one, at in said.items() if at}})

    return Mistaken(contract_endpoint("https://b.test/v1"))


@pytest.mark.parametrize(
    ("field", "way", "problem"),
    [
        ("seed", "", "seed changes"),
        ("seed", "seed", "seed changes"),
        ("seed", "random_seed or options.seed", "seed is not sent as"),
        ("seed", "random_seed + n", "seed changes"),
        ("tool_choice", "", "is neither sent as in the client's dialect"),
        ("messages.audio", "", "is neither sent as in the client's dialect"),
        ("top_p", "top_p", "is sent as in the client's dialect"),
        ("n", "candidates", "n changes"),
    ],
)
def test_a_wrong_claim_of_an_adapter_about_itself_is_found(
    field: str, way: str, problem: str
) -> None:
    with pytest.raises(AssertionError, match=problem):
        check_translations(mistaken(field, way), "chat")


class Forgetful(MistralAdapter):
    """Omits the seed if a user's text comes with an image."""

    def encode(self, request: Request, model: str) -> Outbound:
        if isinstance(request, ChatRequest) and "messages.image" in sent_fields(request):
            request = without(request, {"seed"})
        return super().encode(request, model)


def test_a_field_that_is_lost_only_next_to_others_is_found() -> None:
    forgetful = Forgetful(contract_endpoint("https://b.test/v1"))
    check_together(forgetful, "chat", {"seed", "top_p"})

    with pytest.raises(AssertionError, match="seed is lost"):
        check_together(forgetful, "chat", {"seed", "messages.image"})


def test_content_that_a_backend_lacks_cannot_be_dropped() -> None:
    check_together(adapter("mistral"), "completion", {"prompt.batch", "seed", "echo"})
    check_together(adapter("tgi"), "chat", {"messages.audio", "messages.image", "stop"})


def test_openai_supports_best_of_only_for_completions() -> None:
    official, other = adapter("openai").supports, adapter("compatible").supports

    assert "best_of" not in (official.chat or ())
    assert "best_of" in (official.completion or ())
    assert "best_of" in (other.chat or ())
