"""Configurations for tests, and their faults and warnings."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.adapter_names import Defaults
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.schemas.errors import InvalidConfig

ADAPTERS: Mapping[str, Defaults] = {
    "local": Defaults(),
    "openai": Defaults(base_url="https://api.openai.test/v1"),
    "vllm": Defaults(),
    "databricks": Defaults(tokens=True),
    "bedrock": Defaults(),
    "azure": Defaults(),
    "gemini": Defaults(base_url="https://gemini.test/v1beta"),
}

PROVIDERS = """
providers:
  - {name: openai, adapter: openai}
  - name: here
    adapter: local
    engine: {models: [{name: tiny, path: "bundled:tiny"}]}
"""
MODELS = """
models:
  - {name: chat, backends: [{provider: openai, model: gpt}]}
  - {name: tiny, backends: [{provider: here, model: tiny}]}
"""
GOOD = PROVIDERS + MODELS


PLACE = re.compile(r"config\.yaml(:[1-9][0-9]*:[1-9][0-9]*)?: ")
"""How each message begins: with line and column, if it is about one place."""


def without_place(message: str) -> str:
    found = PLACE.match(message)
    assert found is not None, message
    return message[found.end() :]


def without_places(messages: list[str]) -> list[str]:
    """Return messages with their file and without their places in it."""
    return [re.sub(r"^([a-z.]+):[0-9]+:[0-9]+: ", r"\1: ", one) for one in messages]


def read(text: str, env: Mapping[str, str] | None = None, folder: Path | None = None) -> Config:
    return read_config(
        text,
        source="config.yaml",
        env=env or {},
        folder=folder,
        adapters=ADAPTERS,
        parts=PARTS,
    )


def faults(
    text: str, env: Mapping[str, str] | None = None, folder: Path | None = None
) -> list[str]:
    """The faults of a text, without the file's name; fails if there are none."""
    with pytest.raises(InvalidConfig) as caught:
        read(text, env, folder)
    return [without_place(problem) for problem in caught.value.problems]


def warnings(text: str) -> list[str]:
    """The warnings about a valid text, without the file's name."""
    told: list[str] = []
    read_config(
        text, source="config.yaml", env={}, adapters=ADAPTERS, warn=told.append, parts=PARTS
    )
    return [without_place(warning) for warning in told]


def faults_of_provider(fields: str, env: Mapping[str, str] | None = None) -> list[str]:
    """The faults of one provider, written as the inside of a flow mapping."""
    return faults(f"providers: [{{name: p, {fields}}}]\nmodels: []\n", env)


def faults_of_model(fields: str) -> list[str]:
    """The faults of a model `m` added to those of GOOD."""
    return faults(with_model(fields))


def with_model(fields: str) -> str:
    """GOOD and one more model, `m`, written as the inside of a flow mapping."""
    given = "backends: []" in fields or "backends: [{" in fields
    backends = "" if given else ", backends: [{provider: here, model: tiny}]"
    return f"{GOOD}  - {{name: m{backends}, {fields}}}\n"
