"""The store keeps each text of a version: what operators see of it, and warnings of changes."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.config.load import load_config, read_config
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.content.prompts.history import prompt_views
from strowger_gateway.gateway.content.prompts.text_rows import record_texts, stored_texts
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import run, table
from tests.gateway.commanded import SOON_S, Commanded
from tests.gateway.content.prompts.prompted import ADMIN_KEY, TEXTS, config, written
from tests.gateway.forked_commands import forked
from tests.gateway.serving import one_model
from tests.stand_ins.postgres import Postgres
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

OPERATOR = {"authorization": f"Bearer {ADMIN_KEY}"}


def loaded(folder: Path, **changed: str) -> Config:
    """changed: other texts of versions of `support`, by `v1` and `v2`."""
    files = {**TEXTS, **{f"support@{name[1:]}": text for name, text in changed.items()}}
    text = one_model("http://127.0.0.1:9", written(folder, files))
    return read_config(text, source="config.yaml", env={}, folder=folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[SqlStore]:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
    found = open_store(Secret(url))
    yield found
    found.close()


def test_a_text_is_stored_once_with_the_times_at_which_gateways_had_it(
    store: SqlStore, tmp_path: Path
) -> None:
    prompts = loaded(tmp_path).prompts

    changes = [record_texts(store.database, prompts, at) for at in (10.0, 30.0, 20.0)]

    assert changes == [[], [], []]
    found = stored_texts(store.database)
    assert [(one.ref, one.first_seen, one.last_seen) for one in found] == [
        ("summary@a", 10.0, 30.0),
        ("summary@b", 10.0, 30.0),
        ("support@1", 10.0, 30.0),
        ("support@2", 10.0, 30.0),
    ]
    assert [one.text for one in stored_texts(store.database, "summary")] == [
        TEXTS["summary@a"],
        TEXTS["summary@b"],
    ]


def test_another_text_of_a_version_is_a_row_of_its_own_and_reported_once(
    store: SqlStore, tmp_path: Path
) -> None:
    before, after = loaded(tmp_path).prompts, loaded(tmp_path, v1="Other.").prompts

    record_texts(store.database, before, 10.0)
    (changed,) = record_texts(store.database, after, 20.0)
    again = record_texts(store.database, after, 30.0)
    back = record_texts(store.database, before, 40.0)

    assert (changed.ref, changed.text) == ("support@1", TEXTS["support@1"])
    assert again == back == []
    found = [one for one in stored_texts(store.database, "support") if one.version == "1"]
    assert [(one.text, one.first_seen, one.last_seen) for one in found] == [
        (TEXTS["support@1"], 10.0, 40.0),
        ("Other.", 20.0, 30.0),
    ]


def test_a_removed_version_is_the_text_that_a_gateway_had_last(
    store: SqlStore, tmp_path: Path
) -> None:
    before, after = loaded(tmp_path).prompts, loaded(tmp_path, v1="Other.").prompts
    for at, prompts in enumerate((before, after, before)):
        record_texts(store.database, prompts, 10.0 * at)

    _, support = prompt_views((), stored_texts(store.database))

    one = support.find("1")
    assert one is not None
    assert one.text == TEXTS["support@1"]


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """The file of a configuration whose store has prompts, of which some are removed."""
    url = f"store: {{url: 'sqlite:///{tmp_path / 'store.db'}'}}"
    file = tmp_path / "config.yaml"
    for at, files in enumerate(
        (
            {**TEXTS, "old@1": "Removed."},
            TEXTS,
            {**TEXTS, "support@1": "You help people.\n"},
        )
    ):
        file.write_text(config("http://127.0.0.1:9", tmp_path, url, files=files))
        found = load_config(file, {})
        store = open_store(found.store.url)
        record_texts(store.database, found.prompts, 1_700_000_000.0 + 86_400 * at)
        store.close()
    return file


def test_the_command_lists_prompts_with_their_fields(served: Path) -> None:
    found = run("prompts", "list", "--config", str(served))

    assert found.exit_code == 0, found.output
    rows = table(found.stdout, "PROMPT")
    assert [row[:2] for row in rows] == [
        ["support", "1"],
        ["support", "2"],
        ["summary", "a"],
        ["summary", "b"],
        ["old", "1"],
    ]
    assert rows[1][3:] == ["customer", "company", "2023-11-14 22:13"]
    assert rows[0][-1] == "default"
    assert rows[4][-1] == "removed"


def test_the_command_shows_a_version_by_name_or_digest_also_a_removed_one(served: Path) -> None:
    def shown(name: str) -> str:
        found = run("prompts", "show", name, "--config", str(served))
        return found.stdout if found.exit_code == 0 else found.output

    history = run("prompts", "history", "support", "--config", str(served), "--json").stdout
    first = table(run("prompts", "history", "support", "--config", str(served)).stdout, "VERSION")

    assert shown("support") == "You help people.\n"
    assert shown("support@2") == TEXTS["support@2"]
    assert shown(f"support@{first[0][1]}") == TEXTS["support@1"]
    assert shown("old") == "Removed.\n"
    assert 'did you mean "support"' in shown("suport")
    assert 'support has no version "3"; versions: "1", "2"' in shown("support@3")
    assert [row[0] for row in first] == ["1", "2", "1"]
    assert "not in the configuration" in first[0]
    assert '"last_seen": 1700086400.0' in history


def test_the_command_compares_two_versions(served: Path) -> None:
    found = run("prompts", "diff", "support", "1", "2", "--config", str(served))
    same = run("prompts", "diff", "support", "1", "1", "--config", str(served))

    assert "-You help people." in found.stdout
    assert "+You help {{ customer }} of {{ company | Example Ltd }}." in found.stdout
    assert same.stdout == "The texts are the same.\n"


def test_check_warns_of_a_version_whose_text_has_changed(served: Path, tmp_path: Path) -> None:
    quiet = run("check", str(served))
    (tmp_path / "support-2.md").write_text("Quite another text.")
    loud = run("check", str(served))

    assert quiet.exit_code == loud.exit_code == 0
    assert "another text" not in quiet.output
    assert "prompts[0].versions[1]: gateways have had another text under support@2" in loud.output
    assert "give the new text a version of its own" in loud.output


async def listed(gateway: Commanded, name: str = "") -> dict[str, Any]:
    async with gateway.client(**OPERATOR) as client:
        answer = await client.get("/admin/prompts", params={"name": name} if name else {})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[Commanded]:
    async with provider() as vendor:
        more = (
            f"store: {{url: 'sqlite:///{tmp_path}/store.db', spool: '{tmp_path}/spool'}}\n"
            "server: {workers: 2, drain_delay_s: 0}"
        )
        text = config(vendor.base_url, tmp_path, more)
        async with forked(tmp_path / "config.yaml", text) as up:
            yield up


async def test_a_running_gateway_records_texts_and_warns_of_a_change(
    gateway: Commanded, tmp_path: Path
) -> None:
    async with asyncio.timeout(SOON_S):
        while True:
            (support, _) = (await listed(gateway))["prompts"]
            if all(one["first_seen"] for one in support["versions"]):
                break
            await asyncio.sleep(0.05)
    (tmp_path / "support-1.md").write_text("You help people.")
    text = gateway.config.read_text()
    await gateway.reload(text.replace("drain_delay_s: 0}", "drain_delay_s: 0.5}"))
    said = await gateway.said("support@1 has a new text")

    found = await listed(gateway, "support")
    async with gateway.client(**OPERATOR) as client:
        unknown = await client.get("/admin/prompts", params={"name": "suport"})
        page = await client.get("/admin/view/prompts")
        body = {
            "model": "chat",
            "messages": [{"role": "user", "content": "hi"}],
            "prompt_id": "support",
        }
        answer = await client.post("/v1/chat/completions", json=body)

    assert "give the new text a version of its own" in said
    assert found["recorded"] is True
    assert [(one["version"], one["current"]) for one in found["prompts"][0]["versions"]] == [
        ("1", False),
        ("1", True),
        ("2", True),
    ]
    assert unknown.status_code == 404
    assert isinstance(answer, httpx.Response)
    assert answer.status_code == 200, answer.text
    assert page.status_code == 200
    assert "You help people." in page.text
    assert "+You help people." in page.text


async def test_a_text_that_another_one_replaces_at_once_is_recorded(
    gateway: Commanded, tmp_path: Path
) -> None:
    text = gateway.config.read_text()
    for number in range(3):
        (tmp_path / "support-1.md").write_text(f"Text {number}.")
        await gateway.reload(text.replace("drain_delay_s: 0}", f"drain_delay_s: 0.{number + 1}}}"))

    async with asyncio.timeout(SOON_S):
        while True:
            (support,) = (await listed(gateway, "support"))["prompts"]
            texts = [one["text"] for one in support["versions"] if one["first_seen"]]
            if {"Text 0.", "Text 1.", "Text 2."} <= set(texts):
                break
            await asyncio.sleep(0.05)


def test_the_texts_of_versions_are_those_of_the_files_at_the_last_start(tmp_path: Path) -> None:
    """Two gateways with the same file have the same digests, however its lines end."""
    unix = loaded(tmp_path, v1="One\nTwo\n").prompts[0].versions[0]
    others = ("\ufeffOne\r\nTwo\r\n", "One\rTwo\r", "One\r\nTwo\n")

    for text in others:
        version = loaded(tmp_path, v1=text).prompts[0].versions[0]
        assert replace(version, file="") == replace(unix, file="")
