"""The tools of each agent, as a model calls them that knows them well."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from msgspec import Struct

from tests.gateway.backends.vendors.dialect import Call, ReceivedRequest


class Toolset(Struct, frozen=True, kw_only=True):
    """needs: names of tools that only this agent has together. Each field makes a call.

    searches: None for an agent whose search is a tool of the vendor, or that has none. finder:
              finds the search, where it is not among the tools from the beginning. says: makes the
              last text, where every answer is structured.
    """

    needs: frozenset[str]
    reads: Callable[[Path], Call]
    edits: Callable[[Path, str, str], Call]
    runs: Callable[[Path, str], Call]
    searches: Callable[[str], Call] | None = None
    finder: Call | None = None
    says: Callable[[str], Call] | None = None


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
    Toolset(  # Continue
        needs=frozenset({"Read", "Edit", "Bash", "Checklist"}),
        reads=lambda file: Call(name="Read", arguments={"filepath": str(file)}),
        edits=lambda file, before, after: Call(
            name="Edit",
            arguments={"file_path": str(file), "old_string": before, "new_string": after},
        ),
        runs=lambda _, command: Call(name="Bash", arguments={"command": command}),
    ),
    Toolset(  # gemini-cli
        needs=frozenset({"read_file", "replace", "run_shell_command"}),
        reads=lambda file: Call(name="read_file", arguments={"file_path": str(file)}),
        edits=lambda file, before, after: Call(
            name="replace",
            arguments={
                "file_path": str(file),
                "instruction": "Follow the rules",
                "old_string": before,
                "new_string": after,
            },
        ),
        runs=lambda _, command: Call(
            name="run_shell_command", arguments={"command": command, "description": "Runs it"}
        ),
        searches=lambda query: Call(name="google_web_search", arguments={"query": query}),
    ),
    Toolset(  # Claude Code
        needs=frozenset({"Read", "Edit", "Bash"}),
        reads=lambda file: Call(name="Read", arguments={"file_path": str(file)}),
        edits=lambda file, before, after: Call(
            name="Edit",
            arguments={"file_path": str(file), "old_string": before, "new_string": after},
        ),
        runs=lambda _, command: Call(
            name="Bash", arguments={"command": command, "description": "Runs it"}
        ),
        searches=lambda query: Call(name="WebSearch", arguments={"query": query}),
        finder=Call(name="ToolSearch", arguments={"query": "select:WebSearch"}),
    ),
    Toolset(  # cline
        needs=frozenset({"read_files", "editor", "run_commands"}),
        reads=lambda file: Call(name="read_files", arguments={"files": [{"path": str(file)}]}),
        edits=lambda file, before, after: Call(
            name="editor",
            arguments={"path": str(file), "old_text": before, "new_text": after},
        ),
        runs=lambda _, command: Call(name="run_commands", arguments={"commands": [command]}),
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
    Toolset(  # our script with structured answers
        needs=frozenset({"Step"}),
        reads=lambda file: Call(name="Step", arguments={"kind": "read", "file": str(file)}),
        edits=lambda file, before, after: Call(
            name="Step",
            arguments={"kind": "replace", "file": str(file), "before": before, "after": after},
        ),
        runs=lambda _, command: Call(name="Step", arguments={"kind": "run", "command": command}),
        says=lambda text: Call(name="Step", arguments={"kind": "say", "text": text}),
    ),
)


GAVE: Final = "It gave: "
"""How a script begins that tells the model a result in a text of its own."""


def results_of(request: ReceivedRequest) -> list[str]:
    """Return what the calls have given so far."""
    told = [text for turn in request.turns for _, text in turn.results]
    texts = [turn.text for turn in request.turns if turn.role != "assistant"]
    return told or [one.removeprefix(GAVE) for one in texts if one.startswith(GAVE)]


def toolset(names: Collection[str]) -> Toolset | None:
    """The tools of the agent that offers these; None for a request that is not the task's."""
    return next((one for one in TOOLSETS if one.needs <= set(names)), None)
