"""A part of the gateway as its configuration sees it; `gateway/parts/part.py` has the whole."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol

from msgspec import Struct

from strowger_gateway.gateway.config.parts.named import named
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config


class ConfiguredPart(Protocol):
    """name: of its section, if it has one. section: the type of the section, a frozen Struct."""

    name: ClassVar[str]
    section: ClassVar[type[Struct] | None]

    def check(self, config: Config, problems: Problems) -> None: ...

    def restart_needed(self, old: Config, new: Config) -> Mapping[str, str]: ...


def restarts_needed(parts: Iterable[ConfiguredPart], old: Config, new: Config) -> tuple[str, ...]:
    """Return one message per setting of a part that cannot change while the gateway runs."""
    found: list[str] = []
    for part in parts:
        with named(part.name, "comparing configurations"):
            found += [f"{name}: {why}" for name, why in part.restart_needed(old, new).items()]
    return tuple(found)
