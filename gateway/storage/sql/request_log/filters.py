"""Which recorded requests an operator wants to see."""

import re
from collections.abc import Collection
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.rows import RecordedFields
from strowger_gateway.gateway.storage.sql.traffic.counting import Outcome, outcome_of

ABORTED: Final = 499
"""The status of a request whose client disconnected: neither answered nor failed."""

ID_PREFIX: Final = 8
"""Characters of a request id that are enough to find it. Less would stand for a minute or more."""

_WRITTEN: Final = re.compile(r"(?:[a-z]+[-_])?([0-9a-f]{8}[0-9a-f-]{0,28})(?:_\d+)?", re.IGNORECASE)
_DASHES: Final = (8, 12, 16, 20)

StatusWord = Literal["ok", "failed", "error", "client_error", "refused"]
"""`failed` is `error`, what went wrong at backends or here, `client_error`, what clients sent
wrongly, and `refused`, what the operator's own rules refused. Charts of traffic divide them
the same way."""


class RequestFilter(Struct, frozen=True, kw_only=True):
    """Every field narrows; "" and `None` do not.

    since, until: of the end of a request, Unix seconds; the first included, the second not.
    status:     a StatusWord, a class such as `4xx`, or a code such as `429`.
    error:      the error code.
    model:      as configured, or as the client named it.
    backend:    PROVIDER/MODEL of any attempt, but for copies to mirrors.
    variant:    of the experiment.
    end_user:   as recorded: a hash. tag: of the key, or sent with the request.
    client:     the client program.
    surface:    the API: `openai`, `anthropic`, ….
    id:         the request id or its first ID_PREFIX characters or more, as `request_id_of` reads
                it, or the whole x-request-id of the client.
    payload:    whether its bodies are in the store.
    """

    since: float | None = None
    until: float | None = None
    status: str = ""
    error: str = ""
    model: str = ""
    backend: str = ""
    key: str = ""
    team: str = ""
    end_user: str = ""
    tag: str = ""
    client: str = ""
    experiment: str = ""
    variant: str = ""
    surface: str = ""
    id: str = ""
    stream: bool | None = None
    payload: bool | None = None


def is_status(text: str) -> bool:
    """Return whether a text can be the status of a filter."""
    if text in ("", "ok", "failed", "error", "client_error", "refused"):
        return True
    if len(text) != 3 or text[0] not in "12345":
        return False
    return text[1:] == "xx" or (text.isascii() and text.isdigit())


def is_failed(row: RecordedFields) -> bool:
    """Return whether the client got no whole answer, and did not leave by itself."""
    return (row.status >= 400 and row.status != ABORTED) or (row.status < 400 and row.error != "")


def is_error(row: RecordedFields) -> bool:
    """Return whether something went wrong: 5xx, a broken answer, or 429 because of backends."""
    return _outcome(row) == "failed"


def _outcome(row: RecordedFields) -> Outcome:
    return outcome_of(row.status, row.error, row.route, tried=row.backend != "")


def matches(wanted: RequestFilter, row: RecordedFields, tried: Collection[str] = ()) -> bool:
    """Return whether a request passes, but for `payload`, which is not in its row.

    tried: the backends of its attempts.
    """
    return (
        (wanted.since is None or row.time >= wanted.since)
        and (wanted.until is None or row.time < wanted.until)
        and _has_status(wanted.status, row)
        and wanted.error in ("", row.error)
        and (not wanted.model or wanted.model in (row.route, row.model))
        and (not wanted.backend or wanted.backend == row.backend or wanted.backend in tried)
        and wanted.key in ("", row.key)
        and wanted.team in ("", row.team)
        and wanted.end_user in ("", row.end_user)
        and (not wanted.tag or wanted.tag in row.tags or wanted.tag in row.request_tags)
        and wanted.client in ("", row.client)
        and wanted.experiment in ("", row.experiment)
        and wanted.variant in ("", row.variant)
        and wanted.surface in ("", row.surface)
        and _has_id(wanted.id, row)
        and wanted.stream in (None, row.stream)
    )


def request_id_of(text: str) -> str:
    """Return the request id, or its beginning, that a text stands for; a text without one as it is.

    That is the id of an answer, such as `chatcmpl-01A2…` or `msg_01a2…_0`, which is what clients
    have at hand, and an id in capitals or without dashes.
    """
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return text
    digits = found[1].lower().replace("-", "")
    ends = (*(end for end in _DASHES if end < len(digits)), len(digits))
    return "-".join(digits[begin:end] for begin, end in pairwise((0, *ends)))


def _has_id(wanted: str, row: RecordedFields) -> bool:
    if wanted in ("", row.client_request_id):
        return True
    own = request_id_of(wanted)
    return row.request_id == own or (len(own) >= ID_PREFIX and row.request_id.startswith(own))


def _has_status(wanted: str, row: RecordedFields) -> bool:
    match wanted:
        case "":
            return True
        case "ok":
            return row.status < 400 and not row.error
        case "failed":
            return is_failed(row)
        case "error":
            return is_error(row)
        case "client_error" | "refused":
            return _outcome(row) == wanted
        case _ if wanted.endswith("xx"):
            return row.status // 100 == int(wanted[0])
        case _:
            return row.status == int(wanted)
