"""All processes of a gateway find modules at the same places, and none in the current folder."""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.gateway.commanded import commanded, connected, importer_started
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

STROWGER = (sys.executable, "-P", "-m", "strowger_gateway.gateway.cli")
"""As its script: the current folder is not on the path."""
CONFIG = """
server: {{workers: 2}}
store: {{url: "sqlite:///records.db"}}
{more}
providers: [{{name: one, adapter: openai, base_url: "{url}", api_key: sk-of-the-operator}}]
models: [{{name: chat, backends: [{{provider: one, model: m-1}}]}}]
"""
CHAT = "/v1/chat/completions"
HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
HOOK = """
from schemas import RULE
from strowger_gateway.gateway.content.hooks.contract import PASS, HookRefusal

class Hook:
    def __init__(self, settings):
        pass
    async def before(self, request):
        return HookRefusal(rules=(RULE,))
    async def chunk(self, window):
        return PASS
    async def after(self, answer):
        return PASS
    async def aclose(self):
        pass
"""


async def test_no_process_imports_a_file_of_the_current_folder(tmp_path: Path) -> None:
    for name in ("json", "yaml", "msgspec", "gateway", "strowger_gateway"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the current folder')")

    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        text = CONFIG.format(url=remote.base_url, more="")
        gateway = commanded(tmp_path / "config.yaml", text, command=STROWGER, folder=tmp_path)
        up = await stack.enter_async_context(gateway)
        workers = [await connected(up, stack, worker) for worker in (0, 1)]
        answers = await asyncio.gather(*(client.post(CHAT, json=HELLO) for client in workers))
        await importer_started(up.process.pid)

    assert [answer.status_code for answer in answers] == [200, 200]
    assert not any("a file of the current folder" in line for line in (*up.lines, *up.plain))


async def test_workers_find_the_hook_that_the_leader_has_checked(tmp_path: Path) -> None:
    """Its package has a name that a folder of our checkout has, too."""
    theirs = tmp_path / "theirs"
    about = theirs / "their_hook-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-hook\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[strowger.hooks]\ntheirs = their_hook:Hook\n")
    (theirs / "their_hook.py").write_text(HOOK)
    (theirs / "schemas.py").write_text("RULE = 'of-another-package'\n")

    async with AsyncExitStack() as stack:
        remote = await stack.enter_async_context(provider())
        more = "guardrails: [{name: g, use: theirs, mode: block}]"
        gateway = commanded(
            tmp_path / "config.yaml",
            CONFIG.format(url=remote.base_url, more=more),
            command=STROWGER,
            folder=tmp_path,
            env={"PYTHONPATH": str(theirs)},
        )
        up = await stack.enter_async_context(gateway)
        workers = [await connected(up, stack, worker) for worker in (0, 1)]
        answers = await asyncio.gather(*(client.post(CHAT, json=HELLO) for client in workers))

    assert ["blocked the request" in answer.text for answer in answers] == [True, True]
