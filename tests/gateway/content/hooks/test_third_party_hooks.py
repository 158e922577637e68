"""Hooks of other packages: found by entry point, cut off at their deadline, and `fail` decides."""

import asyncio
import importlib
import sys
from pathlib import Path

import pytest

from tests.gateway.content.hooks.test_guarded_requests import CHAT, guarded

pytestmark = pytest.mark.anyio

CODE = """
import asyncio
import sys
from strowger_gateway.gateway.content.hooks.contract import PASS, Block, HookRefusal

class Slow:
    def __init__(self, settings):
        self.kind = settings["kind"]
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.released = asyncio.Event()
        self.closed = False
        sys.modules["slow_hook"].last = self
    async def before(self, request):
        self.entered.set()
        if self.kind in ("hangs", "hangs on"):
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
                if self.kind == "hangs on":
                    await self.released.wait()
        if self.kind == "raises":
            raise OSError("the service is away")
        return HookRefusal(rules=("no",)) if self.kind == "refuses" else request
    async def chunk(self, window):
        await asyncio.sleep(0)
        if self.kind == "hangs":
            await asyncio.Event().wait()
        return Block(rule="end") if self.kind == "blocks" else PASS
    async def after(self, answer):
        return PASS
    async def aclose(self):
        self.closed = True
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with the hook `slow`."""
    folder = tmp_path / "site"
    about = folder / "slow_hook-1.dist-info"
    about.mkdir(parents=True)
    (folder / "slow_hook.py").write_text(CODE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-hook\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[strowger.hooks]\nslow = slow_hook:Slow\n")
    monkeypatch.setattr("sys.path", [str(folder), *sys.path])


def config(kind: str, fail: str = "closed", mode: str = "block") -> str:
    return (
        f"guardrails: [{{name: g, use: slow, fail: {fail}, mode: {mode}, timeout_s: 0.05, "
        f"settings: {{kind: {kind}}}}}]"
    )


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("kind", "reason"), [("hangs", "timeout"), ("hangs on", "timeout"), ("raises", "error")]
)
async def test_a_hook_that_hangs_or_raises_fails_closed_or_open(
    kind: str, reason: str, tmp_path: Path
) -> None:
    for fail, status in (("closed", 503), ("open", 200)):
        async with guarded(tmp_path, config(kind, fail), "hello") as at:
            answer = await asyncio.wait_for(at.ask(CHAT, "hi"), 60)
            assert answer.status_code == status
            if status == 503:
                assert answer.json()["error"]["code"] == "guardrail_failed"
                assert at.received == []
            [line] = at.up.access_lines()
            assert line.guardrails == (f"g/{reason}:failed",)


@pytest.mark.usefixtures("installed")
async def test_a_hook_that_always_raises_is_logged_once_and_counted_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded(tmp_path, config("raises", "open"), "hello") as at:
        for _ in range(5):
            assert (await at.ask(CHAT, "hi")).status_code == 200
        lines = at.up.access_lines()

    assert [one.getMessage() for one in caplog.records if one.exc_info] == ["guardrail g failed"]
    assert [line.guardrails for line in lines] == [("g/error:failed",)] * 5


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("stream", [False, True])
async def test_an_async_hook_refuses_requests_and_blocks_answers(
    stream: bool, tmp_path: Path
) -> None:
    for kind, place in (("refuses", "request"), ("blocks", "answer")):
        async with guarded(tmp_path, config(kind), "hello") as at:
            answer = await at.ask(CHAT, "hi", stream=stream)
            assert f"the guardrail 'g' blocked the {place}" in answer.text
        async with guarded(tmp_path, config(kind, mode="monitor"), "hello") as at:
            answer = await at.ask(CHAT, "hi", stream=stream)
            assert answer.status_code == 200
            assert "hello" in answer.text


@pytest.mark.usefixtures("installed")
async def test_a_hook_that_hangs_in_a_stream_is_cut_off(tmp_path: Path) -> None:
    for fail in ("closed", "open"):
        where = config("hangs", fail).replace("mode:", "where: output, mode:")
        async with guarded(tmp_path, where, "hello") as at:
            answer = await asyncio.wait_for(at.ask(CHAT, "hi", stream=True), 60)
            assert ("hello" in answer.text) == (fail == "open")
            assert ("guardrail_failed" in answer.text) == (fail == "closed")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_hook_that_monitors_delays_no_request(stream: bool, tmp_path: Path) -> None:
    waits = config("hangs", mode="monitor").replace("timeout_s: 0.05", "timeout_s: 600")
    async with guarded(tmp_path, waits, "hel", "lo") as at:
        answer = await asyncio.wait_for(at.ask(CHAT, "hi", stream=stream), 60)
        assert answer.status_code == 200
        assert len(at.received) == 1


@pytest.mark.usefixtures("installed")
async def test_a_client_that_leaves_ends_the_hook(tmp_path: Path) -> None:
    waits = config("hangs").replace("timeout_s: 0.05", "timeout_s: 600")
    async with guarded(tmp_path, waits, "hello") as at:
        hook = importlib.import_module("slow_hook").last
        asking = asyncio.create_task(at.ask(CHAT, "hi"))
        await asyncio.wait_for(hook.entered.wait(), 60)
        asking.cancel()
        await asyncio.wait_for(hook.cancelled.wait(), 60)
        assert at.received == []
        while at.up.state.admission.in_flight:  # noqa: ASYNC110  the request's last step
            await asyncio.sleep(0.01)
        assert at.up.access_lines()[0].status == 499


@pytest.mark.usefixtures("installed")
async def test_a_hook_that_passes_everything_changes_nothing(tmp_path: Path) -> None:
    async with guarded(tmp_path, config("passes"), "hel", "lo") as at:
        answer = await at.ask(CHAT, "hi")
        assert answer.json()["choices"][0]["message"]["content"] == "hello"
        hook = importlib.import_module("slow_hook").last
        assert not hook.closed
    assert hook.closed
