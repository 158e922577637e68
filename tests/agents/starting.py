"""How each agent is started, and how it is pointed at the gateway, as its documents say."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.agents.jobs import FILES, Job
from tests.clients.packages import AGENTS as PACKAGES

SCRIPTS: Final = Path(__file__).parent / "scripts"
KEY: Final = "sk-of-this-client"


class Run(Struct, frozen=True, kw_only=True):
    """url: the gateway's. home: the agent's, for its configuration. work: the task's folder."""

    job: Job = FILES

    url: str
    model: str
    home: Path
    work: Path

    @property
    def task(self) -> str:
        return self.job.task.format(folder=self.work)

    def write(self, path: str, text: str) -> None:
        """Put a file into the agent's home."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


class Started(Struct, frozen=True, kw_only=True):
    command: list[str]
    env: Mapping[str, str] = {}


def program(package: str, name: str) -> str:
    return str(PACKAGES[package].folder / "node_modules" / ".bin" / name)


CODEX: Final = """\
model = "{model}"
model_provider = "gateway"

[model_providers.gateway]
name = "Gateway"
base_url = "{url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
"""


CATALOG: Final[Mapping[str, object]] = {
    "supported_reasoning_levels": [],
    "shell_type": "unified_exec",
    "apply_patch_tool_type": "freeform",
    "visibility": "list",
    "supported_in_api": True,
    "priority": 1,
    "base_instructions": "You are a coding agent.",
    "truncation_policy": {"mode": "tokens", "limit": 10000},
    "supports_parallel_tool_calls": True,
    "supports_reasoning_summaries": True,
    "support_verbosity": True,
    "context_window": 131072,
    "experimental_supported_tools": [],
}
"""What codex wants to know of a model; of one that it does not know it assumes less."""


def codex_with_catalog(run: Run) -> Started:
    started = codex(run)
    one = {"slug": run.model, "display_name": run.model, **CATALOG}
    run.write(".codex/models.json", json.dumps({"models": [one]}))
    config = run.home / ".codex" / "config.toml"
    file = run.home / ".codex" / "models.json"
    config.write_text(f'model_catalog_json = "{file}"\n{config.read_text()}')
    return started


def codex(run: Run) -> Started:
    run.write(".codex/config.toml", CODEX.format(model=run.model, url=run.url))
    options = ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"]
    command = [program("codex", "codex"), *options, run.task]
    return Started(command=command, env={"GATEWAY_KEY": KEY})


def opencode(provider: str, *reads: str) -> Callable[[Run], Started]:
    """reads: what the model takes besides text. For chat completions opencode must be told."""
    model = {"modalities": {"input": ["text", *reads], "output": ["text"]}} if reads else {}

    def start(run: Run) -> Started:
        gateway: dict[str, object] = {
            "npm": provider,
            "name": "Gateway",
            "options": {"baseURL": f"{run.url}/v1", "apiKey": "{env:GATEWAY_KEY}"},
            "models": {run.model: model},
        }
        config: dict[str, object] = {
            "$schema": "https://opencode.ai/config.json",
            "provider": {"gateway": gateway},
            "model": f"gateway/{run.model}",
            "permission": "allow",
        }
        run.write(".config/opencode/opencode.json", json.dumps(config))
        command = [program("opencode", "opencode"), "run", run.task]
        return Started(command=command, env={"GATEWAY_KEY": KEY})

    return start


def qwen(run: Run) -> Started:
    command = [program("qwen-code", "qwen"), "--yolo", "--auth-type", "openai", "-p", run.task]
    env = {
        "OPENAI_BASE_URL": f"{run.url}/v1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": run.model,
    }
    return Started(command=command, env=env)


def gemini(run: Run) -> Started:
    """With the settings that its first dialogue writes; its search has a model of its own."""
    tools: list[dict[str, dict[str, str]]] = [{"googleSearch": {}}]
    search = {"model": run.model, "generateContentConfig": {"tools": tools}}
    settings: dict[str, object] = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "modelConfigs": {"customAliases": {"web-search": {"modelConfig": search}}},
    }
    run.write(".gemini/settings.json", json.dumps(settings))
    env = {
        "GOOGLE_GEMINI_BASE_URL": run.url,
        "GEMINI_API_KEY": KEY,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    command = [program("gemini-cli", "gemini"), "-m", run.model, "--yolo", "-p", run.task]
    return Started(command=command, env=env)


def claude(run: Run) -> Started:
    """Tools that ask a user are allowed beforehand, as in any run without a terminal."""
    allowed = ["--allowedTools", "Read,Edit,Bash,WebSearch"]
    env = {
        "ANTHROPIC_BASE_URL": run.url,
        "ANTHROPIC_AUTH_TOKEN": KEY,
        "ANTHROPIC_MODEL": run.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": run.model,
    }
    command = [program("claude-code", "claude"), "-p", run.task, *allowed]
    return Started(command=command, env=env)


def cline(run: Run) -> Started:
    """With the file that `cline auth -p openai-compatible -k KEY -m MODEL -b URL/v1` writes."""
    settings = {
        "provider": "openai-compatible",
        "apiKey": KEY,
        "model": run.model,
        "baseUrl": f"{run.url}/v1",
    }
    one = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": dict[str, str]()}
    known = json.dumps({**providers, "providers": {"openai-compatible": one}})
    run.write(".cline/data/settings/providers.json", known)
    return Started(command=[program("cline", "cline"), run.task])


def python(script: str, mode: str, package: str = "") -> Callable[[Run], Started]:
    interpreter = str(PACKAGES[package].interpreter) if package else sys.executable
    return lambda run: Started(
        command=[interpreter, str(SCRIPTS / script), run.url, run.model, run.task, mode]
    )


def node(script: str, mode: str, package: str) -> Callable[[Run], Started]:
    folder = str(PACKAGES[package].folder)
    return lambda run: Started(
        command=["node", str(SCRIPTS / script), folder, run.url, run.model, run.task, mode]
    )
