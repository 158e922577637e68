"""What `GET /admin/config` answers, and which of it is asked for."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Annotated, Final

from msgspec import Meta, Struct

from strowger_gateway.gateway.config.settings.listing import settings_of
from strowger_gateway.gateway.config.settings.setting import Only, Setting
from strowger_gateway.gateway.config.source_file.written import Written
from strowger_gateway.gateway.parts.reload_result import ReloadResult

MOST: Final = 1_000
SHOWN: Final = 200
_FARTHEST: Final = 10_000_000

_Section = Annotated[str, Meta(description="only this top-level key", max_length=64)]
_Search = Annotated[
    str, Meta(description="only settings whose key or value contains this text", max_length=200)
]
_Only = Annotated[
    Only, Meta(description="`set`: only what the file sets; `default`: only what it leaves out")
]
_Limit = Annotated[int, Meta(description="number of settings", ge=1, le=MOST)]
_Offset = Annotated[int, Meta(description="settings to skip", ge=0, le=_FARTHEST)]


class SettingsAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    """Which settings."""

    section: _Section = ""
    search: _Search = ""
    only: _Only = "all"
    limit: _Limit = SHOWN
    offset: _Offset = 0


class ConfigInForce(Struct, frozen=True, kw_only=True):
    """Texts are without secrets. Times are Unix seconds.

    file: its name as given to `strowger serve`. digest: equal in all gateways that run the same.
    since: since when it is in effect. sections: the top-level keys.
    settings: those that are asked for, in the order of docs/configuration.md. total: with those
    that `limit` and `offset` leave out.
    rejected: the last reload if the file that was read then is not in effect.
    reloads: those since the gateway's start, the newest first.
    """

    file: str
    digest: str
    since: float
    sections: tuple[str, ...]
    settings: tuple[Setting, ...]
    total: int
    rejected: ReloadResult | None = None
    reloads: tuple[ReloadResult, ...] = ()


class FoundSettings(Struct, frozen=True, kw_only=True):
    """Settings as in ConfigInForce."""

    sections: tuple[str, ...]
    settings: tuple[Setting, ...]
    total: int


def find(written: Written, parts: Iterable[str], asked: SettingsAsked) -> FoundSettings:
    """Return the settings that are asked for. Slow for thousands of models or keys.

    parts: names of the sections that parts bring.
    """
    sections: dict[str, None] = {}
    total = 0

    def matching() -> Iterator[Setting]:
        nonlocal total
        for one in settings_of(written, parts):
            sections.setdefault(one.section)
            if is_wanted(one, asked):
                total += 1
                yield one

    wanted = matching()
    shown = tuple(islice(wanted, asked.offset, asked.offset + asked.limit))
    for _ in wanted:
        pass  # counts the rest
    return FoundSettings(sections=tuple(sections), settings=shown, total=total)


def is_wanted(one: Setting, asked: SettingsAsked) -> bool:
    """Return whether a setting matches."""
    if asked.section and one.section != asked.section:
        return False
    if asked.only != "all" and (one.origin == "default") != (asked.only == "default"):
        return False
    sought = asked.search.casefold()
    return not sought or sought in one.path.casefold() or sought in (one.value or "").casefold()
