"""Commands whose output goes to a full disk, or whose standard streams are closed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.payload_rows import StoredPayload
from strowger_gateway.schemas.secret import Secret
from tests.gateway.cli.command_line import run
from tests.gateway.forked_commands import fork_into
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full"),
]

ROOT = Path(__file__).parents[3]
NO_SPACE = "strowger: cannot write the output: No space left on device\n"
EXPERIMENT = """
experiments:
  - name: e
    model: chat
    assign_by: request
    primary: error
    variants:
      - {name: a, weight: 1, backend: remote/m-1}
      - {name: b, weight: 1, backend: remote/m-1, set: {seed: 1}}
"""
PAYLOAD = StoredPayload(
    request_id="r-1",
    time=0.0,
    key="",
    team="",
    model="chat",
    status=200,
    error="",
    size=2,
    record="{}",
)


def shell(line: str, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Run a command with the redirections in `line`."""
    return subprocess.run(
        [
            "sh",
            "-c",
            f'exec "$@" {line}',
            "sh",
            sys.executable,
            "-m",
            "strowger_gateway.gateway.cli",
            *words,
        ],
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def to_a_full_disk(*words: str) -> tuple[str, int]:
    """Run a command whose stdout is a full disk; return its stderr and exit status."""
    read, write = os.pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    process = await fork_into(words, dict(os.environ), [full, write])
    with os.fdopen(read) as stderr:
        said = await asyncio.to_thread(stderr.read)
    return said, await process.wait()


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Of a store with a row of the audit log, a payload and an experiment."""
    file = tmp_path / "config.yaml"
    file.write_text(one_model("http://127.0.0.1:9/v1") + EXPERIMENT)
    assert run("keys", "create", "ci", "--config", str(file)).exit_code == 0
    store = open_store(Secret(f"sqlite:///{tmp_path / 'strowger.db'}"))
    assert store.payloads.add([PAYLOAD], 0.0, most=9_999, most_of_key=9_999) == [""]
    store.close()
    return str(file)


@pytest.mark.parametrize("command", ["schema", "--help", "prices"])
async def test_a_command_that_cannot_write_its_output_says_so_in_one_line(command: str) -> None:
    assert await to_a_full_disk(command) == (NO_SPACE, 1)


@pytest.mark.parametrize(
    "command",
    [
        "audit --json",
        "experiments export e",
        "experiments report e --json",
        "experiments votes e --json",
        "records payload r-1",
    ],
)
async def test_so_does_one_that_reads_the_store(command: str, config: str) -> None:
    assert run(*command.split(), "--config", config).stdout

    said, status = await to_a_full_disk(*command.split(), "--config", config)

    assert (said, status) == (NO_SPACE, 1)


def test_without_a_folder_for_temporary_files_a_command_says_so_in_one_line(config: str) -> None:
    code = (
        "import sys, tempfile; tempfile._candidate_tempdir_list = lambda: ['/proc/none']; "
        f"sys.argv = ['strowger', 'check', {config!r}]; "
        "from strowger_gateway.gateway.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stderr == (
        "strowger: No usable temporary directory found in ['/proc/none']; "
        "name a writable folder in TMPDIR\n"
    )
    assert done.returncode == 1


async def test_so_does_a_chat(tmp_path: Path) -> None:
    async def behave(_: Received, answer: Answer) -> None:
        await answer.stream("hello")

    async with provider(behave) as p, serving(one_model(p.base_url), tmp_path) as up:
        words = ("chat", "--url", up.url)
        done = await asyncio.to_thread(shell, ">/dev/full", *words, stdin="hi")

    assert (done.stderr, done.returncode) == (NO_SPACE, 1)


@pytest.mark.parametrize(
    ("command", "closed", "status"),
    [
        ("prices", ">&-", 0),
        ("experiments report e --json", ">&-", 0),
        ("explain -", "<&-", 1),
        ("chat", "<&-", 2),
        ("check nowhere.yaml", "2>&-", 1),
    ],
)
def test_closed_streams_are_as_empty_ones(
    command: str, closed: str, status: int, config: str
) -> None:
    url = ("--url", "http://127.0.0.1:9") if command == "chat" else ()
    model = ("m",) if command == "chat" else ()
    file = () if command.startswith("check") else ("--config", config)

    done = shell(closed, *command.split(), *model, *url, *file)

    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
