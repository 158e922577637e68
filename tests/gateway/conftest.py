"""The engine that the gateway's tests share, and what they clean up after clients not ours."""

import gc
import warnings
from collections.abc import Generator
from types import ModuleType

import pytest

from tests.gateway.shared_engine import SharedEngine, shared_engine

LEAVE_CONNECTIONS = {"test_databricks_clients", "test_databricks_failures", "test_databricks_sdk"}
"""Files whose clients (Databricks' SDK, MLflow's) never close a connection."""


@pytest.fixture(scope="module", autouse=True)
def collected(request: pytest.FixtureRequest) -> Generator[None]:
    """Their sockets are collected here, where nobody minds, and not in some later test."""
    yield
    module = request.node.obj
    assert isinstance(module, ModuleType)
    if module.__name__.rpartition(".")[2] in LEAVE_CONNECTIONS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[SharedEngine]:
    """For files that neither stop it, nor count what it did, nor need settings of their own.

    What they ask of it may meet prompts that another file has left in its cache.
    """
    pytest.importorskip("torch")
    from tests.local_engine.talkers import save_talker
    from tests.local_engine.tiny_embedders import CASES, save_embedder

    caller = save_talker(tmp_path_factory.mktemp("caller"), "hermes")
    mini = save_embedder(tmp_path_factory.mktemp("mini"), CASES["bert-cls"])
    run_dir = tmp_path_factory.mktemp("engine")
    with shared_engine(run_dir, caller=caller, mini=mini) as running:
        yield running
