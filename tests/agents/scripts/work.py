"""The tools that the Python scripts give their agents. Descriptions are what models read."""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import os
import subprocess
from pathlib import Path


def read_text(file: str) -> str:
    """Return the text of a file."""
    return Path(file).read_text()


def replace_text(file: str, before: str, after: str) -> str:
    """Replace a text that a file has once."""
    text = Path(file).read_text()
    assert text.count(before) == 1
    Path(file).write_text(text.replace(before, after))
    return "done"


def run_command(command: str) -> str:
    """Run a shell command, and return what it prints."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def get_weather(city: str) -> str:
    """Get the current weather for a city."""
    return '{"temperature": 18, "conditions": "sunny"}'


TOOLS = (read_text, replace_text, run_command)
if os.environ.get("JOB") == "weather":  # which a model of 0.7 million weights can do
    TOOLS = (get_weather,)


def schema(tool) -> dict:
    """The JSON schema of a tool's parameters, all of which are texts."""
    names = [name for name in tool.__annotations__ if name != "return"]
    properties = {name: {"type": "string"} for name in names}
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }
