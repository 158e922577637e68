"""One gateway per file."""

from collections.abc import AsyncGenerator

import pytest

from tests.gateway.certificates import Issued
from tests.gateway.server.http1.front import Front, fronting

OVER_TLS = ("test_client_connections", "test_clients_that_leave", "test_flow")
"""Files whose tests are about how connections end and flow: they run over TLS, too."""

OVER_TLS_AT_NIGHT = ("test_connections", "test_expectations")
"""What is in these requests is read in the same way, whatever brings the bytes."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "one_front" in metafunc.fixturenames:
        file, schemes = metafunc.definition.path.stem, list[object](["http"])
        if file in OVER_TLS:
            schemes.append("https")
        if file in OVER_TLS_AT_NIGHT:
            schemes.append(pytest.param("https", marks=pytest.mark.nightly))
        metafunc.parametrize("one_front", schemes, indirect=True, scope="module")


@pytest.fixture(scope="module")
async def one_front(
    request: pytest.FixtureRequest,
    anyio_backend: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[Front, None]:
    folder = tmp_path_factory.mktemp("run")
    issued = Issued.to(folder, "127.0.0.1") if request.param == "https" else None
    async with fronting(folder, issued) as front:
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
