"""`strowger agents`: a user's home before, with and after each agent's settings."""

import asyncio
import json
import re
import stat
import subprocess
from pathlib import Path

import pytest

from strowger_gateway.gateway.cli.agents.tools.roster import TOOLS
from tests.gateway.cli.agents.commanding import KEY, agents, set_up, tree
from tests.gateway.forked_commands import forked
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Provider

pytestmark = pytest.mark.anyio

WITH_COMMENTS = {
    "claude-code": (
        ".claude/settings.json",
        '{\n  // mine\n  "theme": "dark",\n  "env": {"EDITOR": "vi"}\n}\n',
    ),
    "codex": (".codex/config.toml", '# mine\nmodel = "gpt-5" # old\n\n[tui]\ntheme = "dark"\n'),
    "opencode": (
        ".config/opencode/opencode.jsonc",
        '{\n  "theme": "dark", // mine\n  "model": "openai/gpt-5",\n}\n',
    ),
    "qwen-code": (
        ".qwen/settings.json",
        '{\n  // mine\n  "modelProviders": {"openai": [{"id": "x", "envKey": "MINE"}]}\n}\n',
    ),
    "gemini-cli": (".gemini/.env", "# mine\nDEBUG=1\n"),
    "cline": (
        ".cline/data/settings/providers.json",
        '{"version":1,"lastUsedProvider":"cline","modes":{},"providers":{"cline":{"a":1}}}',
    ),
    "continue": (
        ".continue/config.yaml",
        "name: Mine # mine\nversion: 0.0.1\nschema: v1\nmodels:\n  - name: x\n    model: y\n",
    ),
    "aider": (".aider.conf.yml", "# mine\ndark-mode: true\nmodel: gpt-5\n"),
    "kilo-code": (".config/kilo/kilo.json", '{"theme": "dark"}\n'),
}
"""A file of each agent as a user may have it."""


@pytest.mark.parametrize("tool", TOOLS)
async def test_an_empty_home_gets_settings_once_and_is_empty_after_undo(
    up: Serving, home: Path, tool: str
) -> None:
    first = await set_up(up, home, tool, "--no-check")
    written = tree(home)
    again = await set_up(up, home, tool, "--no-check")
    rows = json.loads((await agents(home, "list", "--json")).stdout)
    other = await set_up(up, home, tool, "--no-check", "--model", "small")
    undone = await agents(home, "setup", tool, "--undo")
    nothing = await agents(home, "setup", tool, "--undo")

    assert [one.exit_code for one in (first, again, other, undone, nothing)] == [0, 0, 0, 0, 1]
    assert KEY not in "".join(written.values()) + first.output
    assert f"export {TOOLS[tool].key_variable}=YOUR_KEY" in first.stderr
    assert "131072" in json.dumps(written) or tool == "gemini-cli"
    assert "is as it should be" in again.stderr
    assert "written" not in again.stderr
    row = next(one for one in rows if one["name"] == tool)
    assert (row["url"], row["model"]) == (up.url, "chat")
    assert tree(home) == {}
    assert "nothing to undo" in nothing.stderr


@pytest.mark.parametrize("tool", TOOLS)
async def test_what_a_user_has_stays_and_comes_back(up: Serving, home: Path, tool: str) -> None:
    name, text = WITH_COMMENTS[tool]
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text(text)

    done = await set_up(up, home, tool, "--no-check")
    written = tree(home)
    undone = await agents(home, "setup", tool, "--undo")

    assert (done.exit_code, undone.exit_code) == (0, 0)
    assert written[f"{name}.before-strowger"] == text
    assert ("mine" in written[name]) == ("mine" in text)
    assert "dark" in written[name] or "dark" not in text
    assert tree(home) == {name: text}


async def test_what_a_user_changes_later_survives_undo(up: Serving, home: Path) -> None:
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('model = "gpt-5"\n')
    await set_up(up, home, "codex", "--no-check")
    file.write_text(file.read_text() + '\n[mcp_servers.docs]\ncommand = "docs" # new\n')

    undone = await agents(home, "setup", "codex", "--undo")

    assert undone.exit_code == 0
    assert file.read_text() == 'model = "gpt-5"\n\n[mcp_servers.docs]\ncommand = "docs" # new\n'
    assert list(tree(home)) == [".codex/config.toml"]


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ("claude-code", "/v1/messages"),
        ("codex", "/v1/responses"),
        ("qwen-code", "/v1/chat/completions"),
        ("gemini-cli", "/v1beta/models/chat:generateContent"),
    ],
)
async def test_a_request_in_the_agents_own_api_shows_that_it_works(
    up: Serving, home: Path, tool: str, path: str
) -> None:
    before = len(up.access_lines())

    done = await set_up(up, home, tool)
    checked = await agents(home, "check", tool, STROWGER_API_KEY=KEY)

    assert (done.exit_code, checked.exit_code) == (0, 0)
    said = rf"chat answered {path} in \d+ ms by p/m: \d+ tokens read, \d+ written"
    assert re.search(said, done.stderr)
    assert re.search(said, checked.stderr)
    assert len(up.access_lines()) == before + 2


@pytest.mark.parametrize(
    ("words", "key", "told"),
    [
        ((), "a-wrong-key-0001", "401: .*; give --key or STROWGER_API_KEY"),
        (("--model", "chta"), KEY, "no model 'chta' at .*; did you mean chat?"),
        (("--model", "zzzzz"), KEY, "it may use chat, small, broken"),
        (("--model", "broken"), KEY, "/v1/messages: 400: .*out of order"),
        (("--url", "http://127.0.0.1:9"), KEY, "cannot connect to http://127.0.0.1:9"),
    ],
)
async def test_what_is_wrong_is_said_with_a_remedy(
    up: Serving, home: Path, words: tuple[str, ...], key: str, told: str
) -> None:
    done = await set_up(up, home, "claude-code", *words, STROWGER_API_KEY=key)

    assert done.exit_code == 1
    assert re.search(told, done.stderr)


async def test_a_user_without_a_model_sees_those_there_are(up: Serving, home: Path) -> None:
    done = await agents(home, "setup", "codex", "--url", up.url)

    assert (done.exit_code, tree(home)) == (1, {})
    assert "give --model: one of chat, small, broken" in done.stderr


async def test_a_model_that_is_no_agents_model_is_pointed_out(up: Serving, home: Path) -> None:
    done = await set_up(up, home, "cline", "--model", "small", "--no-check")

    assert done.exit_code == 0
    assert "note: small does not call functions" in done.stderr
    assert "note: the context of small is 8,192 tokens" in done.stderr


async def test_without_a_terminal_settings_are_printed_and_not_written(
    up: Serving, home: Path
) -> None:
    done = await agents(home, "setup", "codex", "--url", f"{up.url}/v1/", "--model", "chat")

    assert (done.exit_code, tree(home)) == (0, {})
    assert f'[model_providers.strowger]\nname = "Strowger"\nbase_url = "{up.url}/v1"' in done.stdout
    assert "chat answered /v1/responses" in done.stderr


async def test_a_file_that_cannot_be_read_is_left_as_it_is(up: Serving, home: Path) -> None:
    broken = home / ".claude" / "settings.json"
    broken.parent.mkdir()
    broken.write_text('{"env": ')

    done = await set_up(up, home, "claude-code")
    rows = await agents(home, "list")

    assert done.exit_code == 1
    assert f"{broken}: is not valid JSON, line 1" in done.stderr
    assert tree(home) == {".claude/settings.json": '{"env": '}
    assert rows.exit_code == 0
    assert "unreadable" in rows.stdout
    assert f"note: {broken}: is not valid JSON" in rows.stderr


async def test_settings_of_a_project_are_its_own_files(
    up: Serving, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)

    done = await set_up(up, home, "opencode", "--project", "--no-check")
    refused = await set_up(up, home, "codex", "--project", "--no-check")

    assert done.exit_code == 0
    assert (list(tree(project)), tree(home)) == (["opencode.json"], {})
    assert refused.exit_code == 2
    assert "codex reads these settings from the user's own files alone" in refused.stderr


@pytest.mark.parametrize("tool", TOOLS)
async def test_a_key_goes_into_a_file_only_on_request_and_never_into_git(
    up: Serving, home: Path, tool: str
) -> None:
    stored = await set_up(up, home, tool, "--store-key", "--no-check")
    files = tree(home)
    modes = {stat.S_IMODE((home / name).stat().st_mode) for name in files}
    await agents(home, "setup", tool, "--undo")
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(home)], check=True)
    refused = await set_up(up, home, tool, "--store-key", "--no-check")
    (home / ".gitignore").write_text("*\n")
    ignored = await set_up(up, home, tool, "--store-key", "--no-check")

    assert [one.exit_code for one in (stored, refused, ignored)] == [0, 1, 0]
    assert KEY in "".join(files.values())
    assert modes == {0o600}
    assert "YOUR_KEY" not in stored.stderr
    assert "which does not ignore it; leave the key in" in refused.stderr


async def test_what_the_model_reads_and_costs_is_written_too(up: Serving, home: Path) -> None:
    await set_up(up, home, "opencode", "--no-check")
    await set_up(up, home, "aider", "--no-check")

    described = json.loads((home / ".config" / "opencode" / "opencode.json").read_text())
    model = described["provider"]["strowger"]["models"]["chat"]
    costs = json.loads((home / ".aider.strowger.json").read_text())["openai/chat"]
    assert model["modalities"] == {"input": ["text", "image"], "output": ["text"]}
    assert model["limit"] == {"context": 131_072, "output": 16_384}
    assert model["cost"] == {"input": 1.25, "output": 10.0}
    assert (costs["input_cost_per_token"], costs["supports_vision"]) == (1.25e-6, True)


async def test_a_linked_file_stays_a_link(up: Serving, home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text('model = "gpt-5"\n')
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").symlink_to(real)

    await set_up(up, home, "codex", "--no-check")
    linked = (home / ".codex" / "config.toml").is_symlink()
    written = real.read_text()
    await agents(home, "setup", "codex", "--undo")

    assert linked
    assert 'model = "chat"' in written
    assert real.read_text() == 'model = "gpt-5"\n'


async def test_check_says_what_has_changed_at_the_gateway(up: Serving, home: Path) -> None:
    await set_up(up, home, "codex", "--no-check")
    file = home / ".codex" / "config.toml"
    file.write_text(file.read_text().replace("131072", "65536"))

    checked = await agents(home, "check", "codex")
    elsewhere = await agents(home, "check", "codex", "--url", "http://127.0.0.1:9")
    never = await agents(home, "check", "aider")

    assert checked.exit_code == 0
    assert "model_context_window: not as the gateway has it now" in checked.stderr
    assert (elsewhere.exit_code, never.exit_code) == (1, 1)
    assert f"has {up.url}, not http://127.0.0.1:9" in elsewhere.stderr
    assert "`strowger agents setup aider`" in never.stderr


async def test_a_key_is_issued_and_accepted_when_the_command_returns(
    home: Path, p: Provider, tmp_path: Path
) -> None:
    config = f"""
store: {{url: "sqlite:///{tmp_path}/store.db"}}
auth: {{mode: keys, keys: [{{name: a, key: {KEY}}}]}}
providers: [{{name: p, adapter: openai, api_key: k, base_url: '{p.base_url}'}}]
models: [{{name: chat, backends: [{{provider: p, model: m}}]}}]
"""
    async with forked(tmp_path / "config.yaml", config) as issuing:
        words = ("--url", issuing.url, "--config", str(issuing.config), "--write")
        done = await agents(home, "setup", "codex", *words, "--issue", "laptop", key="")
        again = await agents(home, "setup", "codex", *words, "--issue", "laptop", key="")
        both = await agents(home, "setup", "codex", *words, "--issue", "other")

    exported = re.search(r"export STROWGER_API_KEY=(sk-\S+)", done.stderr)
    assert done.exit_code == 0
    assert exported
    assert exported[1] not in "".join(tree(home).values())
    assert "chat answered /v1/responses" in done.stderr
    assert (again.exit_code, both.exit_code) == (1, 2)
    assert "laptop" in again.stderr


async def test_a_proxy_in_the_way_is_pointed_out(up: Serving, home: Path) -> None:
    proxy = {"http_proxy": "http://proxy.test:3128", "no_proxy": "", "NO_PROXY": ""}

    done = await set_up(up, home, "aider", "--no-check", **proxy)

    assert "agents send through the proxy http://proxy.test:3128" in done.stderr
    assert "export NO_PROXY=127.0.0.1" in done.stderr


async def test_a_variable_that_wins_over_the_settings_is_pointed_out(
    up: Serving, home: Path
) -> None:
    shell = {"GOOGLE_GEMINI_BASE_URL": "http://elsewhere.test", "GEMINI_CLI_HOME": str(home / "g")}

    done = await set_up(up, home, "gemini-cli", "--no-check", **shell)

    assert "GOOGLE_GEMINI_BASE_URL is set in this shell and wins over the settings" in done.stderr
    assert set(tree(home)) == {"g/.gemini/settings.json", "g/.gemini/.env"}
    settings = json.loads((home / "g" / ".gemini" / "settings.json").read_text())
    assert settings["advanced"]["ignoreLocalEnv"] is True  # a project's .env would hide ours


async def test_a_gateway_without_keys_needs_none(home: Path, p: Provider, tmp_path: Path) -> None:
    config = f"""
providers: [{{name: p, adapter: openai, api_key: k, base_url: '{p.base_url}'}}]
models: [{{name: chat, backends: [{{provider: p, model: m}}]}}]
"""
    async with serving(config, tmp_path) as open_to_all:
        words = ("--url", open_to_all.url, "--write")
        done = await agents(home, "setup", "claude-code", *words, key="")
        checked = await agents(home, "check", "claude-code", key="")

    env = json.loads((home / ".claude" / "settings.json").read_text())["env"]
    assert (done.exit_code, checked.exit_code) == (0, 0)
    assert (env["ANTHROPIC_AUTH_TOKEN"], env["ANTHROPIC_MODEL"]) == ("none", "chat")
    assert "export" not in done.stderr
    assert "note" not in checked.stderr
