"""Fixtures that every test may use."""

import pytest


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """On uvloop, as in production: its transports and timings differ from asyncio's."""
    return "asyncio", {"use_uvloop": True}
