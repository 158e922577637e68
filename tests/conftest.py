"""Fixtures that every test may use."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
