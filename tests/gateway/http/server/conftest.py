"""One gateway per file."""

from collections.abc import AsyncGenerator

import pytest

from tests.gateway.http.server.front import Front, fronting


@pytest.fixture(scope="module")
async def one_front(
    anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Front, None]:
    async with fronting(tmp_path_factory.mktemp("run")) as front:
        yield front


@pytest.fixture
async def front(one_front: Front) -> AsyncGenerator[Front, None]:
    """The gateway; its provider has received nothing, and waits where it is asked to."""
    one_front.remote.requests.clear()
    one_front.go_on.clear()
    one_front.pieces = 0
    yield one_front
    for wire in one_front.wires:
        wire.close()
    one_front.wires.clear()
