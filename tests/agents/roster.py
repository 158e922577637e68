"""Every agent: how it is started, and how it is pointed at the gateway."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from tests.agents.play import TASK
from tests.clients.packages import AGENTS as PACKAGES
from tests.clients.packages import Client

Api = Literal["Responses", "Messages", "Chat completions"]

SCRIPTS: Final = Path(__file__).parent / "scripts"
KEY: Final = "sk-of-this-client"


class Run(Struct, frozen=True, kw_only=True):
    """url: the gateway's. home: the agent's, for its configuration. work: the task's folder."""

    url: str
    model: str
    home: Path
    work: Path

    @property
    def task(self) -> str:
        return TASK.format(folder=self.work)

    def write(self, path: str, text: str) -> None:
        """Put a file into the agent's home."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


class Started(Struct, frozen=True, kw_only=True):
    command: list[str]
    env: Mapping[str, str] = {}


class Agent(Struct, frozen=True, kw_only=True):
    """package: None for what the tests have installed."""

    name: str
    title: str
    api: Api
    package: Client | None
    start: Callable[[Run], Started]

    @property
    def version(self) -> str:
        pin = "" if self.package is None else self.package.pins[0]
        return re.split("[=@]", pin)[-1]


def _program(package: str, name: str) -> str:
    return str(PACKAGES[package].folder / "node_modules" / ".bin" / name)


CODEX: Final = """\
model = "{model}"
model_provider = "gateway"
web_search = "disabled"

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


def _codex_with_catalog(run: Run) -> Started:
    started = _codex(run)
    one = {"slug": run.model, "display_name": run.model, **CATALOG}
    run.write(".codex/models.json", json.dumps({"models": [one]}))
    config = run.home / ".codex" / "config.toml"
    file = run.home / ".codex" / "models.json"
    config.write_text(f'model_catalog_json = "{file}"\n{config.read_text()}')
    return started


def _codex(run: Run) -> Started:
    run.write(".codex/config.toml", CODEX.format(model=run.model, url=run.url))
    options = ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"]
    program = _program("codex", "codex")
    return Started(command=[program, *options, run.task], env={"GATEWAY_KEY": KEY})


def _opencode(provider: str) -> Callable[[Run], Started]:
    def start(run: Run) -> Started:
        none: dict[str, str] = {}
        gateway: dict[str, object] = {
            "npm": provider,
            "name": "Gateway",
            "options": {"baseURL": f"{run.url}/v1", "apiKey": "{env:GATEWAY_KEY}"},
            "models": {run.model: none},
        }
        config: dict[str, object] = {
            "$schema": "https://opencode.ai/config.json",
            "provider": {"gateway": gateway},
            "model": f"gateway/{run.model}",
            "permission": "allow",
        }
        run.write(".config/opencode/opencode.json", json.dumps(config))
        command = [_program("opencode", "opencode"), "run", run.task]
        return Started(command=command, env={"GATEWAY_KEY": KEY})

    return start


def _qwen(run: Run) -> Started:
    command = [_program("qwen-code", "qwen"), "--yolo", "--auth-type", "openai", "-p", run.task]
    env = {
        "OPENAI_BASE_URL": f"{run.url}/v1",
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": run.model,
    }
    return Started(command=command, env=env)


def _python(script: str, mode: str, package: str = "") -> Callable[[Run], Started]:
    interpreter = str(PACKAGES[package].interpreter) if package else sys.executable
    return lambda run: Started(
        command=[interpreter, str(SCRIPTS / script), run.url, run.model, run.task, mode]
    )


def _node(script: str, mode: str, package: str) -> Callable[[Run], Started]:
    folder = str(PACKAGES[package].folder)
    return lambda run: Started(
        command=["node", str(SCRIPTS / script), folder, run.url, run.model, run.task, mode]
    )


AGENTS: Final = (
    Agent(
        name="codex",
        title="codex",
        api="Responses",
        package=PACKAGES["codex"],
        start=_codex,
    ),
    Agent(
        name="codex-catalog",
        title="codex, `model_catalog_json`",
        api="Responses",
        package=PACKAGES["codex"],
        start=_codex_with_catalog,
    ),
    Agent(
        name="opencode-messages",
        title="opencode, `@ai-sdk/anthropic`",
        api="Messages",
        package=PACKAGES["opencode"],
        start=_opencode("@ai-sdk/anthropic"),
    ),
    Agent(
        name="opencode-responses",
        title="opencode, `@ai-sdk/openai`",
        api="Responses",
        package=PACKAGES["opencode"],
        start=_opencode("@ai-sdk/openai"),
    ),
    Agent(
        name="opencode-chat",
        title="opencode, `@ai-sdk/openai-compatible`",
        api="Chat completions",
        package=PACKAGES["opencode"],
        start=_opencode("@ai-sdk/openai-compatible"),
    ),
    Agent(
        name="qwen-code",
        title="qwen-code",
        api="Chat completions",
        package=PACKAGES["qwen-code"],
        start=_qwen,
    ),
    Agent(
        name="openai-agents-responses",
        title="openai-agents, `OpenAIResponsesModel`",
        api="Responses",
        package=PACKAGES["openai-agents"],
        start=_python("openai_agents.py", "responses", "openai-agents"),
    ),
    Agent(
        name="openai-agents-chat",
        title="openai-agents, `OpenAIChatCompletionsModel`",
        api="Chat completions",
        package=PACKAGES["openai-agents"],
        start=_python("openai_agents.py", "chat", "openai-agents"),
    ),
    Agent(
        name="pydantic-ai-messages",
        title="pydantic-ai, `AnthropicModel`",
        api="Messages",
        package=PACKAGES["pydantic-ai-agents"],
        start=_python("pydantic_ai_agent.py", "messages", "pydantic-ai-agents"),
    ),
    Agent(
        name="pydantic-ai-responses",
        title="pydantic-ai, `OpenAIResponsesModel`",
        api="Responses",
        package=PACKAGES["pydantic-ai-agents"],
        start=_python("pydantic_ai_agent.py", "responses", "pydantic-ai-agents"),
    ),
    Agent(
        name="pydantic-ai-chat",
        title="pydantic-ai, `OpenAIChatModel`",
        api="Chat completions",
        package=PACKAGES["pydantic-ai-agents"],
        start=_python("pydantic_ai_agent.py", "chat", "pydantic-ai-agents"),
    ),
    Agent(
        name="anthropic-node",
        title="`@anthropic-ai/sdk`, `toolRunner`",
        api="Messages",
        package=PACKAGES["anthropic-node"],
        start=_node("anthropic_runner.mjs", "stream", "anthropic-node"),
    ),
    Agent(
        name="openai-node-responses",
        title="`openai` for Node, `ResponsesToolRunner`",
        api="Responses",
        package=PACKAGES["openai-node"],
        start=_node("openai_runner.mjs", "responses", "openai-node"),
    ),
    Agent(
        name="openai-node-chat",
        title="`openai` for Node, `runTools`",
        api="Chat completions",
        package=PACKAGES["openai-node"],
        start=_node("openai_runner.mjs", "chat", "openai-node"),
    ),
    Agent(
        name="anthropic-python",
        title="`anthropic` for Python, `tool_runner`, streamed",
        api="Messages",
        package=None,
        start=_python("anthropic_runner.py", "stream"),
    ),
    Agent(
        name="anthropic-python-whole",
        title="`anthropic` for Python, `tool_runner`, whole",
        api="Messages",
        package=None,
        start=_python("anthropic_runner.py", "whole"),
    ),
    Agent(
        name="openai-python",
        title="`openai` for Python, `ResponsesToolRunner`, streamed",
        api="Responses",
        package=None,
        start=_python("openai_runner.py", "stream"),
    ),
    Agent(
        name="openai-python-whole",
        title="`openai` for Python, `ResponsesToolRunner`, whole",
        api="Responses",
        package=None,
        start=_python("openai_runner.py", "whole"),
    ),
)
