"""Checks that decide about an answer without a judge: an expected text, a schema, a command.

The command is the operator's own. It gets the answer on standard input and never as code: with
limits of time, memory and files, in an empty folder, and without the environment of the caller.
"""

import asyncio
import contextlib
import os
import re
import resource
import shlex
import signal
import tempfile
import unicodedata
from pathlib import Path
from typing import Any, Final, cast

from strowger_gateway.gateway.experiments.replay.prompts import ReplayedPrompt
from strowger_gateway.schemas.measured_json import NotJson, read_json

MEMORY_BYTES: Final = 2 << 30
FILE_BYTES: Final = 64 << 20
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV")
"""Variables of the environment that the command gets: none has a secret."""

_BLANKS: Final = re.compile(r"\s+")
_CODE: Final = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


class CheckFailed(Exception):
    """The check itself cannot run, whatever the answer: the run stops."""


def normalised(text: str) -> str:
    """Return a text as `expected` compares it: without case, outer punctuation, and blanks that
    are not between words.
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    return _BLANKS.sub(" ", plain).strip().strip(".,;:!?\"'`*()[]").strip()


def is_expected(answer: str, expected: str) -> bool:
    return normalised(answer) == normalised(expected)


def fits_schema(answer: str, schema: str) -> bool:
    """Whether an answer is JSON that fits a JSON schema; a fence of Markdown around it is ignored.

    Raises CheckFailed without the package, or for a schema that is none.
    """
    try:
        from jsonschema import Draft202012Validator, SchemaError
    except ImportError as exc:
        raise CheckFailed(
            "checking `schema` needs jsonschema; pip install 'strowger-gateway[replay]'"
        ) from exc
    fenced = _CODE.search(answer)
    try:
        value = cast(Any, read_json(fenced[1] if fenced else answer))
    except NotJson:
        return False
    rules = cast("dict[str, Any] | bool", read_json(schema))
    try:
        Draft202012Validator.check_schema(rules)
    except SchemaError as exc:
        raise CheckFailed(f"schema: {exc.message}") from exc
    return bool(Draft202012Validator(rules).is_valid(value))  # pyright: ignore[reportUnknownMemberType]  # jsonschema's own types are partial


def has_checks(prompt: ReplayedPrompt, command: str) -> bool:
    return bool(command) or prompt.expected is not None or prompt.schema is not None


async def passes(prompt: ReplayedPrompt, answer: str, command: str, timeout_s: float) -> bool:
    """Whether an answer passes all checks of its prompt. Raises CheckFailed."""
    if prompt.expected is not None and not is_expected(answer, prompt.expected):
        return False
    if prompt.schema is not None and not fits_schema(answer, prompt.schema):
        return False
    return not command or await run_test(command, prompt, answer, timeout_s)


async def run_test(command: str, prompt: ReplayedPrompt, answer: str, timeout_s: float) -> bool:
    """Run the operator's command with an answer on its standard input; exit status 0 passes.

    A command that runs too long, or that its limits end, does not pass. Raises CheckFailed if it
    cannot be started.
    """
    words = _absolute(shlex.split(command))
    with tempfile.TemporaryDirectory(prefix="strowger-replay-") as folder:
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {"HOME": folder, "TMPDIR": folder, "STROWGER_TEST": prompt.test or ""}
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=Path(folder),
                env=environment,
                start_new_session=True,
                preexec_fn=_Limits(int(timeout_s) + 1),
            )
        except (OSError, ValueError) as exc:
            raise CheckFailed(f"--test-command: {words[0]}: {exc}") from exc
        try:
            async with asyncio.timeout(timeout_s):
                await process.communicate(answer.encode("utf-8", "replace"))
        except TimeoutError:
            return False
        finally:
            # Children that it has left behind, too: they are of its session.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return process.returncode == 0


def _absolute(words: list[str]) -> list[str]:
    """Files that are named from the folder of the caller: the command runs in another one."""
    return [
        str(Path(word).absolute()) if ("/" in word or place) and Path(word).is_file() else word
        for place, word in enumerate(words)
    ]


class _Limits:
    """Runs in the child before the command does."""

    def __init__(self, cpu_s: int) -> None:
        self._cpu_s = cpu_s

    def __call__(self) -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (self._cpu_s, self._cpu_s))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
