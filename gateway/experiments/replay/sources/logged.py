"""A logged payload as a prompt: the body that a client sent, if it is whole and unchanged."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.experiments.replay.definition import REQUEST_ID
from strowger_gateway.gateway.experiments.replay.prompts import (
    Api,
    ReplayedPrompt,
    Unusable,
    prompt_of,
)

_APIS: Final[Mapping[tuple[str, str], Api]] = {
    ("openai", "chat"): "chat",
    ("openai", "completion"): "completions",
    ("databricks", "chat"): "chat",
    ("databricks", "completion"): "completions",
    ("anthropic", "chat"): "messages",
    ("responses", "chat"): "responses",
}
"""By surface and task."""


class LoggedPayload(Struct, frozen=True, kw_only=True):
    """What replay reads of a payload's record; see payloads/record.py."""

    surface: str
    task: str = ""
    model: str = ""
    status: int = 200
    client_request_id: str = ""
    request: object = None
    truncated: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()


def prompt_of_payload(
    record: LoggedPayload, unit: str = "", replacements: Sequence[str] = ()
) -> ReplayedPrompt:
    """Return what a logged request asks. unit: of its experiment, if it was enrolled.

    replacements: what redaction puts in the place of what it removes. Raises Unusable.
    """
    if record.client_request_id.startswith(REQUEST_ID):
        raise Unusable("", "a request of a replay")
    if record.status >= 400:
        raise Unusable("status", "the request failed")
    if "request" in record.omitted:
        raise Unusable("omitted", "its body is not in the log")
    if "request" in record.truncated:
        raise Unusable("truncated", "its body is cut")
    if not isinstance(record.request, dict):
        raise Unusable("request", "its body is not in the log")
    api = _APIS.get((record.surface, record.task or "chat"))
    if api is None:
        raise Unusable("surface", "not a conversation or a text on an API that replay speaks")
    body = cast("dict[str, object]", record.request)
    asked = {name: value for name, value in body.items() if name not in _NOT_ASKED}
    if _has(asked, replacements):
        raise Unusable("request", "redaction has changed it")
    known = {
        name: value
        for name, value in body.items()
        if name in asked or not _has(value, replacements)
    }
    return prompt_of(api, known, unit)


_NOT_ASKED: Final = ("user", "metadata", "safety_identifier", "prompt_cache_key")
"""Fields that do not reach a model, and may be redacted."""


def _has(value: object, texts: Sequence[str]) -> bool:
    if not texts:
        return False
    if isinstance(value, str):
        return any(text and text in value for text in texts)
    if isinstance(value, dict):
        items = cast("Mapping[str, object]", value).items()
        return any(_has(name, texts) or _has(one, texts) for name, one in items)
    if isinstance(value, list):
        return any(_has(one, texts) for one in cast("list[object]", value))
    return False


_record = msgspec.json.Decoder(LoggedPayload).decode


def read_record(data: str | bytes) -> LoggedPayload:
    """Read a record as it is stored or exported. Raises msgspec.DecodeError."""
    return _record(data)
