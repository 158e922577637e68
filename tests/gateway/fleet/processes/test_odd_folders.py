"""Several workers where names of folders are not Unicode."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.gateway.commanded import SOON_S
from tests.gateway.forked_commands import forked, printed
from tests.gateway.observability.recording.test_serving_records import TWO, answered, known
from tests.gateway.serving import one_model
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    folder = tmp_path / os.fsdecode(b"na\xffme")
    folder.mkdir()
    return folder


async def test_workers_start_with_such_a_folder_for_temporary_files(
    odd: Path, tmp_path: Path
) -> None:
    async with (
        provider() as remote,
        forked(
            tmp_path / "config.yaml", one_model(remote.base_url, TWO), env={"TMPDIR": str(odd)}
        ) as up,
        up.client() as client,
    ):
        made = [one.name for one in odd.iterdir()]  # noqa: ASYNC240
        ids = [await answered(client)]
        up.process.terminate()
        assert await asyncio.wait_for(up.process.wait(), SOON_S) == 0

    assert [one.startswith("strowger-") for one in made] == [True]
    assert known(tmp_path, ids) == set(ids)


async def test_a_configuration_that_no_worker_can_get_is_an_error_at_the_start(odd: Path) -> None:
    config = odd / "config.yaml"
    config.write_text(one_model("http://127.0.0.1:9", TWO))

    status, _, said = await printed("serve", "--config", str(config), "--port", "0")

    assert status == 1
    assert "server.workers: is 2, which needs a configuration in Unicode" in said
    assert "Traceback" not in said
