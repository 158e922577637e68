"""A tiny base model and the layers of it that take adapters."""

from pathlib import Path

import pytest

from strowger_gateway.local_engine.peft.lora_layers import AdapterSites
from tests.local_engine.conftest import Folder
from tests.local_engine.peft.random_adapters import sites_of


@pytest.fixture(scope="module")
def base(folder: Folder) -> Path:
    return folder("llama")


@pytest.fixture(scope="module")
def sites(base: Path) -> AdapterSites:
    return sites_of(base)
