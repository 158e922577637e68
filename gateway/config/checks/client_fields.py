"""Cross-checks of `providers[].client_fields`: a pattern without a match is probably misspelt."""

from collections.abc import Iterator, Mapping

from strowger_gateway.adapters.base import Supports
from strowger_gateway.adapters.client_fields.patterns import PATTERN, covers
from strowger_gateway.gateway.config.adapter_names import WITHOUT_WIRE, Defaults, Installed
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.schemas.close_names import close_names
from strowger_gateway.schemas.fields import FIELDS
from strowger_gateway.schemas.unknown_fields import KNOWN

NEEDED = frozenset({"model", "messages", "prompt", "input", "stream", "n"})
"""Request fields that the gateway itself needs."""
_PLACES = ("messages", "tools", "tool_choice", "response_format")
_ALIKE = 0.8
"""Similarity, 0 to 1, from which a name counts as a misspelling of another."""


def check_client_fields(
    config: Config, problems: Problems, adapters: Mapping[str, Defaults]
) -> None:
    for index, provider in enumerate(config.providers):
        path: Path = ("providers", index, "client_fields")
        if problems.under(("providers", index)) or provider.adapter in WITHOUT_WIRE:
            continue
        rules = provider.client_fields
        for name, patterns in (("allow", rules.allow), ("deny", rules.deny)):
            for place, pattern in enumerate(patterns):
                _shape(pattern, (*path, name, place), problems)
        if not (rules.allow or rules.deny) or problems.under(path):
            continue
        if isinstance(adapters, Installed):
            supports = adapters.supports(provider.adapter, provider.base_url)
            _effect(provider, supports, path, problems)


def _shape(pattern: str, path: Path, problems: Problems) -> None:
    if problems.at(path):
        return
    if not PATTERN.fullmatch(pattern):
        problems.add(
            path,
            Found(pattern),
            " is not a field path; write names joined by dots, [] after a list, "
            "as in messages[].cache_control, and * for any characters of a name",
        )
    elif pattern in NEEDED:
        problems.add(path, Found(pattern), " is a field that every request needs; remove it")


def _effect(provider: Provider, supports: Supports, path: Path, problems: Problems) -> None:
    rules = provider.client_fields
    for place, pattern in enumerate(rules.allow):
        if pattern in rules.deny:
            problems.add(
                (*path, "allow", place), Found(pattern), " is both allowed and denied; give one"
            )
            continue
        withheld = [*_withheld(supports), *rules.deny]
        if not any(covers(one, pattern) or covers(pattern, one) for one in withheld):
            problems.warn(
                (*path, "allow", place),
                Found(pattern),
                " has no effect: no such field is withheld from adapter ",
                Found(provider.adapter),
                _suggestion(pattern, _withheld(supports)),
            )
    for place, pattern in enumerate(rules.deny):
        known = [*_sent(supports), *_withheld(supports)]
        top = pattern.partition(".")[0].partition("[")[0]
        open_ended = "*" in pattern or top in _PLACES
        if any(covers(one, pattern) or covers(pattern, one) for one in known):
            continue
        close = close_names(pattern, [*known, *_nested()], alike=_ALIKE)
        if close and not (open_ended and close[0] == pattern):
            problems.warn(
                (*path, "deny", place),
                Found(pattern),
                f' is not a known field; did you mean "{close[0]}"?',
            )
        elif not supports.extra and not open_ended:
            problems.warn(
                (*path, "deny", place),
                Found(pattern),
                " has no effect: no such field is sent by adapter ",
                Found(provider.adapter),
                nearest(pattern, sorted(known)),
            )


def _withheld(supports: Supports) -> list[str]:
    return [row.path for row in supports.client_fields.table]


def _sent(supports: Supports) -> set[str]:
    """Fields that an operator can deny: known fields, and those of the adapter's list."""
    return set[str]().union(*FIELDS.values(), *supports.extra_fields.values())


def _nested() -> Iterator[str]:
    for place, names in KNOWN.items():
        yield from (f"{place}.{name}" for name in names)


def _suggestion(pattern: str, known: list[str]) -> str:
    close = close_names(pattern, known, alike=_ALIKE)
    return f'; did you mean "{close[0]}"?' if close else ""
