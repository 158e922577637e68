"""Decides which fields outside our schema a client may send through to a backend.

An adapter's table lists the withheld fields, each with its reason; the operator's `allow` and
`deny` (`providers[].client_fields`) take precedence. Patterns are paths of
schemas/unknown_fields.py in which `*` matches any characters of one name; a pattern also covers
everything inside its matches, and of several that cover a field the longest applies.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Raw, Struct

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.requests import Request
from strowger_gateway.schemas.unknown_fields import Unknown, at_top, below_top, inside, parsed

PATTERN = re.compile(r"[^\s.\[\]]+(?:\[\])*(?:\.[^\s.\[\]]+(?:\[\])*)*")
"""A pattern: names joined by dots, with `[]` after a name for each entry of a list."""

OPENED_BY = "the operator can allow it with providers[].client_fields.allow"
_ADDRESS = re.compile(r"\s*(?!data:)[A-Za-z][A-Za-z0-9+.-]*:", re.IGNORECASE)


class Withheld(Struct, frozen=True, kw_only=True):
    """One row of an adapter's table.

    path:     a pattern.
    reason:   completes a sentence that begins with the field: "it names another model".
    source:   where the vendor documents the field.
    harmless: values without effect, which are allowed.
    address:  only addresses are withheld: strings with a scheme other than `data:`.
    optional: omitted and reported if no backend accepts it: the answer is the same without it.
    """

    path: str
    reason: str
    source: str
    harmless: tuple[str | bool, ...] = ()
    address: bool = False
    optional: bool = False


class Refused(Struct, frozen=True, kw_only=True):
    """field: its path. reason: completes a sentence about it. optional: see Withheld."""

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
        self._named = _first_of([one.path for one in table])
        self._further = _either(
            prefix for one in (*self._paths(), *allow, *deny) for prefix in _prefixes(one)
        )

    def refused(
        self, request: Request, below: Sequence[Unknown] | None = None
    ) -> tuple[Refused, ...]:
        """Return the fields that this backend does not get, by path; commonly empty.

        below: `below_top` of the request, if known.
        """
        found: dict[str, Refused] = {}
        try:
            for unknown in (*at_top(request), *(below_top(request) if below is None else below)):
                for one in self._check(unknown.path, unknown.value)[0]:
                    found.setdefault(one.field, one)
        except InvalidRequest as exc:
            field = exc.param or "messages"
            return (Refused(field=field, reason="is nested too deeply"),)
        return tuple(found.values())

    def verdict(self, path: str) -> Withheld | None:
        """Return why a field is not forwarded, whatever its value; `None`: it is."""
        for _, allowed, covering in self._operators:
            if covering.fullmatch(path):
                return None if allowed else _DENIED
        found = self._named.fullmatch(path)
        return None if found is None or not found.lastindex else self.table[found.lastindex - 1]

    def _paths(self) -> Iterator[str]:
        return (one.path for one in self.table)

    def _check(self, path: str, value: Raw | object) -> tuple[list[Refused], bool]:
        """Return what is refused at the path and inside it, and whether that is everything."""
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
            some, all_of_it = self._check(place, inner)
            found.update((one.field, one) for one in some)
            whole = whole and all_of_it
        if leaf:
            whole = why is not None and not _passes(value, why)
            return ([_refused(path, why)] if whole and why is not None else []), whole
        if whole and why is not None:
            return [_refused(path, why)], True
        return list(found.values()), whole


@lru_cache(maxsize=256)
def allowed(path: str, allow: Sequence[str], deny: Sequence[str]) -> bool | None:
    """Return whether patterns allow (true) or deny (false) a path; `None` if none covers it."""
    if any(covers(pattern, path) for pattern in deny):
        return False
    return True if any(covers(pattern, path) for pattern in allow) else None


def opened(rules: ClientFields, allow: tuple[str, ...], deny: tuple[str, ...]) -> ClientFields:
    """Return the rules with the operator's own added."""
    return ClientFields(rules.table, allow=allow, deny=deny)


def covers(pattern: str, path: str) -> bool:
    """Return whether the pattern matches the path or a parent of it."""
    return _covering(pattern).fullmatch(path) is not None


DENIED = "the operator denies it (providers[].client_fields.deny)"
_DENIED = Withheld(path="*", reason=DENIED, source="")


def _refused(path: str, why: Withheld) -> Refused:
    ending = "" if why is _DENIED else f"; {OPENED_BY}"
    return Refused(
        field=path, reason=f"is not forwarded: {why.reason}{ending}", optional=why.optional
    )


def _passes(value: object, why: Withheld) -> bool:
    if why.address and not (isinstance(value, str) and _ADDRESS.match(value)):
        return True
    if value is None:
        return True
    return any(value is one or (isinstance(one, str) and value == one) for one in why.harmless)


def _longest_first(rule: tuple[tuple[int, int], bool, object]) -> tuple[int, int, bool]:
    """Sort by length; of two equally long, the one that denies comes first."""
    (names, characters), allowed, _ = rule
    return -names, -characters, allowed


def _weight(pattern: str) -> tuple[int, int]:
    """Return the number of names, then of characters other than wildcards."""
    return pattern.count(".") + pattern.count("[]") + 1, len(pattern.replace("*", ""))


@lru_cache(maxsize=4096)
def _matching(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", r"[^.\[\]]*")


def _covering(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{_matching(pattern)}(?:[.\[].*)?", re.DOTALL)


def _first_of(patterns: Sequence[str]) -> re.Pattern[str]:
    """Match what the patterns cover. The match's `lastindex` counts from 1: the first that covers.

    One expression for all: one for each row would be 400 kB over the adapters.
    """
    either = "|".join(f"({_matching(one)})" for one in patterns)
    return re.compile(rf"(?:{either})(?:[.\[].*)?" if either else r"(?!)", re.DOTALL)


def _either(patterns: Iterable[str]) -> re.Pattern[str]:
    """Match any of the patterns, but nothing inside their matches."""
    either = "|".join(sorted({_matching(one) for one in patterns}))
    return re.compile(rf"(?:{either})" if either else r"(?!)", re.DOTALL)


def _prefixes(pattern: str) -> Iterator[str]:
    """Yield the parent paths of the pattern."""
    for found in re.finditer(r"\.|\[\]", pattern):
        if found.start():
            yield pattern[: found.start()]
