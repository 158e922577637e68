"""Settings as people have them: protected, linked, with additions of their own, in a repository."""

import asyncio
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from strowger_gateway.gateway.cli.agents.tools.roster import TOOLS
from tests.gateway.certificates import Issued
from tests.gateway.cli.agents.commanding import KEY, agents, set_up, tree
from tests.gateway.forked_commands import forked
from tests.gateway.serving import Serving
from tests.stand_ins.provider import Provider

pytestmark = pytest.mark.anyio


async def test_what_a_user_adds_to_an_entry_stays_when_it_is_set_up_again(
    up: Serving, home: Path
) -> None:
    await set_up(up, home, "codex", "--no-check")
    await set_up(up, home, "opencode", "--no-check")
    toml = home / ".codex" / "config.toml"
    ours = '[model_providers.strowger]\nname = "Strowger"\n'
    theirs = '[model_providers.strowger]\nname = "OpenAI"\nrequest_max_retries = 9 # mine\n'
    toml.write_text(toml.read_text().replace(ours, theirs))
    file = home / ".config" / "opencode" / "opencode.json"
    settings = json.loads(file.read_text())
    settings["provider"]["strowger"]["models"]["other"] = {"name": "mine"}
    file.write_text(json.dumps(settings))

    checked = await agents(home, "check", "codex")
    again = [
        await set_up(up, home, one, "--no-check", "--model", "small")
        for one in ("codex", "opencode")
    ]

    assert "not as the gateway has it" not in checked.stderr
    assert [one.exit_code for one in again] == [0, 0]
    assert theirs in toml.read_text()
    provider = json.loads(file.read_text())["provider"]["strowger"]
    assert set(provider["models"]) == {"chat", "other", "small"}
    assert tree(home)[".codex/config.toml"].startswith('model = "small"')


async def test_a_table_inside_the_gateways_entry_stays(up: Serving, home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    headers = '[model_providers.strowger.http_headers]\nX = "y" # mine\n'
    file.write_text(headers)

    done = await set_up(up, home, "codex", "--no-check")
    written = file.read_text()
    undone = await agents(home, "setup", "codex", "--undo")

    assert (done.exit_code, undone.exit_code) == (0, 0)
    assert headers in written
    assert f'base_url = "{up.url}/v1"' in written
    assert file.read_text() == headers


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_key_that_was_stored_goes_with_the_next_set_up(
    up: Serving, home: Path, tool: str
) -> None:
    await set_up(up, home, tool, "--store-key", "--no-check")
    await set_up(up, home, tool, "--no-check")

    assert KEY not in "".join(tree(home).values())


async def test_a_key_is_never_printed(up: Serving, home: Path) -> None:
    done = await set_up(up, home, "codex", "--print", "--store-key", "--no-check")

    assert KEY not in done.output
    assert 'experimental_bearer_token = "YOUR_KEY"' in done.stdout


@pytest.mark.parametrize(
    ("tool", "name", "text"),
    [
        (
            "codex",
            ".codex/config.toml",
            '\ufeffmodel = "x" # "y"\r\n\r\n# t\r\n[t]\r\na = nan\r\n',
        ),
        ("qwen-code", ".qwen/settings.json", '{\r\n  // mine\r\n  "model": null\r\n}\r\n'),
        ("continue", ".continue/config.yaml", "name: x\r\nversion: 1.0.0\r\nmodels: ~ # none\r\n"),
        ("aider", ".aider.conf.yml", "{dark-mode: true, model: gpt-5}\n"),
        ("kilo-code", ".config/kilo/kilo.jsonc", "// nothing yet\r\n"),
        ("gemini-cli", ".gemini/.env", "\ufeffexport GEMINI_MODEL=x # mine\r\n"),
    ],
)
async def test_odd_files_get_settings_and_are_the_same_bytes_after_undo(
    up: Serving, home: Path, tool: str, name: str, text: str
) -> None:
    file = home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())

    done = await set_up(up, home, tool, "--no-check")
    checked = await agents(home, "check", tool)
    written = file.read_bytes()
    undone = await agents(home, "setup", tool, "--undo")

    assert [one.exit_code for one in (done, checked, undone)] == [0, 0, 0]
    assert written.count(b"\n") == (written.count(b"\r\n") or written.count(b"\n"))
    assert file.read_bytes() == text.encode()


async def test_files_that_their_owner_protects_stay_as_they_are(up: Serving, home: Path) -> None:
    folder = home / ".gemini"
    folder.mkdir()
    (folder / ".env").write_text("MINE=1\n")
    (folder / ".env").chmod(0o444)

    done = await set_up(up, home, "gemini-cli", "--no-check")

    assert done.exit_code == 1
    assert f"{folder}/.env: is read-only; nothing is written" in done.stderr
    assert tree(home) == {".gemini/.env": "MINE=1\n"}


async def test_an_empty_variable_is_not_the_root_of_all_folders(up: Serving, home: Path) -> None:
    done = await set_up(up, home, "aider", "--no-check", HOME="")

    assert done.exit_code == 2
    assert "HOME is empty" in done.stderr


async def test_what_is_no_file_is_never_replaced(up: Serving, home: Path) -> None:
    folder = home / ".codex"
    folder.mkdir()
    (folder / "config.toml").symlink_to(os.devnull)

    done = await set_up(up, home, "codex", "--no-check")

    assert done.exit_code == 1
    assert "config.toml: is not a file" in done.stderr
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes files of others")
async def test_root_leaves_files_to_the_user_of_the_home(up: Serving, home: Path) -> None:
    os.chown(home, 12_345, 12_345)

    await set_up(up, home, "cline", "--no-check")

    made = [home / name for name in tree(home)] + [home / ".cline"]
    assert made
    assert {(one.stat().st_uid, one.stat().st_gid) for one in made} == {(12_345, 12_345)}


async def test_a_copy_that_git_would_add_is_pointed_out(up: Serving, home: Path) -> None:
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(home)], check=True)
    (home / ".gitignore").write_text(".env\n")
    (home / ".gemini").mkdir()
    (home / ".gemini" / ".env").write_text("TOKEN=of-mine\n")

    done = await set_up(up, home, "gemini-cli", "--no-check")

    assert done.exit_code == 0
    assert "would add its copy .env.before-strowger" in done.stderr
    assert "settings.json.before-strowger" not in done.stderr


async def test_what_the_shell_has_is_compared_with_what_was_tried(up: Serving, home: Path) -> None:
    shell = {"OPENAI_API_KEY": "sk-of-openai", "http_proxy": "http://me:secret@proxy.test:3128"}

    done = await set_up(up, home, "cline", "--no-check", NO_PROXY="", no_proxy="", **shell)

    assert "OPENAI_API_KEY is set in this shell, to another key than this one" in done.stderr
    assert "through the proxy http://proxy.test:3128," in done.stderr
    assert "secret" not in done.output


async def test_paths_in_settings_hold_in_every_folder(
    up: Serving, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)

    done = await set_up(up, home, "codex", "--no-check", CODEX_HOME="moved here")

    assert done.exit_code == 0
    catalog = home / "moved here" / "strowger-models.json"
    assert catalog.is_file()
    assert f'model_catalog_json = "{catalog}"' in tree(home)["moved here/config.toml"]


async def test_a_certificate_that_the_agent_refuses_is_pointed_out(
    home: Path, p: Provider, tmp_path: Path
) -> None:
    own = Issued.to(tmp_path, "localhost")
    config = f"""
server: {{tls: {{cert: {own.cert}, key: {own.key}}}, port: 8443}}
providers: [{{name: p, adapter: openai, api_key: k, base_url: '{p.base_url}'}}]
models: [{{name: chat, backends: [{{provider: p, model: m}}]}}]
"""
    async with forked(tmp_path / "config.yaml", config) as secured:
        port = secured.url.rpartition(":")[2]
        same = tmp_path / "same.yaml"
        same.write_text(config.replace("8443", port))
        url = ("--url", f"https://localhost:{port}", "--ca-file", str(own.ca))
        pinned = await agents(home, "setup", "codex", "--config", str(same), "--write", key="")
        named = await agents(home, "setup", "codex", *url, "--write", key="")
        shell = {"CODEX_CA_CERTIFICATE": str(own.ca)}
        checked = await agents(home, "check", "codex", key="", **shell)
        unknown = await agents(home, "check", "codex", key="")

    refused = "codex does not accept the gateway's certificate"
    assert [one.exit_code for one in (pinned, named, checked, unknown)] == [0, 0, 0, 1]
    assert f"{refused}: unable to get local issuer certificate" in pinned.stderr
    assert refused not in named.stderr
    assert f"export CODEX_CA_CERTIFICATE={own.ca}" in named.stderr
    assert "is not accepted" in unknown.stderr
