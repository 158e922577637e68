"""The parameters that choose requests, in URLs of the API and of the page alike."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import isfinite, nan
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from strowger_gateway.gateway.storage.sql.request_log.filters import RequestFilter, is_status
from strowger_gateway.gateway.storage.sql.request_log.search import ListPlace
from strowger_gateway.schemas.errors import InvalidRequest

LONGEST: Final = 512
"""Characters of a filter."""

_AGE: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_CLOCK: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_DAY: Final = re.compile(r"[12]\d{7}")
_ZONE: Final = re.compile(r"(:\d\d(?:\.\d+)?) (\d\d:?\d\d)$", re.ASCII)
_LATEST: Final = 253_402_300_800.0
"""The year 10000, Unix seconds."""

TIMES: Final = "Unix seconds, ISO 8601, an age such as `15m`, or `02:50`, the last time in UTC"


def _text(about: str) -> Meta:
    return Meta(max_length=LONGEST, description=about)


class FilterParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What narrows a list of requests; "" does not. See RequestFilter."""

    since: Annotated[str, _text(f"requests that ended from then on: {TIMES}")] = ""
    until: Annotated[str, _text("requests that ended earlier; as `since`")] = ""
    status: Annotated[
        str,
        _text(
            "`failed`, of these `error`, `client_error` or `refused`, `ok`, a class `4xx`, or a "
            "code `429`"
        ),
    ] = ""
    error: Annotated[str, _text("an error code")] = ""
    model: Annotated[str, _text("as configured, or as the client named it")] = ""
    backend: Annotated[str, _text("PROVIDER/MODEL of any attempt")] = ""
    key: Annotated[str, _text("name of an API key")] = ""
    team: Annotated[str, _text("of the key")] = ""
    end_user: Annotated[str, _text("as recorded: a hash")] = ""
    tag: Annotated[str, _text("of the key, or sent with the request")] = ""
    client: Annotated[str, _text("the client program: `claude-code`, `openai-python`, …")] = ""
    experiment: Annotated[str, _text("whose variant was chosen")] = ""
    variant: Annotated[str, _text("of the experiment")] = ""
    surface: Annotated[str, _text("the API: `openai`, `anthropic`, …")] = ""
    id: Annotated[
        str,
        _text("a request id or its beginning, an answer's id, or the client's x-request-id"),
    ] = ""
    stream: Annotated[str, _text("`true` or `false`: whether the answer was streamed")] = ""
    payload: Annotated[str, _text("`true` or `false`: whether its bodies are in the store")] = ""


def filter_of(given: FilterParameters, now: float) -> RequestFilter:
    """Return the filter. now: Unix seconds, for ages. Raises InvalidRequest."""
    if not is_status(given.status):
        raise InvalidRequest(
            f"status: {given.status[:50]!r} is unknown; give failed, error, client_error, refused, "
            "ok, a class such as 4xx, or a code such as 429",
            param="status",
        )
    texts = {
        name: value
        for name in FilterParameters.__struct_fields__
        if name not in _READ and (value := getattr(given, name).strip())
    }
    since, until = time_of("since", given.since, now), time_of("until", given.until, now)
    return msgspec.convert(
        {
            **texts,
            "since": since,
            "until": until,
            "stream": _flag("stream", given.stream),
            "payload": _flag("payload", given.payload),
        },
        RequestFilter,
    )


_READ: Final = ("since", "until", "stream", "payload")


def time_of(name: str, text: str, now: float) -> float | None:
    """Return a time in Unix seconds; `None` for "". Raises InvalidRequest."""
    text = text.strip()
    if not text:
        return None
    for reads in _FORMS:
        found = reads(text, now)
        if found is not None and 0 <= found < _LATEST:
            return found
    raise InvalidRequest(f"{name}: {text[:50]!r} is not a time; give {TIMES}", param=name)


def _age(text: str, now: float) -> float | None:
    found = _AGE.fullmatch(text)
    return None if found is None else max(0.0, now - int(found[1]) * _UNITS[found[2]])


def _clock(text: str, now: float) -> float | None:
    """The last time that it was so late, in UTC."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    at = datetime.fromtimestamp(now, UTC)
    today = at.replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
    return (today if today <= at else today - timedelta(days=1)).timestamp()


def _seconds(text: str, now: float) -> float | None:
    try:
        return float(text) if text[0].isdigit() else None
    except ValueError:
        return None


def _day(text: str, now: float) -> float | None:
    """`20261130` is a day, and not a second in 1970."""
    return _iso(text, now) if _DAY.fullmatch(text) else None


def _iso(text: str, now: float) -> float | None:
    """A time without a zone is UTC. A `+` that was not escaped arrives as a blank."""
    try:
        at = datetime.fromisoformat(_ZONE.sub(r"\1+\2", text))
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


_FORMS: Final[tuple[Callable[[str, float], float | None], ...]] = (
    _age,
    _clock,
    _day,
    _seconds,
    _iso,
)


def _flag(name: str, text: str) -> bool | None:
    match text.strip().lower():
        case "":
            return None
        case "true" | "1" | "yes":
            return True
        case "false" | "0" | "no":
            return False
        case other:
            raise InvalidRequest(
                f"{name}: {other[:50]!r} is not a flag; give true or false", param=name
            )


def cursor_of(text: str) -> ListPlace | None:
    """Return the place that `next` of a list names; `None` for "". Raises InvalidRequest."""
    if not text:
        return None
    seconds, _, request_id = text.partition(",")
    try:
        time = float(seconds)
    except ValueError:
        time = nan
    if not isfinite(time):
        raise InvalidRequest(
            f"after: {text[:50]!r} is not a place in the list; give `next` of an answer",
            param="after",
        )
    return ListPlace(time=time, request_id=request_id)


def text_of(place: ListPlace) -> str:
    """Return the text of a place, which `cursor_of` reads."""
    return f"{place.time!r},{place.request_id}"
