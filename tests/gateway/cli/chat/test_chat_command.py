"""`strowger chat` with a running gateway, piped and in a terminal."""

import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from click.testing import Result

from tests.gateway.cli.command_line import run
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[4]
MODELS = """
auth: {mode: keys, keys: [{name: a, key: key-of-a-client}]}
models:
  - {name: chat, retry: {backoff_s: 0}, backends: [{provider: p, model: m}]}
  - {name: other, retry: {attempts: 1}, backends: [{provider: p, model: n}]}
"""
ENV = {"STROWGER_API_KEY": "key-of-a-client"}
HELLO = b"\x1b[2Jhel"
"""A model that would clear the screen."""

ATTACK = "\x1b[2J\x1b]0;title\x07\x1b]52;c;aGk=\x9c\x9b2J\x7f\r\n\b"


async def behave(request: Received, answer: Answer) -> None:
    """Return what the last message asks for, or else the number of messages."""
    turns = cast("list[dict[str, str]]", request.json["messages"])
    match turns[-1]["content"]:
        case "fail":
            await answer.json({"error": {"message": "out of order"}}, 400)
        case "break":
            await answer.begin_stream()
            await answer.text("half an ans")
            answer.reset()
        case "attack":
            await answer.stream(
                "\x1b[2J\x1b]0;title\x07\x1b]52;c;aGk=\x9c\x9b2J\x7f\r\n\b", "hello after user"
            )
        case "wait":
            await answer.begin_stream()
            await answer.text("it begins")
            await answer.gone.wait()
        case _:
            roles = ",".join(turn["role"] for turn in turns)
            await answer.stream(HELLO.decode(), f"lo after {roles}")


@pytest.fixture(scope="module")
async def p() -> AsyncGenerator[Provider]:
    async with provider(behave) as one:
        yield one


@pytest.fixture(scope="module")
async def up(p: Provider, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Serving]:
    config = (
        f"providers: [{{name: p, adapter: openai, api_key: k, base_url: '{p.base_url}'}}]{MODELS}"
    )
    async with serving(config, tmp_path_factory.mktemp("run")) as one:
        yield one


async def piped(up: Serving, typed: str | bytes, *words: str, env: dict[str, str] = ENV) -> Result:
    return await asyncio.to_thread(
        run, "chat", *words, "--url", up.url, env={**os.environ, **env}, typed=typed
    )


class Terminal:
    """A terminal whose user reads until a text appears."""

    def __init__(self, screen: int) -> None:
        self._screen = screen
        self.seen = ""

    def type(self, words: str) -> None:
        os.write(self._screen, words.encode())

    def read_until(self, words: str, seconds: float = 60.0) -> str:
        """Return the output since the last call, up to and including `words`."""
        end = time.monotonic() + seconds
        while words not in self.seen:
            ready, _, _ = select.select([self._screen], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no {words!r} in {self.seen!r}"
            self.seen += os.read(self._screen, 65536).decode()
        before, _, self.seen = self.seen.partition(words)
        return before + words


_INTERRUPTIBLE = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('strowger_gateway.gateway.cli', run_name='__main__')"
)
"""A shell starts what runs in the background with SIGINT ignored, and children inherit that."""


@contextmanager
def at_a_terminal(
    url: str, *, piped: bool = False
) -> Generator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    """piped: only its output is the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTIBLE, "chat", "--url", url],
        cwd=ROOT,
        env={**os.environ, **ENV, "TERM": "dumb", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE if piped else theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(ours), process
    finally:
        process.kill()
        process.wait()
        os.close(ours)


async def test_what_is_piped_in_is_answered_and_nothing_else_is_printed(up: Serving) -> None:
    result = await piped(up, "hi\n", "chat")

    assert result.exit_code == 0
    assert result.stdout_bytes == HELLO + b"lo after user\n"
    assert result.stderr == ""


async def test_a_piped_question_leaves_the_terminal_to_its_user(up: Serving) -> None:
    """A clear of the screen, a title, the clipboard, and the same with C1."""

    def ask() -> str:
        with at_a_terminal(up.url, piped=True) as (terminal, process):
            assert process.stdin is not None
            process.stdin.write(b"attack")
            process.stdin.close()
            return terminal.read_until("user\r\n")

    shown = await asyncio.to_thread(ask)

    assert shown == "[2J]0;title]52;c;aGk=2J\r\nhello after user\r\n"


async def test_without_a_name_the_first_model_answers(up: Serving, p: Provider) -> None:
    await piped(up, "hi")

    assert p.requests[-1].json["model"] == "m"


async def test_the_same_conversation_goes_over_anthropics_api(up: Serving, p: Provider) -> None:
    answered = await piped(up, "hello", "chat", "--api", "messages", "--user", "u-1")
    failed = await piped(up, "fail", "chat", "--api", "messages")

    assert answered.stdout.endswith("lo after user\n")
    assert up.access_lines()[-2].surface == "anthropic"
    assert failed.exit_code == 1
    assert "out of order" in failed.stderr


async def test_the_same_conversation_goes_over_the_responses_api(up: Serving, p: Provider) -> None:
    answered = await piped(up, "hello", "chat", "--api", "responses", "--user", "u-1")
    failed = await piped(up, "break", "chat", "--api", "responses")

    assert answered.stdout.endswith("lo after user\n")
    assert up.access_lines()[-2].surface == "responses"
    assert failed.exit_code == 1
    assert "the answer ended early: " in failed.stderr


async def test_experiments_and_sticky_policies_can_use_a_user(up: Serving, p: Provider) -> None:
    await piped(up, "hi", "chat", "--user", "u-1")
    await piped(up, "hi", "chat")

    assert p.requests[-2].json["user"] == "u-1"
    assert "user" not in p.requests[-1].json


@pytest.mark.parametrize(
    ("typed", "words", "env", "told"),
    [
        ("fail", ("chat",), ENV, "400: out of order"),
        ("break", ("chat",), ENV, "the answer ended early: "),
        ("hi", ("cat",), ENV, "model 'cat' not found; did you mean 'chat'?"),
        ("hi", ("chat",), {}, "401: no API key in the request"),
        ("hi", ("chat",), {}, "; give --key or STROWGER_API_KEY"),
        ("hi", (), {}, "401: no API key in the request"),
    ],
)
async def test_a_failure_is_a_line_on_stderr_and_an_exit_status(
    up: Serving, typed: str, words: tuple[str, ...], env: dict[str, str], told: str
) -> None:
    result = await piped(up, typed, *words, env=env)

    assert result.exit_code == 1
    assert told in result.stderr


async def test_a_question_that_is_not_text_is_wrong_usage(up: Serving) -> None:
    result = await piped(up, b"\x8b\xff", "chat")

    assert result.exit_code == 2
    assert "Error: the question on standard input is not UTF-8 text" in result.stderr


async def test_where_nothing_listens_it_says_how_to_start_it(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("server: {port: 9}\nproviders: []\nmodels: []\n")

    result = await asyncio.to_thread(run, "chat", "m", "--config", str(config), typed="hi")

    assert result.exit_code == 1
    assert result.stderr == (
        "cannot connect to http://127.0.0.1:9; start the gateway with `strowger serve`, or give "
        "--url\n"
    )


async def test_a_conversation_at_a_terminal(up: Serving, p: Provider) -> None:
    def talk() -> list[str]:
        with at_a_terminal(up.url) as (terminal, process):
            told = [terminal.read_until("> ")]
            for line in ("hi", "again", "/system be brief", "and now", "/why", "/clear", "new"):
                terminal.type(f"{line}\r")
                terminal.read_until(line)
                told.append(terminal.read_until("> "))
            terminal.type("/quit\r")
            assert process.wait(20) == 0
        return told

    begun, first, second, _, third, why, _, new = await asyncio.to_thread(talk)

    assert f"chat at {up.url}" in begun
    assert "hello after user\r\n" in first.replace("[2J", "")
    assert "\x1b[2J" not in first
    assert "p/m" in first
    assert "after user,assistant,user\r\n" in second
    assert "after system,user,assistant,user,assistant,user" in third
    assert "x-gateway-backend: p/m" in why
    assert "after system,user\r\n" in new


async def test_ctrl_c_stops_the_answer_and_not_the_program(up: Serving, p: Provider) -> None:
    hung_up = p.hung_up

    def talk() -> str:
        with at_a_terminal(up.url) as (terminal, process):
            terminal.read_until("> ")
            terminal.type("wait\r")
            terminal.read_until("it begins")
            process.send_signal(signal.SIGINT)
            terminal.read_until("stopped")
            terminal.read_until("> ")
            terminal.type("/model other\r")
            terminal.read_until("model: other")
            terminal.type("fail\r")
            terminal.read_until("out of order")
            terminal.read_until("> ")
            terminal.type("hi\r")
            told = terminal.read_until("p/n")
            terminal.read_until("> ")
            terminal.type("\x04")
            assert process.wait(20) == 0
            return told

    told = await asyncio.to_thread(talk)

    await p.until(lambda: p.hung_up == hung_up + 1)
    assert "after user,assistant,user\r\n" in told
