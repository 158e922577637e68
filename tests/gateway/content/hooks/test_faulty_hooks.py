"""Hooks of other packages with mistakes: each is a failure of the guardrail, and named."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.content.guardrails.setup import guards_of
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.content.hooks.test_guarded_requests import CHAT, guarded
from tests.gateway.serving import one_model

pytestmark = pytest.mark.anyio

CODE = """
import asyncio
import sys

from strowger_gateway.gateway.content.hooks.contract import PASS, Block, Edited, Mask, Span

BEFORE = {"before None": None, "before a text": "x", "before PASS": PASS,
          "before edited None": Edited(request=None, rules=("r",))}
def span(start, end, replacement="-"):
    return Mask(spans=(Span(start=start, end=end, rule="r", replacement=replacement),))
CHUNK = {"chunk None": None, "chunk True": True, "chunk beyond": span(0, 99),
         "chunk negative": span(-3, 2), "chunk backwards": span(3, 1), "chunk half": span(0.5, 2),
         "chunk no replacement": span(0, 2, None), "chunk no spans": Mask(spans=None)}
AFTER = {"after None": None, "after mask": span(0, 2)}
ENDS = {"exits": SystemExit, "is cancelled": asyncio.CancelledError, "is closed": GeneratorExit,
        "panics": BaseException}

class Odd:
    def __init__(self, settings):
        self.kind = settings["kind"]
        if self.kind == "made":
            sys.exit("APP_TOKEN is not set")
    def before(self, request):
        return self.of("before", BEFORE, request)
    def chunk(self, window):
        return self.of("chunk", CHUNK, PASS)
    def after(self, answer):
        return self.of("after", AFTER, PASS)
    def of(self, method, odd, otherwise):
        for kind, end in ENDS.items():
            if self.kind == f"{method} {kind}":
                raise end("of the hook")
        return odd.get(self.kind, otherwise)

class Waits:
    def __init__(self, settings):
        self.odd = Odd(settings)
    async def before(self, request):
        await asyncio.sleep(0)
        return self.odd.before(request)
    async def chunk(self, window):
        await asyncio.sleep(0)
        return self.odd.chunk(window)
    async def after(self, answer):
        await asyncio.sleep(0)
        return self.odd.after(answer)

class Half:
    def __init__(self, settings):
        pass
    def before(self, request):
        return request

def imports(settings):
    import a_module_that_is_missing
"""
ENTRIES = """[strowger.hooks]
odd = odd_hook:Odd
waits = odd_hook:Waits
half = odd_hook:Half
imports = odd_hook:imports
missing = another_module_that_is_missing:Hook
unnamed = odd_hook:Unnamed
"""
REQUESTS = ("before None", "before a text", "before PASS", "before edited None")
CHUNKS = (
    "chunk None",
    "chunk True",
    "chunk beyond",
    "chunk negative",
    "chunk backwards",
    "chunk half",
    "chunk no replacement",
    "chunk no spans",
)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "site"
    about = folder / "odd_hook-1.dist-info"
    about.mkdir(parents=True)
    (folder / "odd_hook.py").write_text(CODE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-hook\nVersion: 1\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.setattr("sys.path", [str(folder), *sys.path])
    yield
    sys.modules.pop("odd_hook", None)


@pytest.mark.parametrize("fail", ["closed", "open"])
@pytest.mark.parametrize("kind", [*REQUESTS, *CHUNKS, "after None", "after mask"])
async def test_a_result_that_the_contract_does_not_have_fails_the_guardrail(
    kind: str, fail: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rail = f"{{name: g, use: odd, mode: mask, fail: {fail}, settings: {{kind: {kind}}}}}"
    streams = (False,) if kind.startswith("after") else (False, True)
    async with guarded(tmp_path, f"guardrails: [{rail}]", "hel", "lo") as at:
        for stream in streams:
            answer = await at.ask(CHAT, "hi", stream=stream)
            if fail == "open":
                assert answer.status_code == 200
                assert "hel" in answer.text
            else:
                assert answer.status_code == 503
                assert answer.json()["error"]["code"] == "guardrail_failed"
        lines = at.up.access_lines()
    assert [line.guardrails for line in lines] == [("g/error:failed",)] * len(streams)
    [logged] = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert logged.exc_info
    assert isinstance(logged.exc_info[1], TypeError)


@pytest.mark.parametrize("use", ["odd", "waits"])
@pytest.mark.parametrize("end", ["exits", "is cancelled", "is closed", "panics"])
@pytest.mark.parametrize("method", ["before", "chunk", "after"])
async def test_a_hook_that_ends_its_process_ends_its_own_request_only(
    method: str, end: str, use: str, tmp_path: Path
) -> None:
    rail = f"{{name: g, use: {use}, mode: block, settings: {{kind: {method} {end}}}}}"
    streams = (False,) if method == "after" else (False, True)
    async with guarded(tmp_path, f"guardrails: [{rail}]", "hel", "lo") as at:
        for stream in streams:
            answer = await at.ask(CHAT, "hi", stream=stream)
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "guardrail_failed"
        lines = at.up.access_lines()
    assert [line.guardrails for line in lines] == [("g/error:failed",)] * len(streams)


@pytest.mark.parametrize("use", ["odd", "waits"])
async def test_a_stream_that_begins_without_text_has_the_status_of_its_failure(
    use: str, tmp_path: Path
) -> None:
    rail = f"{{name: g, use: {use}, mode: block, settings: {{kind: chunk exits}}}}"
    async with guarded(tmp_path, f"guardrails: [{rail}]", "", "hello", "!", wait=True) as at:

        def one_text() -> None:
            at.read.set()
            at.read.clear()

        loop = asyncio.get_running_loop()
        loop.call_later(0.3, one_text)
        loop.call_later(0.6, at.read.set)
        answer = await at.ask(CHAT, "hi", stream=True)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "guardrail_failed"


@pytest.mark.parametrize("kind", [*REQUESTS, *CHUNKS])
async def test_a_faulty_hook_that_monitors_changes_nothing(kind: str, tmp_path: Path) -> None:
    rail = f"{{name: g, use: odd, mode: monitor, settings: {{kind: {kind}}}}}"
    async with guarded(tmp_path, "", "hel", "lo") as at:
        plain = [await at.ask(CHAT, "hi", stream=stream) for stream in (False, True)]
    async with guarded(tmp_path, f"guardrails: [{rail}]", "hel", "lo") as at:
        watched = [await at.ask(CHAT, "hi", stream=stream) for stream in (False, True)]
    assert [one.status_code for one in watched] == [200, 200]
    assert [len(one.content) for one in watched] == [len(one.content) for one in plain]


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("odd", "KeyError: 'kind'"),
        ("half", "Half has no method 'chunk'"),
        ("imports", "ModuleNotFoundError: No module named 'a_module_that_is_missing'"),
        ("missing", "ModuleNotFoundError: No module named 'another_module_that_is_missing'"),
        ("unnamed", "AttributeError: module 'odd_hook' has no attribute 'Unnamed'"),
    ],
)
def test_a_hook_that_cannot_be_made_is_named(use: str, why: str) -> None:
    text = one_model("http://127.0.0.1:9/v1", f"guardrails: [{{name: g, use: {use}}}]")
    with pytest.raises(InvalidConfig) as refused:
        guards_of(read_config(text, source="config.yaml", env={}))
    assert refused.value.problems == (f"guardrails[0].use: the hook {use!r} cannot be used: {why}",)


def test_a_hook_that_exits_while_it_is_made_is_named_and_ends_no_gateway() -> None:
    guardrail = "guardrails: [{name: g, use: odd, settings: {kind: made}}]"
    text = one_model("http://127.0.0.1:9/v1", guardrail)
    with pytest.raises(InvalidConfig) as refused:
        guards_of(read_config(text, source="config.yaml", env={}))
    why = "SystemExit: APP_TOKEN is not set"
    assert refused.value.problems == (f"guardrails[0].use: the hook 'odd' cannot be used: {why}",)


def test_a_guardrail_without_its_package_names_the_command_that_installs_it(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    guardrail = "guardrails: [{name: g, use: secrets}]"
    config.write_text(one_model("http://127.0.0.1:9", guardrail))
    program = (
        "import sys; sys.modules['re2'] = None; from strowger_gateway.gateway.cli import main; "
        "sys.argv = ['strowger', 'check', '--config', sys.argv[1]]; main()"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(config)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert (
        "guardrails[0].use: 'secrets' needs the package 're2'; "
        "pip install 'strowger-gateway[guardrails]'"
    ) in done.stderr.replace("\n", " ")
