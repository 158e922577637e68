"""The tools of each agent, as a model calls them that knows them well."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.gateway.vendors.dialect import Call


class Toolset(Struct, frozen=True, kw_only=True):
    """needs: names of tools that only this agent has together. Each field makes a call."""

    needs: frozenset[str]
    reads: Callable[[Path], Call]
    edits: Callable[[Path, str, str], Call]
    runs: Callable[[Path, str], Call]


def patch(file: Path, before: str, after: str) -> str:
    """In the format of the tools named `apply_patch`."""
    change = f"*** Update File: {file}\n@@\n-{before}\n+{after}\n"
    return f"*** Begin Patch\n{change}*** End Patch\n"


TOOLSETS: Final = (
    Toolset(  # codex
        needs=frozenset({"exec_command", "apply_patch"}),
        reads=lambda file: Call(name="exec_command", arguments={"cmd": f"cat {file}"}),
        edits=lambda file, before, after: Call(
            name="apply_patch", arguments={"input": patch(file, before, after)}
        ),
        runs=lambda _, command: Call(name="exec_command", arguments={"cmd": command}),
    ),
    Toolset(  # codex with a model that it does not know
        needs=frozenset({"exec_command"}),
        reads=lambda file: Call(name="exec_command", arguments={"cmd": f"cat {file}"}),
        edits=lambda file, before, after: Call(
            name="exec_command", arguments={"cmd": f"sed -i 's/{before}/{after}/' {file}"}
        ),
        runs=lambda _, command: Call(name="exec_command", arguments={"cmd": command}),
    ),
    Toolset(  # opencode
        needs=frozenset({"read", "edit", "bash"}),
        reads=lambda file: Call(name="read", arguments={"filePath": str(file)}),
        edits=lambda file, before, after: Call(
            name="edit",
            arguments={"filePath": str(file), "oldString": before, "newString": after},
        ),
        runs=lambda _, command: Call(
            name="bash", arguments={"command": command, "description": "Runs it"}
        ),
    ),
    Toolset(  # qwen-code
        needs=frozenset({"read_file", "edit", "run_shell_command"}),
        reads=lambda file: Call(name="read_file", arguments={"file_path": str(file)}),
        edits=lambda file, before, after: Call(
            name="edit",
            arguments={"file_path": str(file), "old_string": before, "new_string": after},
        ),
        runs=lambda _, command: Call(
            name="run_shell_command", arguments={"command": command, "is_background": False}
        ),
    ),
    Toolset(  # our scripts
        needs=frozenset({"read_text", "replace_text", "run_command"}),
        reads=lambda file: Call(name="read_text", arguments={"file": str(file)}),
        edits=lambda file, before, after: Call(
            name="replace_text",
            arguments={"file": str(file), "before": before, "after": after},
        ),
        runs=lambda _, command: Call(name="run_command", arguments={"command": command}),
    ),
)


def toolset(names: Collection[str]) -> Toolset | None:
    """The tools of the agent that offers these; None for a request that is not the task's."""
    return next((one for one in TOOLSETS if one.needs <= set(names)), None)
