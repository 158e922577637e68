"""Adapter names in the configuration select their adapters."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from strowger_gateway.adapters.base import Endpoint, TokenEndpoint
from strowger_gateway.adapters.cohere.adapter import CohereAdapter
from strowger_gateway.adapters.databricks.adapter import DatabricksAdapter
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.registry import BUILTIN, GROUP, Registry
from strowger_gateway.schemas.errors import InvalidConfig
from tests.adapters.openai.openai_doubles import WHOLE_CHAT, body, sampled

ENDPOINT = Endpoint(name="acme", base_url="https://acme.test/v1")


def plugin(
    name: str, value: str = "strowger_gateway.adapters.databricks.adapter:DatabricksAdapter"
) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def test_our_own_adapters_have_names() -> None:
    registry = Registry(())

    assert isinstance(registry.build("openai", ENDPOINT), OpenAIAdapter)
    assert isinstance(registry.build("databricks", ENDPOINT), DatabricksAdapter)


@pytest.mark.parametrize("name", BUILTIN)
def test_a_line_of_the_registry_names_the_class_of_that_name(name: str) -> None:
    assert Registry(()).build(name, ENDPOINT).name == name


def test_a_row_of_the_catalogue_is_an_openai_adapter_with_differences() -> None:
    registry = Registry(())

    groq = registry.build("groq", ENDPOINT)

    assert registry.base_url("groq") == "https://api.groq.com/openai/v1"
    assert groq.supports.completion is None
    assert groq.supports.chat is not None
    assert "logprobs" not in groq.supports.chat
    assert isinstance(groq, OpenAIAdapter)
    assert body(groq, sampled(n=1)) == body(groq, WHOLE_CHAT)


def test_tritons_openai_front_end_gets_nothing_that_it_would_ignore() -> None:
    triton = Registry(()).build("triton-openai", ENDPOINT)

    chat, completion = triton.supports.chat or (), triton.supports.completion or ()
    assert not {"n", "logit_bias", "logprobs", "response_format", "top_k"} & set(chat)
    assert not {"best_of", "suffix", "echo", "prompt.batch", "prompt.tokens"} & set(completion)
    assert {"temperature", "top_p", "seed", "stop", "tools", "frequency_penalty"} <= set(chat)
    assert triton.supports.embeddings is None


def test_base_urls_that_go_without_saying_are_known() -> None:
    registry = Registry((plugin("tiny"),))

    assert registry.base_url("openai") == "https://api.openai.com/v1"
    assert registry.base_url("cohere") == "https://api.cohere.com"
    assert registry.base_url("databricks") == ""
    assert registry.base_url("tiny") == ""


class Elsewhere(CohereAdapter):
    """The attributes with which a plug-in's class may describe its vendor."""

    base_url = "https://api.elsewhere.test/v2/"
    token_endpoint = TokenEndpoint(path="/oauth/token", scope="all")


def test_a_plug_in_declares_its_vendors_address_as_our_own_do() -> None:
    registry = Registry((plugin("elsewhere", f"{__name__}:Elsewhere"),))

    assert registry.base_url("elsewhere") == "https://api.elsewhere.test/v2"
    assert registry.tokens("elsewhere") == Elsewhere.token_endpoint
    assert registry.tokens("databricks") == DatabricksAdapter.token_endpoint
    assert registry.tokens("cohere") is None
    assert registry.tokens("groq") is None


@pytest.mark.parametrize(
    "value",
    [
        "strowger_gateway.adapters.retry_after:retry_after",
        "strowger_gateway.adapters.base:Endpoint",
    ],
)
def test_the_error_for_a_plug_in_that_is_not_an_adapter_names_what_it_lacks(value: str) -> None:
    registry = Registry((plugin("odd", value),))

    with pytest.raises(
        InvalidConfig, match=r"'odd' .* is not an adapter: it has no .*framing, supports"
    ):
        registry.build("odd", ENDPOINT)


def test_an_unknown_name_gets_the_nearest_one_suggested() -> None:
    registry = Registry(())

    with pytest.raises(
        InvalidConfig, match=r"no adapter is named 'opnai'; did you mean 'openai'\?"
    ):
        registry.build("opnai", ENDPOINT)
    assert "available: " in registry.check("zzz")
    assert registry.check("openai") == ""


@pytest.mark.parametrize(
    ("code", "why"),
    [("import sys; sys.exit('no key')", "SystemExit: no key"), ("1 / 0", "ZeroDivisionError: ")],
)
def test_a_plug_in_that_exits_or_fails_while_it_is_imported_is_named(
    code: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "an_odd_adapter.py").write_text(code)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    registry = Registry((plugin("odd", "an_odd_adapter:Adapter"),))

    with pytest.raises(InvalidConfig, match=f"'odd' .* cannot be loaded: {why}"):
        registry.build("odd", ENDPOINT)


def test_a_plug_in_is_loaded_at_its_first_use() -> None:
    registry = Registry((plugin("tiny"), plugin("broken", "no_such_module:Adapter")))

    assert {"tiny", "broken"} <= set(registry.names)
    assert isinstance(registry.build("tiny", ENDPOINT), DatabricksAdapter)
    with pytest.raises(InvalidConfig, match=r"'broken' .* cannot be loaded"):
        registry.build("broken", ENDPOINT)


@pytest.mark.parametrize("name", ["openai", "databricks", "groq"])
def test_a_plug_in_may_not_take_a_name_of_ours(name: str) -> None:
    with pytest.raises(InvalidConfig, match="already taken"):
        Registry((plugin(name),))


def test_two_plug_ins_may_not_share_a_name() -> None:
    with pytest.raises(InvalidConfig, match="'tiny', which is already taken"):
        Registry((plugin("tiny"), plugin("tiny", "other:Adapter")))
