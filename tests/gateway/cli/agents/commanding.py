"""`strowger agents` over the command line, in a home of a test's own."""

import asyncio
import os
from pathlib import Path

from click.testing import Result

from tests.gateway.cli.command_line import run
from tests.gateway.serving import Serving

KEY = "key-of-a-client-0001"


async def agents(home: Path, *words: str, key: str = KEY, **env: str) -> Result:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    found = {**kept, "HOME": str(home), "STROWGER_API_KEY": key, **env}
    return await asyncio.to_thread(run, "agents", *words, env=found)


async def set_up(up: Serving, home: Path, tool: str, *words: str, **env: str) -> Result:
    said = ("--url", up.url, *words)
    said += () if "--model" in words else ("--model", "chat")
    said += () if "--print" in words else ("--write",)
    return await agents(home, "setup", tool, *said, **env)


def tree(home: Path) -> dict[str, str]:
    files = (one for one in home.rglob("*") if one.is_file())
    return {str(one.relative_to(home)): one.read_text() for one in files}
