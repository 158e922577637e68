"""What the gateway's tests clean up after clients that are not ours."""

import gc
import warnings
from collections.abc import Generator
from types import ModuleType

import pytest

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
