"""A provider without credentials is an error only at a vendor that always requires them."""

import re
from urllib.parse import urlsplit

import pytest

from strowger_gateway.adapters.hosts_with_keys import requires_credential
from strowger_gateway.adapters.registry import BUILTIN, Registry
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.schemas.errors import InvalidConfig

MISSING = (
    "config.yaml: providers[0].api_key: is missing, and so is every other credential; this vendor "
    "requires "
)
BEDROCK = "adapter: bedrock, base_url: 'https://bedrock-runtime.eu-west-1.amazonaws.com'"


def faults(fields: str) -> tuple[str, ...]:
    """The faults of a provider, written as the inside of a flow mapping, with a model."""
    text = (
        f"providers: [{{name: p, {fields}}}]\n"
        "models: [{name: m, backends: [{provider: p, model: x}]}]\n"
    )
    try:
        read_config(text, source="config.yaml", env={})
    except InvalidConfig as exc:
        return tuple(re.sub(r":[0-9]+:[0-9]+: ", ": ", one, count=1) for one in exc.problems)
    return ()


@pytest.mark.parametrize(
    "fields",
    [
        "adapter: openai",
        "adapter: openai, api_key: ''",
        "adapter: openai, headers: {x-team: a}",
        "adapter: openai, base_url: 'https://api.groq.com/openai/v1'",
        "adapter: anthropic",
        "adapter: gemini",
        "adapter: mistral",
        "adapter: cohere",
        "adapter: openrouter",
        "adapter: vllm, base_url: 'https://API.openai.com/v1'",
        "adapter: databricks, base_url: 'https://dbc-1.cloud.databricks.com'",
        "adapter: azure, base_url: 'https://x.openai.azure.com/openai/v1?api-version=1'",
    ],
)
def test_a_vendor_that_always_requires_a_key_is_not_configured_without(fields: str) -> None:
    assert faults(fields) == (MISSING + "a key",)


def test_bedrock_needs_aws_or_a_key() -> None:
    assert faults(BEDROCK) == (MISSING + "aws, or an API key",)
    assert faults(f"{BEDROCK}, api_key: k") == ()
    assert faults(f"{BEDROCK}, aws: {{region: eu-west-1}}") == ()


@pytest.mark.parametrize(
    "fields",
    [
        "adapter: openai, api_key: k",
        "adapter: openai, headers: {authorization: Bearer k}",
        "adapter: openai, headers: {x-portkey-api-key: k}",
        "adapter: openai, base_url: 'http://localhost:8000/v1'",
        "adapter: openai, base_url: 'https://llm.example.com/v1'",
        "adapter: anthropic, base_url: 'http://127.0.0.1:9000'",
        "adapter: bedrock, base_url: 'http://localhost:4566'",
        "adapter: vllm, base_url: 'http://gpu-1:8000/v1'",
        "adapter: ollama, base_url: 'http://localhost:11434'",
        "adapter: llama-cpp",
        "adapter: lm-studio",
    ],
)
def test_your_own_server_needs_no_key(fields: str) -> None:
    assert faults(fields) == ()


def test_every_built_in_vendor_address_requires_a_key() -> None:
    registry = Registry(())
    addresses = {name: registry.base_url(name) for name in registry.names}
    public = {
        name
        for name, url in addresses.items()
        if url and urlsplit(url).hostname not in ("localhost", "127.0.0.1")
    }

    assert public == {name for name, url in addresses.items() if requires_credential(url)}
    assert public > {"openai", "anthropic", "gemini"} & set(BUILTIN)
