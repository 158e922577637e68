"""Clients without a key do not decide how much is stored."""

from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.observability.recording.importer import Importer
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

KEYS = "auth: {mode: keys, keys: [{name: ann, key: key-of-ann-1}]}"
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


async def test_a_wrong_key_has_an_access_line_and_a_metric_and_no_row(tmp_path: Path) -> None:
    spool, store = Spool(tmp_path / "spool"), open_store(Secret(f"sqlite:///{tmp_path}/s.db"))
    recorder = FileRecorder(spool)
    statuses: list[int] = []
    async with (
        provider() as remote,
        serving(one_model(remote.base_url, KEYS), tmp_path, recorder=recorder) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        for key in ("wrong-1", "key-of-ann-1", "wrong-2"):
            sent = {"authorization": f"Bearer {key}"}
            answer = await client.post("/v1/chat/completions", json=HELLO, headers=sent)
            statuses.append(answer.status_code)
        lines = [one.status for one in gateway.access_lines()]
        metrics = (await gateway.state.processes.metrics_text())[0].decode()
    recorder.close()
    Importer(spool, store).import_once()
    rows = [(one.key, one.status) for one in store.recorded_before(2.0**62, 10)]
    store.close()

    assert statuses == lines == [401, 200, 401]
    assert 'status="401"' in metrics
    assert rows == [("ann", 200)]
