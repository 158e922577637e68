"""What a vendor says went wrong, out of the many shapes in which vendors say it.

Known shapes: OpenAI's `{"error": {…}}`, vLLM's older flat one, `{"error": "text"}`, FastAPI's
`{"detail": …}`, `{"message": …}`, Databricks' `{"error_code", "message"}` (whose message can be
JSON again, and hold the error of a vendor behind it), a list around any of them, JSON inside a
JSON string, plain text and HTML.
"""

from collections.abc import Iterable
from typing import cast

import msgspec
from msgspec import Struct

LONGEST = 2000
"""Characters of a vendor's message that we pass on."""

_BEHIND = ("external_model_error", "external_model_message")
"""What Databricks was told by the vendor behind one of its endpoints: the real cause."""

_MESSAGE = (*_BEHIND, "message", "msg", "detail", "error", "error_message", "errors", "description")
_CODE = ("code", "error_code", "status")
_STATUS = ("status_code", "http_status", "http_status_code", "code", "status")
_TYPE = ("type", "error_type", "reason")
_DEPTH = 6
_DIGITS = 3
"""Of a status."""


class Problem(Struct, frozen=True, kw_only=True):
    """message: "" where the vendor gave none. status: of an error inside a 200, 0 if unknown."""

    message: str = ""
    type: str | None = None
    param: str | None = None
    code: str | None = None
    status: int = 0


def problem(body: bytes) -> Problem:
    """Never raises: what cannot be read as JSON is text."""
    return _shorten(_read(body, _DEPTH))


def redacted(text: str, secrets: Iterable[str]) -> str:
    """`text` with every secret of four characters or more replaced."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return text


def _read(body: bytes | str, depth: int) -> Problem:
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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
    code = _word(fields, _CODE)
    if "error_code" in fields and inner.code is not None and not inner.code.isdigit():
        code = inner.code  # the vendor's behind says more than BAD_REQUEST
    return Problem(
        message=inner.message,
        type=_word(fields, _TYPE) or inner.type,
        param=_word(fields, ("param",)) or inner.param,
        code=code if code is not None else inner.code,
        status=_status(fields) or inner.status,
    )


def _listed(values: list[object], depth: int) -> Problem:
    """FastAPI's `[{"loc": ["body", "n"], "msg": "…"}]`, or one problem in a list."""
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
    for name in _STATUS:
        text = _step(fields.get(name))
        if len(text) == _DIGITS and text.isascii() and text.isdigit() and 400 <= int(text) < 600:
            return int(text)
    return 0


def _step(value: object) -> str:
    """A word or a number as text, "" for all else: to print what is nested can fail."""
    return str(value) if isinstance(value, str | int) else ""


def _plain(body: bytes | str) -> str:
    """Text as it is; of an HTML page its title, or its first words without the tags."""
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
