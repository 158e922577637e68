"""The configuration in force of a gateway with two workers: page, API and command agree."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.cli.command_line import table
from tests.gateway.commanded import OPERATOR, SOON_S, Commanded
from tests.gateway.console.admin.governance.pages import text_of
from tests.gateway.forked_commands import forked, printed

pytestmark = pytest.mark.anyio

TEXT = """\
server: {{drain_delay_s: 0, workers: 2, max_in_flight: {most}}}
auth: {{mode: keys, admin_key: "${{ADMIN_KEY}}", keys: [{{name: ada, key: key-of-ada-1}}]}}
providers:
  - name: p
    adapter: openai
    base_url: http://127.0.0.1:9/v1
    api_key: key-of-the-vendor
models:
  - {{name: chat, backends: [{{provider: p, model: large}}], retry: {{attempts: {attempts}}}}}
"""
ENV = {"ADMIN_KEY": "key-of-the-operator"}


def text(*, most: object = 100, attempts: int = 2) -> str:
    return TEXT.format(most=most, attempts=attempts)


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Commanded]:
    config: Path = tmp_path_factory.mktemp("in-force") / "config.yaml"
    async with forked(config, text(), env=ENV, folder=config.parent) as gateway:
        yield gateway


async def in_force(up: Commanded, **asked: object) -> dict[str, Any]:
    async with up.client(**OPERATOR) as client:
        answer = await client.get("/admin/config", params={k: str(v) for k, v in asked.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def page(up: Commanded, query: str = "", language: str = "en") -> str:
    async with up.client(**OPERATOR) as client:
        headers = {"accept-language": language}
        answer = await client.get(f"/admin/view/config{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.text


async def command(up: Commanded, *words: str) -> str:
    options = ("--url", up.url, "--admin-key", "key-of-the-operator", "--config", str(up.config))
    status, found, complaints = await printed("config", "show", *options, *words)
    assert status == 0, complaints
    return found + complaints


async def test_page_api_and_command_show_the_same_settings(up: Commanded) -> None:
    found = await in_force(up, search="retry.attempts")
    shown = text_of(await page(up, "?search=retry.attempts"))
    printed_rows = table(await command(up, "--search", "retry.attempts"), "KEY")

    (setting,) = found["settings"]
    assert setting == {
        "path": "models[chat].retry.attempts",
        "value": "2",
        "default": "3",
        "origin": "config",
        "line": 9,
        "names": [],
    }
    assert found["total"] == 1
    assert "models[chat].retry.attempts 2 line 9 3" in shown
    assert printed_rows == [["models[chat].retry.attempts", "2", "line 9", "3"]]


async def test_what_the_command_line_sets_is_not_taken_for_the_files(up: Commanded) -> None:
    (port,) = (await in_force(up, search="server.port"))["settings"]

    assert port["origin"] == "command_line"
    assert (port["value"], port["default"]) == ("0", "8080")


async def test_settings_are_filtered_and_paged(up: Commanded) -> None:
    every = await in_force(up, limit=1000)
    given = await in_force(up, only="set", limit=1000)
    rest = await in_force(up, only="default", limit=1000)
    second = await in_force(up, only="set", limit=2, offset=2)
    beyond = await in_force(up, only="set", offset=5000)

    assert every["total"] == len(every["settings"]) == given["total"] + rest["total"]
    assert second["settings"] == given["settings"][2:4]
    assert second["total"] == given["total"]
    assert (beyond["settings"], beyond["total"]) == ([], given["total"])
    assert {one["path"].partition(".")[0] for one in (await in_force(up, section="server"))[
        "settings"
    ]} == {"server"}  # fmt: skip


async def test_no_secret_is_on_the_page_in_the_api_or_printed(up: Commanded) -> None:
    shown = [
        json.dumps(await in_force(up, limit=1000)),
        await page(up, "?limit=1000"),
        await command(up, "--json"),
    ]

    for one in shown:
        assert "admin_key" in one
        assert "key-of-" not in one


async def test_the_page_is_chinese_for_who_reads_chinese(up: Commanded) -> None:
    assert "生效中的配置" in await page(up, language="zh-CN")


async def test_an_unknown_section_and_parameter_are_refused_by_name(up: Commanded) -> None:
    async with up.client(**OPERATOR) as client:
        wrong = await client.get("/admin/config?only=some")
        unknown = await client.get("/admin/config?sections=server")
    status, _, complaint = await printed(
        "config", "show", "--config", str(up.config), "--section", "sever", env=ENV
    )

    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "only")
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "sections")
    assert status == 2
    assert "--section: 'sever' is none of providers, models, server" in complaint


async def test_clients_do_not_see_it(up: Commanded) -> None:
    async with up.client(authorization="Bearer key-of-ada-1") as client:
        answers = [await client.get(path) for path in ("/admin/config", "/admin/view/config")]

    assert [one.status_code for one in answers] == [401, 303]


async def test_a_reload_is_listed_with_its_changes_and_a_rejected_file_with_its_errors(
    up: Commanded,
) -> None:
    await up.reload(text(attempts=4))
    applied = await in_force(up, search="retry.attempts")
    since = len(up.lines)
    up.edit(f"# a comment\n{text(attempts=5, most='many')}")
    await up.said("rejected", since=since)
    rejected = await in_force(up, search="retry.attempts")
    shown, told = text_of(await page(up)), await command(up, "--search", "retry.attempts")
    since = len(up.lines)
    up.edit(f"# a comment\n{text(attempts=4)}")
    await up.said("unchanged", since=since)
    async with asyncio.timeout(SOON_S):
        while (mended := await in_force(up, search="retry.attempts"))["rejected"] is not None:  # noqa: ASYNC110  only a request tells
            await asyncio.sleep(0.02)

    assert applied["settings"][0]["value"] == "4"
    assert applied["rejected"] is None
    change = {"field": "models[chat].retry.attempts", "old": "2", "new": "4"}
    assert applied["reloads"][0]["changes"] == [change]
    assert applied["reloads"][0]["outcome"] == "applied"
    assert rejected["digest"] == applied["digest"]
    assert rejected["settings"] == applied["settings"]
    (problem,) = rejected["rejected"]["problems"]
    assert "server.max_in_flight: expected an integer" in problem
    assert problem in shown
    assert problem in told
    assert "models[chat].retry.attempts : 2 → 4" in shown
    assert [one["outcome"] for one in mended["reloads"]] == ["unchanged", "rejected", "applied"]
    assert mended["settings"][0]["line"] == 10


async def test_the_command_shows_a_file_without_a_gateway(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text())

    status, found, complaint = await printed(
        "config", "show", "--config", str(file), "--only-set", "--section", "auth", env=ENV
    )
    both = await printed("config", "show", "--config", str(file), "--only-set", "--defaults")

    assert status == 0, complaint
    rows = table(found, "KEY")
    assert ["auth.admin_key", "***", "line 2: ${ADMIN_KEY}", "(not set)"] in rows
    assert ["auth.keys[ada].key", "***", "line 2", "(not set)"] in rows
    assert both[0] == 2
