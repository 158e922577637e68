"""The gateways with one store: what each runs, which have gone, and which settings differ."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.console.gateways.report import (
    DownBackend,
    GatewayReport,
    differences,
)
from strowger_gateway.gateway.console.gateways.report_rows import (
    FORGET_S,
    drop_report,
    put_report,
    stored_reports,
)
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import table
from tests.gateway.commanded import OPERATOR, SOON_S, Commanded
from tests.gateway.console.admin.governance.pages import text_of
from tests.gateway.forked_commands import forked, printed
from tests.stand_ins.postgres import Postgres

pytestmark = pytest.mark.anyio

TEXT = """\
server: {{drain_delay_s: 0, workers: 2, max_in_flight: 100}}
store: {{url: "sqlite:///{folder}/store.db", spool: "{folder}/spool"}}
auth: {{mode: keys, admin_key: key-of-the-operator, keys: [{{name: ada, key: key-of-ada-1}}]}}
providers: [{{name: p, adapter: openai, base_url: "http://127.0.0.1:9/v1", api_key: k}}]
models: [{{name: chat, backends: [{{provider: p, model: large}}]}}]
"""
OTHER = GatewayReport(
    name="other-host (7)",
    host="other-host",
    pid=7,
    version="0.0.1",
    started=time.time() - 7200,
    seen=time.time(),
    digest="aaaabbbbcccc",
    rejected=True,
    workers=3,
    wanted=4,
    memory_bytes=300 * 1024 * 1024,
    in_flight=12,
    import_lag_s=2.5,
    settings={"server.max_in_flight": "50", "server.workers": "2"},
)


class Site(Struct, frozen=True, eq=False):
    up: Commanded
    operator: httpx.AsyncClient
    store: SqlStore

    async def gateways(self) -> dict[str, Any]:
        answer = await self.operator.get("/admin/gateways")
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Site]:
    folder: Path = tmp_path_factory.mktemp("gateways")
    async with (
        forked(folder / "config.yaml", TEXT.format(folder=folder), folder=folder) as up,
        up.client(**OPERATOR) as operator,
    ):
        store = open_store(Secret(f"sqlite:///{folder}/store.db"))
        yield Site(up, operator, store)
        store.close()


async def test_a_gateway_reports_itself_with_all_its_workers(site: Site) -> None:
    async with asyncio.timeout(SOON_S):
        while True:
            own = (await site.gateways())["gateways"][0]
            if own["workers"] == 2 and own["memory_bytes"] > 3 * 10**7:
                break
            await asyncio.sleep(0.05)
        while not stored_reports(site.store.database):  # noqa: ASYNC110  written unannounced
            await asyncio.sleep(0.05)

    assert (own["itself"], own["responding"], own["wanted"]) == (True, True, 2)
    assert own["pid"] == site.up.process.pid
    assert own["digest"]
    assert own["import_lag_s"] < 600
    (stored,) = stored_reports(site.store.database)
    assert stored.name == own["name"]
    assert "key-of" not in str(stored)


async def test_others_are_shown_with_what_differs_and_stale_ones_are_marked(site: Site) -> None:
    now = time.time()
    put_report(site.store.database, replace(OTHER, seen=now))
    put_report(site.store.database, replace(OTHER, name="gone (8)", seen=now - 120))
    try:
        found = await site.gateways()
        page = text_of((await site.operator.get("/admin/view/gateways")).text)
        status, told, complaint = await printed(
            "gateways", "--url", site.up.url, "--admin-key", "key-of-the-operator"
        )
    finally:
        for name in ("other-host (7)", "gone (8)"):
            drop_report(site.store.database, name)

    known = {one["name"]: one for one in found["gateways"]}
    own = next(one for one in found["gateways"] if one["itself"])
    assert [one["responding"] for one in (known["other-host (7)"], known["gone (8)"])] == [
        True,
        False,
    ]
    differing = {one["path"]: one["values"] for one in found["differences"]}
    assert differing["server.max_in_flight"] == {own["name"]: "100", "other-host (7)": "50"}
    assert "server.workers" not in differing
    assert not any("gone (8)" in values for values in differing.values())
    assert status == 0, complaint
    rows = {row[0]: row for row in table(told, "GATEWAY")}
    assert rows["other-host (7)"][1:4] == ["responding", "0.0.1", "aaaabbbbcccc, file rejected"]
    assert rows["gone (8)"][1].startswith("no report since")
    words = ("other-host (7)", "3 / 4", "300 MiB", "file rejected", "no report for", "differs")
    assert [one for one in words if one not in page] == []


async def test_what_each_gateway_thinks_of_a_backend_is_shown(site: Site) -> None:
    async with site.up.client(authorization="Bearer key-of-ada-1") as client:
        body = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
        for _ in range(4):
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 502
    now = time.time()
    elsewhere = DownBackend(model="chat", backend="p/other", state="open", since=now - 300)
    put_report(site.store.database, replace(OTHER, seen=now, down=(elsewhere,)))
    try:
        async with asyncio.timeout(SOON_S):
            while True:
                known = await _down(site)
                if ("chat", "p/large") in known:
                    break
                await asyncio.sleep(0.2)
        page = text_of((await site.operator.get("/admin/view/gateways")).text)
        _, told, _ = await printed(
            "gateways", "--url", site.up.url, "--admin-key", "key-of-the-operator"
        )
    finally:
        drop_report(site.store.database, "other-host (7)")

    own = next(name for name in known["chat", "p/large"])
    assert known["chat", "p/other"] == {"other-host (7)": "open"}
    assert known["chat", "p/large"] == {own: "failing"} != {"other-host (7)": "failing"}
    assert f"p/large chat {own}: failing for" in page
    assert "other-host (7): works" in page
    assert f"p/other chat {own}: works other-host (7): circuit open for 5 min" in page
    rows = {row[0]: row[1:4] for row in table(told.partition("backends that are")[2], "BACKEND")}
    assert rows["p/other"] == ["chat", "other-host (7)", "open"]
    assert rows["p/large"] == ["chat", own, "failing"]


async def _down(site: Site) -> dict[tuple[str, str], dict[str, str]]:
    """States by gateway of each model and backend that one of them thinks is down."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for gateway in (await site.gateways())["gateways"]:
        for one in gateway["down"]:
            found.setdefault((one["model"], one["backend"]), {})[gateway["name"]] = one["state"]
    return found


async def test_a_rejected_file_is_reported(site: Site) -> None:
    since = len(site.up.lines)
    text = site.up.config.read_text()
    site.up.edit(text.replace("max_in_flight: 100", "max_in_flight: many"))
    await site.up.said("rejected", since=since)
    rejected = (await site.gateways())["gateways"][0]["rejected"]
    since = len(site.up.lines)
    site.up.edit(text)
    await site.up.said("unchanged", since=since)

    assert rejected is True


async def test_the_view_lists_engines_and_is_closed_to_clients(site: Site) -> None:
    page = (await site.operator.get("/admin/view/gateways")).text
    async with site.up.client(authorization="Bearer key-of-ada-1") as client:
        closed = await client.get("/admin/gateways")

    assert "The configuration has no local engines." in page
    assert closed.status_code == 401


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[SqlStore]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
    found = open_store(Secret(url))
    found.prepare()
    yield found
    found.close()


def test_a_report_replaces_the_one_before_and_old_ones_leave(store: SqlStore) -> None:
    put_report(store.database, replace(OTHER, name="old", seen=OTHER.seen - FORGET_S - 1))
    put_report(store.database, replace(OTHER, in_flight=1))
    put_report(store.database, OTHER)

    found = stored_reports(store.database)
    drop_report(store.database, OTHER.name)

    assert list(found) == [OTHER]
    assert list(stored_reports(store.database)) == []


def test_a_gateway_without_settings_differs_in_nothing() -> None:
    others = (OTHER, replace(OTHER, name="x", settings={}), replace(OTHER, name="y"))

    assert list(differences(others)) == []
