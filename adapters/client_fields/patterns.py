"""Which fields outside our schema a client may send through to a backend.

An adapter's table names those that are withheld, each with its reason; the operator's `allow` and
`deny` (`providers[].client_fields`) decide before it. Patterns are paths of schemas.unknown_fields
in which
`*` stands for any characters of one name; a pattern covers all that is inside of what it matches,
and the longer of two that cover a field decides.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Raw, Struct

from schemas.errors import InvalidRequest
from schemas.requests import Request
from schemas.unknown_fields import Unknown, at_top, below_top, inside, parsed

PATTERN = re.compile(r"[^\s.\[\]]+(?:\[\])*(?:\.[^\s.\[\]]+(?:\[\])*)*")
"""What a pattern looks like: names joined by dots, `[]` behind one for each entry of a list."""

OPENED_BY = "the operator can open it with providers[].client_fields.allow"
_ADDRESS = re.compile(r"\s*(?!data:)[A-Za-z][A-Za-z0-9+.-]*:", re.IGNORECASE)


class Withheld(Struct, frozen=True, kw_only=True):
    """One row of an adapter's table.

    path:     a pattern.
    reason:   ends a sentence that begins with the field: "it names another model".
    source:   where the vendor documents the field.
    harmless: values that ask for nothing, and pass.
    address:  only strings that are addresses are withheld: a scheme, and not `data:`.
    optional: left out, and named, where no backend takes it: the answer is the same without it.
    """

    path: str
    reason: str
    source: str
    harmless: tuple[str | bool, ...] = ()
    address: bool = False
    optional: bool = False


class Refused(Struct, frozen=True, kw_only=True):
    """field: its path. reason: ends a sentence that begins with it. optional: see Withheld."""

    field: str
    reason: str
    optional: bool = False


class ClientFields:
    """The rules of one backend. allow, deny: the operator's patterns."""

    def __init__(
        self,
        table: Sequence[Withheld] = (),
        *,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> None:
        self.table = tuple(table)
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self._operators = sorted(
            [
                *((_weight(one), False, _covering(one)) for one in deny),
                *((_weight(one), True, _covering(one)) for one in allow),
            ],
            key=_longest_first,
        )
        self._named = _either(one.path for one in table)
        self._rows = [(_covering(one.path), one) for one in table]
        self._further = _either(
            (prefix for one in (*self._paths(), *allow, *deny) for prefix in _prefixes(one)),
            whole=True,
        )

    def refused(
        self, request: Request, below: Sequence[Unknown] | None = None
    ) -> tuple[Refused, ...]:
        """What this backend does not get of the request, by path. Empty is the common case.

        below: `below_top` of the request, where it is known.
        """
        found: dict[str, Refused] = {}
        try:
            for unknown in (*at_top(request), *(below_top(request) if below is None else below)):
                for one in self._judged(unknown.path, unknown.value)[0]:
                    found.setdefault(one.field, one)
        except InvalidRequest as exc:
            field = exc.param or "messages"
            return (Refused(field=field, reason="is nested too deeply"),)
        return tuple(found.values())

    def verdict(self, path: str) -> Withheld | None:
        """Why a field is not passed on, whatever its value; `None`: it is."""
        for _, allowed, covering in self._operators:
            if covering.fullmatch(path):
                return None if allowed else _DENIED
        if self._named.fullmatch(path) is None:
            return None
        return next((row for covering, row in self._rows if covering.fullmatch(path)), None)

    def _paths(self) -> Iterator[str]:
        return (one.path for one in self.table)

    def _judged(self, path: str, value: Raw | object) -> tuple[list[Refused], bool]:
        """What is refused at the path and inside, and whether that is all there is."""
        why = self.verdict(path)
        deeper = self._further.fullmatch(path) is not None
        if not deeper and (why is None or not (why.harmless or why.address)):
            return ([] if why is None else [_refused(path, why)]), why is not None
        if isinstance(value, Raw):
            value = parsed(value, path)
        found: dict[str, Refused] = {}
        whole, leaf = True, True
        for place, inner in inside(value, path):
            leaf = False
            some, all_of_it = self._judged(place, inner)
            found.update((one.field, one) for one in some)
            whole = whole and all_of_it
        if leaf:
            whole = why is not None and not _passes(value, why)
            return ([_refused(path, why)] if whole and why is not None else []), whole
        if whole and why is not None:
            return [_refused(path, why)], True
        return list(found.values()), whole


@lru_cache(maxsize=256)
def opened(rules: ClientFields, allow: tuple[str, ...], deny: tuple[str, ...]) -> ClientFields:
    """The rules with the operator's own."""
    return ClientFields(rules.table, allow=allow, deny=deny)


def covers(pattern: str, path: str) -> bool:
    """The pattern matches the path, or something that it is inside of."""
    return _covering(pattern).fullmatch(path) is not None


DENIED = "the operator denies it (providers[].client_fields.deny)"
_DENIED = Withheld(path="*", reason=DENIED, source="")


def _refused(path: str, why: Withheld) -> Refused:
    ending = "" if why is _DENIED else f"; {OPENED_BY}"
    return Refused(
        field=path, reason=f"is not passed on: {why.reason}{ending}", optional=why.optional
    )


def _passes(value: object, why: Withheld) -> bool:
    if why.address and not (isinstance(value, str) and _ADDRESS.match(value)):
        return True
    if value is None:
        return True
    return any(value is one or (isinstance(one, str) and value == one) for one in why.harmless)


def _longest_first(rule: tuple[tuple[int, int], bool, object]) -> tuple[int, int, bool]:
    """Of two that are as long, the one that denies comes first."""
    (names, characters), allowed, _ = rule
    return -names, -characters, allowed


def _weight(pattern: str) -> tuple[int, int]:
    """Names, then characters that are no wildcard."""
    return pattern.count(".") + pattern.count("[]") + 1, len(pattern.replace("*", ""))


@lru_cache(maxsize=4096)
def _matching(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", r"[^.\[\]]*")


def _covering(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{_matching(pattern)}(?:[.\[].*)?", re.DOTALL)


def _either(patterns: Iterable[str], *, whole: bool = False) -> re.Pattern[str]:
    """Any of them; with `whole` nothing that is inside of what they match."""
    either = "|".join(sorted({_matching(one) for one in patterns}))
    tail = "" if whole else r"(?:[.\[].*)?"
    return re.compile(rf"(?:{either}){tail}" if either else r"(?!)", re.DOTALL)


def _prefixes(pattern: str) -> Iterator[str]:
    """The places that the pattern's own is inside of."""
    for found in re.finditer(r"\.|\[\]", pattern):
        if found.start():
            yield pattern[: found.start()]
