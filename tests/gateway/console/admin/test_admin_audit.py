"""`GET /admin/audit`: the rows of the audit log, page by page."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.event import AuditEvent, Change
from strowger_gateway.gateway.experiments.experiment_service import ExperimentService
from strowger_gateway.gateway.experiments.process_side import ExperimentsSide
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.observability.recording.recorder import FileRecorder
from strowger_gateway.gateway.observability.recording.spool import Spool
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.schemas.secret import Secret
from tests.gateway.serving import one_model, serving

pytestmark = pytest.mark.anyio

AUTH = "auth: {mode: keys, admin_key: key-of-the-operator, keys: [{name: ada, key: key-of-ada-1}]}"
OPERATOR = {"authorization": "Bearer key-of-the-operator"}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient]:
    """Of a gateway whose chain has five rows."""
    store = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    recorder = FileRecorder(Spool(tmp_path / "spool"))
    changes = (Change(field="team", old=None, new="red"),)
    kinds = ("key.create", "key.create", "key.change", "gateway.stop", "key.revoke")
    store.audit.append(
        [
            AuditEvent(action=kind, actor_kind="cli", actor="root", time=at, changes=changes)
            for at, kind in enumerate(kinds)
        ]
    )

    def equip(state: Gateway) -> None:
        state.side(AuditSide).rows = store.audit
        state.store = StoreAccess(store)
        state.side(ExperimentsSide).service = ExperimentService(
            state.store, recorder, state.runtime.routing.experiments, lambda: ()
        )

    text = one_model("http://127.0.0.1:9/v1", AUTH)
    async with (
        serving(text, tmp_path, equip=equip) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as found,
    ):
        yield found
    recorder.close()
    store.close()


async def test_pages_follow_each_other_to_the_first_row(client: httpx.AsyncClient) -> None:
    seqs, heads = list[int](), list[int]()
    query: dict[str, int] | None = {"limit": 2}
    while query is not None:
        page = (await client.get("/admin/audit", params=query, headers=OPERATOR)).json()
        seqs += [row["seq"] for row in page["rows"]]
        heads.append(page["head"]["seq"])
        query = None if page["before"] is None else {"limit": 2, "before": page["before"]}

    assert seqs == [5, 4, 3, 2, 1]
    assert heads == [5, 5, 5]


async def test_a_row_has_its_facts_and_changes(client: httpx.AsyncClient) -> None:
    query = {"action": "key.revoke", "actor": "root", "since": "1970-01-01T00:00:04Z"}
    (row,) = (await client.get("/admin/audit", params=query, headers=OPERATOR)).json()["rows"]

    assert (row["seq"], row["actor_kind"], row["time"]) == (5, "cli", "1970-01-01T00:00:04.000000Z")
    assert row["changes"] == [{"field": "team", "old": None, "new": "red"}]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "1001"},
        {"before": str(2**63)},
        {"since": "yesterday"},
        {"since": "2026-01-01"},
        {"since": "0001-01-01T00:00:00+01:00"},
        {"since": "9999-12-31T23:59:59-01:00"},
    ],
)
async def test_a_wrong_parameter_is_named(query: dict[str, str], client: httpx.AsyncClient) -> None:
    answer = await client.get("/admin/audit", params=query, headers=OPERATOR)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == next(iter(query))


async def test_only_admins_read_the_audit_log(client: httpx.AsyncClient) -> None:
    none = await client.get("/admin/audit")
    of_a_client = await client.get("/admin/audit", headers={"authorization": "Bearer key-of-ada-1"})

    assert (none.status_code, of_a_client.status_code) == (401, 401)
