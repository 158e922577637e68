"""Extracts a vendor's error message from the many formats in which vendors send it.

Known shapes: OpenAI's `{"error": {…}}`, vLLM's older flat one, `{"error": "text"}`, FastAPI's
`{"detail": …}`, `{"message": …}`, Databricks' `{"error_code", "message"}` (whose message can be
JSON again, with the error of the vendor behind it), Huawei's `{"error_code", "error_msg"}`,
MiniMax's `{"base_resp": {"status_code", "status_msg"}}`, a list around any of them, JSON inside a
JSON string, plain text and HTML.
"""

from collections.abc import Iterable
from typing import cast

import msgspec
from msgspec import Struct

from strowger_gateway.schemas.measured_json import NotJson, read_json

LONGEST = 2000
"""Characters of a vendor's message that are forwarded."""

_BEHIND = ("external_model_error", "external_model_message")
"""Matches the error of the vendor behind a Databricks endpoint: the real cause."""

_MESSAGE = (
    *_BEHIND,
    *("message", "msg", "detail", "error", "error_message", "errors", "description"),
    *("error_msg", "base_resp", "status_msg"),
)
_CODE = ("code", "error_code", "status")
_STATUS = ("status_code", "http_status", "http_status_code", "code", "status")
_TYPE = ("type", "error_type", "reason")
_BASE_RESP = {
    "1001": 504,
    "1002": 429,
    "1004": 401,
    "1008": 402,
    "1039": 429,
    "2013": 400,
    "2049": 401,
}
"""MiniMax's codes, which are inside a 200: https://platform.minimax.io/docs/api-reference/errorcode"""

_DEPTH = 6
_DIGITS = 3
"""Digits of a status."""


class Problem(Struct, frozen=True, kw_only=True):
    """message: "" if the vendor sent none. status: of an error inside a 200, 0 if unknown."""

    message: str = ""
    type: str | None = None
    param: str | None = None
    code: str | None = None
    status: int = 0


def problem(body: bytes) -> Problem:
    """Parse an error body. Never raises: a body that is not JSON is treated as text."""
    return _shorten(_read(body, _DEPTH))


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every secret of four characters or more replaced."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return text


def _read(body: bytes | str, depth: int) -> Problem:
    try:
        value = read_json(body)
    except NotJson:
        return Problem(message=_plain(body))
    return _understand(value, depth)


def _understand(value: object, depth: int) -> Problem:
    if depth == 0 or value is None:
        return Problem()
    if isinstance(value, str):
        return _read(value, depth - 1) if value[:1] in ("{", "[", '"') else Problem(message=value)
    if isinstance(value, list):
        return _listed(cast("list[object]", value), depth)
    if isinstance(value, dict):
        return _object(cast("dict[str, object]", value), depth)
    return Problem(message=str(value))


def _object(fields: dict[str, object], depth: int) -> Problem:
    inner = Problem()
    for name in _MESSAGE:
        if fields.get(name):
            inner = _understand(fields[name], depth - 1)
            break
    code = _word(fields, ("status_code",) if "status_msg" in fields else _CODE)
    if "error_code" in fields and inner.code is not None and not inner.code.isdigit():
        code = inner.code  # the inner vendor's code is more specific than BAD_REQUEST
    return Problem(
        message=inner.message,
        type=_word(fields, _TYPE) or inner.type,
        param=_word(fields, ("param",)) or inner.param,
        code=code if code is not None else inner.code,
        status=_status(fields) or inner.status,
    )


def _listed(values: list[object], depth: int) -> Problem:
    """Parse FastAPI's `[{"loc": ["body", "n"], "msg": "…"}]`, or one error in a list."""
    if not values:
        return Problem()
    first = _understand(values[0], depth - 1)
    if isinstance(values[0], dict):
        loc = cast("dict[str, object]", values[0]).get("loc")
        if isinstance(loc, list):
            path = ".".join(_step(step) for step in cast("list[object]", loc) if step != "body")
            return msgspec.structs.replace(
                first, message=f"{path}: {first.message}", param=path, type=None
            )
    return first


def _word(fields: dict[str, object], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)
    return None


def _status(fields: dict[str, object]) -> int:
    if "status_msg" in fields:
        return _BASE_RESP.get(_step(fields.get("status_code")), 0)
    for name in _STATUS:
        text = _step(fields.get(name))
        if len(text) == _DIGITS and text.isascii() and text.isdigit() and 400 <= int(text) < 600:
            return int(text)
    return 0


def _step(value: object) -> str:
    """Return a string or number as text, else "": printing nested values can fail."""
    return str(value) if isinstance(value, str | int) else ""


def _plain(body: bytes | str) -> str:
    """Return text as it is; of an HTML page the title, or the first words without tags."""
    text = body if isinstance(body, str) else body.decode(errors="replace")
    text = text.strip()
    if not text.startswith("<"):
        return text
    start, end = text.lower().find("<title>"), text.lower().find("</title>")
    if 0 <= start < end:
        return text[start + len("<title>") : end].strip()
    words = (piece.rpartition(">")[2] for piece in text[:LONGEST].split("<"))
    return " ".join(" ".join(words).split())


def _shorten(found: Problem) -> Problem:
    message = " ".join(found.message.split()) if "\n" in found.message else found.message
    if len(message) > LONGEST:
        message = message[:LONGEST] + "…"
    return msgspec.structs.replace(found, message=message)
