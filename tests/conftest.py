"""Fixtures that every test may use."""

import os

import pytest

os.environ["DO_NOT_TRACK"] = "true"  # mlflow, a client in some tests, reports its use unless told


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """On uvloop, as in production: its transports and timings differ from asyncio's."""
    return "asyncio", {"use_uvloop": True}
