"""`strowger agents setup` at a terminal asks before it writes."""

import asyncio
import os
import pty
from pathlib import Path

import pytest

from tests.gateway.cli.agents.commanding import KEY, tree
from tests.gateway.forked_commands import fork_into
from tests.gateway.serving import Serving

pytestmark = pytest.mark.anyio

QUESTION = b"Write these settings of codex? [Y/n]: "


def read_until(screen: int, words: bytes) -> bytes:
    """Return the output up to some words, or up to the end."""
    seen = b""
    while not words or not seen.endswith(words):
        try:
            piece = os.read(screen, 1)
        except OSError:  # how Linux reports the end of a terminal
            return seen
        if not piece:
            return seen
        seen += piece
    return seen


@pytest.mark.parametrize("answer", ["y", "n"])
async def test_the_user_sees_what_changes_and_decides(up: Serving, home: Path, answer: str) -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "HOME": str(home), "STROWGER_API_KEY": KEY, "TERM": "dumb"}
    words = ("agents", "setup", "codex", "--url", up.url, "--model", "chat", "--no-check")
    process = await fork_into(words, env, [os.dup(theirs), theirs], terminal=True)

    seen = await asyncio.to_thread(read_until, ours, QUESTION)
    os.write(ours, answer.encode() + b"\n")
    rest = await asyncio.to_thread(read_until, ours, b"")
    os.close(ours)

    assert await process.wait() == 0
    assert b".codex/config.toml: model_providers.strowger" in seen
    assert (".codex/config.toml" in tree(home)) == (answer == "y")
    assert (b"[model_providers.strowger]" in rest) == (answer == "n")
