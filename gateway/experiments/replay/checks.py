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

    Raises CheckFailed as `check_schema` does.
    """
    fenced = _CODE.search(answer)
    try:
        value = read_json(fenced[1] if fenced else answer)
    except NotJson:
        return False
    try:
        return _fits(value, schema)
    except RecursionError:
        return False


def check_schema(schema: str) -> None:
    """Raises CheckFailed for what is not a JSON schema, or refers to something outside of it, and
    without the package jsonschema.
    """
    try:
        _fits(None, schema)
        _check_references(read_json(schema))
    except RecursionError as exc:
        raise CheckFailed("schema: refers to itself without end") from exc


def _fits(value: object, schema: str) -> bool:
    """Raises CheckFailed, RecursionError."""
    try:
        from jsonschema import Draft202012Validator, SchemaError
        from jsonschema_specifications import REGISTRY
        from referencing.exceptions import Unresolvable
    except ImportError as exc:
        raise CheckFailed("checking `schema` needs jsonschema: pip install jsonschema") from exc
    rules = cast("dict[str, Any] | bool", read_json(schema))
    try:
        Draft202012Validator.check_schema(rules)
        # A registry of its own: by default, references are fetched from wherever they name.
        return bool(Draft202012Validator(rules, registry=REGISTRY).is_valid(cast(Any, value)))  # pyright: ignore[reportUnknownMemberType]  # jsonschema's own types are partial
    except SchemaError as exc:
        raise CheckFailed(f"schema: {exc.message}") from exc
    except Unresolvable as exc:
        raise CheckFailed(_NOT_WITHIN.format(ref=exc.ref)) from exc


_NOT_WITHIN: Final = "schema: $ref: nothing is at {ref!r} within the schema"


def _check_references(rules: object) -> None:
    """Also those that only some answers would reach. Raises CheckFailed, RecursionError."""
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    references: list[str] = []
    _collect(rules, references)
    if not references or not isinstance(rules, dict) or "$id" in rules:
        return
    whole = DRAFT202012.create_resource(cast("dict[str, Any]", rules))
    resolver = REGISTRY.with_resource("", whole).resolver()
    for reference in references:
        try:
            resolver.lookup(reference)
        except Unresolvable as exc:
            raise CheckFailed(_NOT_WITHIN.format(ref=reference)) from exc


def _collect(value: object, into: list[str]) -> None:
    if isinstance(value, dict):
        for name, one in cast("dict[str, object]", value).items():
            if name == "$ref" and isinstance(one, str):
                into.append(one)
            _collect(one, into)
    elif isinstance(value, list):
        for one in cast("list[object]", value):
            _collect(one, into)


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
    # A child that has left the session may still write when the folder is removed.
    # A file and not a pipe, whose other end closes when the command exits without reading.
    with (
        tempfile.TemporaryDirectory(
            prefix="strowger-replay-", ignore_cleanup_errors=True
        ) as folder,
        tempfile.TemporaryFile() as given,
    ):
        given.write(answer.encode("utf-8", "replace"))
        given.seek(0)
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {"HOME": folder, "TMPDIR": folder, "STROWGER_TEST": prompt.test or ""}
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=given,
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
                await process.wait()
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
