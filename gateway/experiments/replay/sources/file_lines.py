"""A file of prompts, one JSON object in each line, of three kinds that may be mixed:

1. an exported payload, or a line of the gateway's payload files: has `surface` and `request`;
2. a line of OpenAI's Batch API: has `url` and `body`
   (https://platform.openai.com/docs/guides/batch#1-prepare-your-batch-file);
3. the body of a request itself: has `messages`, `input` or `prompt`.

Each may have `unit`, `expected`, `schema` and `test` at its top.
"""

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.experiments.replay.checks import CheckFailed, check_schema
from strowger_gateway.gateway.experiments.replay.prompts import (
    PATHS,
    Api,
    ReplayedPrompt,
    Unusable,
    prompt_of,
)
from strowger_gateway.gateway.experiments.replay.sources.logged import (
    LoggedPayload,
    prompt_of_payload,
)
from strowger_gateway.schemas.measured_json import NotJson, read_json

MOST_BYTES: Final = 16 << 20
"""Of one line."""

MOST_TEST_BYTES: Final = 100 << 10
"""Of `test`, which an environment variable carries: Linux takes at most 128 KiB in one.

https://man7.org/linux/man-pages/man2/execve.2.html, on MAX_ARG_STRLEN
"""

_OWN: Final = ("unit", "expected", "schema", "test")
_APIS: Final[Mapping[str, Api]] = {path: api for api, path in PATHS.items()}


class PromptLine(Struct, frozen=True, kw_only=True):
    """number: from 1. found: its prompt, or why it has none."""

    number: int
    found: ReplayedPrompt | Unusable


def file_digest(path: Path) -> str:
    """Raises OSError."""
    found = blake2b(digest_size=12)
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def file_prompts(path: Path) -> Iterator[PromptLine]:
    """Yield the lines of a file that are not blank. Raises OSError."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MOST_BYTES + 1):
            number += 1
            if number == 1:
                line = line.removeprefix(BOM_UTF8)
            if len(line) > MOST_BYTES:
                while line and not line.endswith(b"\n"):
                    line = file.readline(MOST_BYTES)
                fault = Unusable("", f"is longer than {MOST_BYTES >> 20} MiB")
                yield PromptLine(number=number, found=fault)
            elif line.strip():
                yield PromptLine(number=number, found=_prompt(line))


def _prompt(line: bytes) -> ReplayedPrompt | Unusable:
    try:
        found = read_json(line)
    except NotJson as exc:
        return Unusable("", f"is not JSON ({exc})")
    if not isinstance(found, dict):
        return Unusable("", "is not a JSON object")
    fields = cast("dict[str, object]", found)
    try:
        return _checked(_read(fields), fields)
    except Unusable as fault:
        return fault


def _read(fields: dict[str, object]) -> ReplayedPrompt:
    unit = fields.get("unit")
    if unit is None:
        unit = ""
    if not isinstance(unit, str | int):
        raise Unusable("unit", "is not a text")
    if "surface" in fields:
        try:
            record = msgspec.convert(fields, LoggedPayload)
        except msgspec.ValidationError as exc:
            raise Unusable("", str(exc)) from exc
        return prompt_of_payload(record, str(unit))
    body = fields.get("body")
    if body is not None:
        api = _APIS.get(str(fields.get("url", "")))
        if api is None:
            raise Unusable("url", f"is none of {', '.join(_APIS)}")
        if not isinstance(body, dict):
            raise Unusable("body", "is not an object")
        return prompt_of(api, cast("dict[str, object]", body), str(unit))
    bare = {name: value for name, value in fields.items() if name not in _OWN}
    if isinstance(bare.get("prompt"), dict):
        return prompt_of("responses", bare, str(unit))
    for name, api in (
        ("messages", "chat"),
        ("input", "responses"),
        ("prompt", "completions"),
        ("prompt_id", "chat"),
    ):
        if name in bare:
            return prompt_of(cast("Api", api), bare, str(unit))
    raise Unusable("messages", "is missing; write messages, body, or surface and request")


def _checked(prompt: ReplayedPrompt, fields: Mapping[str, object]) -> ReplayedPrompt:
    expected, schema, test = (fields.get(name) for name in ("expected", "schema", "test"))
    if expected is not None and not isinstance(expected, str | int | float):
        raise Unusable("expected", "is not a text or a number")
    if schema is not None:
        if not isinstance(schema, dict | bool):
            raise Unusable("schema", "is not a JSON schema")
        schema = msgspec.json.encode(schema).decode()
        try:
            check_schema(schema)
        except CheckFailed as exc:
            raise Unusable("", str(exc)) from exc
    if test is not None and not isinstance(test, str):
        raise Unusable("test", "is not a text")
    if test is not None and ("\0" in test or len(test.encode()) > MOST_TEST_BYTES):
        raise Unusable("test", f"has a NUL, or more than {MOST_TEST_BYTES >> 10} KiB")
    shown = expected if isinstance(expected, str) or expected is None else _json(expected)
    return replace(prompt, expected=shown, schema=schema, test=test)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
