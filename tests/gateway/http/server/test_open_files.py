"""A gateway that may open 256 files, with more idle clients than that."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from gateway.open_files import client_room, reserved
from tests.gateway.commanded import commanded
from tests.gateway.http.server.wire import Wire, dial
from tests.gateway.serving import one_model
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

FILES: Final = 256
STRANGERS: Final = 400
CHAT: Final[Mapping[str, object]] = {
    "model": "chat",
    "messages": [{"role": "user", "content": "hi"}],
}
SETTINGS: Final = """
auth: {mode: keys, admin_key: key-of-the-operator, keys: [{name: client, key: key-of-a-client}]}
server: {drain_delay_s: 0}
"""
LOW = ("sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", sys.executable, "-m", "gateway.cli")
OPERATOR: Final = {"authorization": "Bearer key-of-the-operator"}


async def test_idle_strangers_keep_no_client_no_reload_and_no_key_out(tmp_path: Path) -> None:
    async with provider() as remote:
        text = one_model(remote.base_url, SETTINGS)
        file = tmp_path / "config.yaml"
        async with commanded(file, text, command=LOW) as up, up.client() as kept:
            client = {"authorization": "Bearer key-of-a-client"}
            assert (await kept.post("/v1/chat/completions", json=CHAT, headers=client)).is_success
            warning = await up.said("may open 256 files")
            strangers: list[Wire] = [await dial(up.url) for _ in range(STRANGERS)]

            async with up.client() as new:
                assert (await new.get("/healthz")).is_success
                answer = await new.post("/v1/chat/completions", json=CHAT, headers=client)
                assert answer.is_success
                issued = await new.post("/admin/keys", json={"name": "k"}, headers=OPERATOR)
                assert issued.is_success, issued.text
                await up.reload(text.replace("name: chat", "name: other"))
                models = await kept.get("/v1/models", headers=client)
                metrics = (await new.get("/metrics", headers=OPERATOR)).text
            for one in strangers:
                one.close()

    assert [one["id"] for one in models.json()["data"]] == ["other"]
    assert "server.max_in_flight 4,096" in warning
    counts = {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in metrics.splitlines())
        if name.startswith(("strowger_open", "strowger_client_conn"))
    }
    assert counts["strowger_open_files_limit"] == FILES
    assert 0 < counts["strowger_open_files"] < FILES - reserved(FILES)
    assert 1 < counts["strowger_client_connections"] <= client_room(FILES)
    assert counts['strowger_client_connections_closed_total{why="stranger"}'] > STRANGERS / 2
    assert counts['strowger_client_connections_closed_total{why="idle"}'] == 0
