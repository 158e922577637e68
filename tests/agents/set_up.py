"""Agents that nothing has set up but `strowger agents setup`, in an empty home.

The environment has, besides, only the lines that the command says to add to the shell's profile.
"""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.cli.agents.tools.roster import TOOLS
from tests.agents.jobs import Job
from tests.agents.play import AFTER, BEFORE, CONTENT, FILE, prepare
from tests.agents.roster import Agent, Api
from tests.agents.running import OFFLINE
from tests.agents.starting import Run, Started
from tests.clients.packages import AGENTS as PACKAGES
from tests.clients.packages import Client

EDITS: Final = Job(
    name="edits",
    title="edits",
    task="Work in the folder {folder} and ask nothing. Change prices.txt as rules.md says.",
    prepare=prepare,
    faults=lambda folder, _: (
        []
        if (folder / FILE).read_text() == CONTENT.replace(BEFORE, AFTER)
        else [f"{FILE} is {(folder / FILE).read_text()!r}"]
    ),
)
"""For aider, which runs nothing by itself and calls no functions."""

ALLOWED: Final = ["--allowedTools", "Read,Edit,Bash"]

COMMANDS: Final[Mapping[str, Callable[[str], Sequence[str]]]] = {
    "claude-code": lambda task: ["-p", task, *ALLOWED],
    "codex": lambda task: [
        *("exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"),
        task,
    ],
    "opencode": lambda task: ["run", "--auto", task],
    "qwen-code": lambda task: ["--yolo", "-p", task],
    "gemini-cli": lambda task: ["--yolo", "--skip-trust", "-p", task],
    "cline": lambda task: [task],
    "continue": lambda task: ["--auto", "-p", task],
    "aider": lambda task: [
        *("--yes-always", "--no-git", "--no-check-update", "--analytics-disable"),
        *("--no-show-release-notes", "--message", task, "prices.txt", "rules.md"),
    ],
    "kilo-code": lambda task: ["run", "--auto", task],
}
"""What follows the program, for a task without a user."""

_APIS: Final[Mapping[str, Api]] = {
    "messages": "Messages",
    "responses": "Responses",
    "chat": "Chat completions",
    "gemini": "Gemini",
}
_EXPORT: Final = re.compile(r"^ +export (\w+)=(.*)$", re.MULTILINE)


class SetUp(Struct, frozen=True, kw_only=True):
    """config: of the gateway, for `--issue`."""

    tool: str
    config: Path

    def __call__(self, run: Run) -> Started:
        words = ["agents", "setup", self.tool, "--write", "--model", run.model]
        words += ["--url", run.url, "--issue", f"of-{self.tool}", "--config", str(self.config)]
        done = subprocess.run(
            [sys.executable, "-m", "strowger_gateway.gateway.cli", *words],
            capture_output=True,
            text=True,
            env={"HOME": str(run.home), "PYTHONPATH": sys.path[0] or ".", **OFFLINE},
            check=False,
            cwd=Path.cwd(),
        )
        if done.returncode:
            raise AssertionError(done.stderr)
        lines = {name: shlex.split(value)[0] for name, value in _EXPORT.findall(done.stderr)}
        program = program_of(PACKAGES[self.tool], TOOLS[self.tool].program)
        return Started(command=[program, *COMMANDS[self.tool](run.task)], env=lines)


def program_of(package: Client, name: str) -> str:
    folder = package.folder / ("bin" if package.python else "node_modules/.bin")
    return str(folder / name)


def set_up(tool: str, config: Path) -> Agent:
    return Agent(
        name=f"{tool} as set up",
        title=TOOLS[tool].title,
        api=_APIS[TOOLS[tool].dialect],
        package=PACKAGES[tool],
        start=SetUp(tool=tool, config=config),
        everywhere=False,
    )
