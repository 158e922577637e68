"""Checks that decide about answers without a judge, and the limits of the operator's command."""

import asyncio
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.experiments.replay.checks import (
    CheckFailed,
    fits_schema,
    is_expected,
    passes,
    run_test,
)
from strowger_gateway.gateway.experiments.replay.prompts import prompt_of
from tests.gateway.experiments.replay.replaying import ARMS, prompts, site

pytestmark = pytest.mark.anyio
HELLO = prompt_of("chat", {"messages": [{"role": "user", "content": "hello"}]})
NUMBER = '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}'


@pytest.mark.parametrize(
    ("answer", "expected", "same"),
    [
        ("Paris", "paris", True),
        (" **Paris.**\n", "Paris", True),
        ("The  answer\nis 4", "the answer is 4", True),
        ("ﬁne", "fine", True),
        ("Paris, Texas", "Paris", False),
        ("", "Paris", False),
    ],
)
def test_an_expected_text_is_compared_without_its_form(
    answer: str, expected: str, same: bool
) -> None:
    assert is_expected(answer, expected) == same


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        ('{"n": 3}', True),
        ('```json\n{"n": 3}\n```', True),
        ('{"n": "3"}', False),
        ("{}", False),
        ("n = 3", False),
    ],
)
def test_an_answer_fits_a_schema_or_not(answer: str, fits: bool) -> None:
    assert fits_schema(answer, NUMBER) == fits


def test_a_schema_that_is_none_is_an_error() -> None:
    with pytest.raises(CheckFailed, match="schema: 3 is not valid"):
        fits_schema("{}", '{"type": 3}')


def script(folder: Path, text: str) -> str:
    """A command that runs this text in Python."""
    file = folder / "check.py"
    file.write_text(text)
    return f"{sys.executable} {file}"


async def test_a_command_gets_the_answer_and_its_status_decides(tmp_path: Path) -> None:
    command = script(
        tmp_path, "import os, sys; sys.exit(sys.stdin.read() != os.environ['STROWGER_TEST'])"
    )
    prompt = replace(HELLO, test="right")

    assert await run_test(command, prompt, "right", 20)
    assert not await run_test(command, prompt, "wrong", 20)


async def test_a_command_runs_in_an_empty_folder_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STROWGER_API_KEY", "a secret")
    seen = tmp_path / "seen"
    command = script(
        tmp_path,
        f"import os; open({str(seen)!r}, 'w').write(repr((os.listdir('.'), sorted(os.environ))))",
    )

    assert await run_test(command, HELLO, "answer", 20)
    folder, names = eval(seen.read_text())
    assert folder == []
    assert "STROWGER_API_KEY" not in names


@pytest.mark.parametrize(
    "text",
    [
        "import time; time.sleep(60)",
        "while True: pass",
        "x = bytearray(8 << 30)",
        "f = open('big', 'wb')\nfor _ in range(1000): f.write(bytes(1 << 20))",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    ],
    ids=["sleeps", "computes", "memory", "disk", "crashes"],
)
async def test_a_command_that_exceeds_its_limits_does_not_pass(tmp_path: Path, text: str) -> None:
    assert not await run_test(script(tmp_path, text), HELLO, "answer", 2)


async def test_children_of_a_command_end_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = (
        "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', "
        f"'import time; time.sleep(600)']); open({str(pid)!r}, 'w').write(str(child.pid))"
    )

    assert await run_test(script(tmp_path, text), HELLO, "answer", 20)

    async with asyncio.timeout(60):
        while is_alive(int(pid.read_text())):  # noqa: ASYNC110  nothing reports it
            await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_an_answer_passes_only_all_checks(tmp_path: Path) -> None:
    fails = script(tmp_path, "raise SystemExit(1)")
    prompt = replace(HELLO, expected='{"n": 3}', schema=NUMBER)

    assert await passes(prompt, '{"n": 3}', "", 20)
    assert not await passes(prompt, '{"n": 4}', "", 20)
    assert not await passes(prompt, '{"n": 3}', fails, 20)


async def test_a_command_that_is_not_there_stops_the_run() -> None:
    with pytest.raises(CheckFailed, match="--test-command: /no/such/program"):
        await run_test("/no/such/program", HELLO, "answer", 2)


async def test_checks_decide_before_the_judge_and_without_one(tmp_path: Path) -> None:
    lines = prompts(4)
    lines[0]["expected"] = "new says: question 0"
    lines[1]["expected"] = "old says: question 1"
    lines[2]["expected"] = "neither"
    arms = ("--arms", "old,new", "--answer-tokens", "100", "--max-usd", "20")
    async with site(tmp_path) as here:
        file = str(here.file(lines))
        await here.replay("--from", file, *arms)
        alone = await here.report()
        await here.replay("--from", file, *ARMS, "--max-usd", "20", "--run", "judged")
        judged = await here.report("judged")

    assert alone["by"] == {"check": 3, "tie": 1}
    assert (alone["win_rate"]["wins"], alone["win_rate"]["losses"]) == (1, 1)
    assert [(arm["checked"], arm["passed"]) for arm in alone["arms"]] == [(3, 1), (3, 1)]
    assert judged["by"] == {"check": 2, "judge": 2}


async def test_a_test_command_decides_about_answers(tmp_path: Path) -> None:
    lines = prompts(4)
    lines[0]["test"] = "needs the command"
    command = script(tmp_path, "import sys; sys.exit(not sys.stdin.read().startswith('new'))")
    arms = ("--arms", "old,new", "--answer-tokens", "100", "--max-usd", "20")
    async with site(tmp_path) as here:
        file = str(here.file(lines))
        without = await here.replay("--from", file, *arms)
        await here.replay("--from", file, *arms, "--test-command", command)
        report = await here.report()

    assert "line 1: test: needs --test-command, which runs it" in without.output
    assert report["win_rate"]["wins"] == 4
