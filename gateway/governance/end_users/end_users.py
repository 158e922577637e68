"""Find the end user of a request, where the configuration says that clients name it."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic_ns
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.gateway.config.model_patterns import covers
from strowger_gateway.gateway.config.schema.budgets import Budget
from strowger_gateway.gateway.config.schema.limits import EndUsers, Limit
from strowger_gateway.gateway.governance.end_users.table import OTHERS, EndUserTable
from strowger_gateway.gateway.governance.limits.limits import PERIODS, SECOND
from strowger_gateway.gateway.governance.limits.scope import RuleIndex, plan_of, subject_of
from strowger_gateway.gateway.routing.request_record import RequestRecord
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Request

LONGEST: Final = 512
"""Bytes of an end user's text in UTF-8."""

NONE: Final = "none"
"""The account of requests that name no end user. No hash is spelled so."""

_DAY: Final = 86_400 * SECOND
_IDLE_OF_BUDGETS: Final = {"day": _DAY, "week": 7 * _DAY, "month": 31 * _DAY, "total": 31 * _DAY}
"""After so long an end user is forgotten, nanoseconds. Its spend is not: that is in the records."""

_LONGEST_JSON: Final = 6 * LONGEST + 2
"""Bytes of the text in JSON, with an escape of six characters for each byte."""

_MOST_KEPT: Final = 4096
"""Combinations of key and model of which it is remembered what applies."""

_text: Final[msgspec.json.Decoder[str | None]] = msgspec.json.Decoder(str | None)

ApplyPlace = tuple[str, str, str, str, str, str]
"""Where a request counts: see `strowger_gateway.gateway.governance.limits.scope.Place`, which has
the end user, too.
"""

Find = Callable[[Request, Mapping[bytes, bytes]], str]
"""Return the end user's text in one place of a request, "" without one."""


class EndUserCounts(Struct):
    """missing: requests without an end user. shared: of end users without an account of their own.

    Both of requests that were held to rules by end user.
    """

    missing: int = 0
    shared: int = 0


class EndUserFinder:
    """Names the end users of one process's requests, over all generations of its configuration.

    any: whether a limit or a budget holds end users apart, so that `find` is needed.
    """

    def __init__(self, clock: Callable[[], int] = monotonic_ns) -> None:
        """clock: nanoseconds."""
        self.any = False
        self.counts = EndUserCounts()
        self.table = EndUserTable(clock=clock)
        self._settings = EndUsers()
        self._finders: tuple[Find, ...] = ()
        self._rules: RuleIndex[Limit | Budget] = RuleIndex(())
        self._applies: dict[ApplyPlace, tuple[int, bool]] = {}

    def configure(
        self, settings: EndUsers, limits: Sequence[Limit], budgets: Sequence[Budget]
    ) -> None:
        """Apply these from now on; end users that are known stay."""
        rules = [one for one in (*limits, *budgets) if one.each == "end_user"]
        self.any = bool(rules)
        self._rules = RuleIndex[Limit | Budget](rules)
        self._applies.clear()
        self.table.most = settings.max_per_key
        self._settings = settings
        self._finders = tuple([_finder(source) for source in settings.sources])

    def find(self, record: RequestRecord, request: Request, headers: Mapping[bytes, bytes]) -> str:
        """Return the name of the account for a request's end user; "" if no rule needs it.

        record: with its caller and its route. Raises InvalidRequest for a text that is too long,
        and for none if one is needed.
        """
        place = (
            record.caller,
            record.route,
            request.model,
            record.team,
            record.user,
            record.plan,
        )
        found = self._applies.get(place)
        idle, pays = self._find_rules(place) if found is None else found
        if not idle:
            return ""
        name = self._name(record.caller, request, headers, idle)
        if pays:
            record.spender = name
        return name

    def would_find(
        self, place: ApplyPlace, request: Request, headers: Mapping[bytes, bytes]
    ) -> str:
        """What `find` would return now, without that anything changes. Raises InvalidRequest."""
        if not self._needs(place)[0]:
            return ""
        text = self._text(request, headers)
        return self.table.would_name(place[0], text) if text else NONE

    def _name(self, key: str, request: Request, headers: Mapping[bytes, bytes], idle: int) -> str:
        text = self._text(request, headers)
        if not text:
            self.counts.missing += 1
            return NONE
        name = self.table.name(key, text, idle)
        if name is OTHERS:
            self.counts.shared += 1
        return name

    def _text(self, request: Request, headers: Mapping[bytes, bytes]) -> str:
        """The end user that the request names; "" if it names none and may."""
        for find in self._finders:
            if text := find(request, headers):
                return text
        if self._settings.missing == "refuse":
            places = " or ".join(map(_shown, self._settings.sources))
            raise InvalidRequest(f"the end user is missing: send {places}", param=self._param())
        return ""

    def _find_rules(self, place: ApplyPlace) -> tuple[int, bool]:
        """The same as `_needs`, which is remembered."""
        if len(self._applies) >= _MOST_KEPT:
            self._applies.clear()
        found = self._applies[place] = self._needs(place)
        return found

    def _needs(self, place: ApplyPlace) -> tuple[int, bool]:
        """How long the end user is remembered, and whether records need it.

        Nanoseconds, or 0 if no rule holds it apart: as long as the caller's rules need, whichever
        models they are for.
        """
        key, route, model, team, user, plan = place
        rules = [
            rule
            for rule in self._rules.of_key(key)
            if subject_of(rule, key, team, user, NONE) is not None and plan_of(rule) in ("", plan)
        ]
        if not any(covers(rule.models, route, model) for rule in rules):
            return 0, False
        idle = [
            PERIODS[one.per] if isinstance(one, Limit) else _IDLE_OF_BUDGETS[one.per]
            for one in rules
        ]
        return max(idle), any(isinstance(one, Budget) for one in rules)

    def _param(self) -> str | None:
        """The first field of the body that may name it."""
        fields = [one for one in self._settings.sources if not one.startswith("header:")]
        return fields[0] if fields else None


def _finder(source: str) -> Find:
    if source == "user":
        return _of_user
    if source == "safety_identifier":
        return _of_safety_identifier
    shown = source.removeprefix("header:").lower()
    field = shown.encode()

    def of_header(_: Request, headers: Mapping[bytes, bytes]) -> str:
        value = headers.get(field)
        if not value:
            return ""
        if len(value) > LONGEST:
            raise _too_long(f"header {shown}", None)
        return value.decode("utf-8", "surrogateescape")

    return of_header


def _of_user(request: Request, _: Mapping[bytes, bytes]) -> str:
    found: object = getattr(request, "user", None)
    if not isinstance(found, str):
        return ""
    if len(found) > LONGEST or (not found.isascii() and _size(found) > LONGEST):
        raise _too_long("user", "user")
    return found


def _of_safety_identifier(request: Request, _: Mapping[bytes, bytes]) -> str:
    extra: Mapping[str, Raw] = getattr(request, "extra", {})
    raw = extra.get("safety_identifier")
    if raw is None:
        return ""
    name = "safety_identifier"
    if len(bytes(raw)) > _LONGEST_JSON:
        raise _too_long(name, name)
    try:
        found = _text.decode(raw) or ""
    except DecodeError:
        raise InvalidRequest(f"{name}: expected a text", param=name) from None
    if _size(found) > LONGEST:
        raise _too_long(name, name)
    return found


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _too_long(place: str, param: str | None) -> InvalidRequest:
    text = f"{place}: an end user has at most {LONGEST} bytes here; send a shorter id or its hash"
    return InvalidRequest(text, param=param)


def _shown(source: str) -> str:
    if source.startswith("header:"):
        return f"the header {source.removeprefix('header:')}"
    if source == "user":
        return "the field user (Messages API: metadata.user_id)"
    return f"the field {source}"
