"""Settings that config.yaml describes and this version does not support: rejected, not ignored.

Delete a row when its feature is built.
"""

from collections.abc import Iterator
from typing import cast

from msgspec import Struct

from gateway.config.problems import Path, Problems
from gateway.config.schema.config import Config


class UnsupportedSetting(Struct, frozen=True):
    """path: `[]` after a field means each item of its list. allowed: the supported values."""

    path: str
    allowed: tuple[object, ...]
    what: str
    remedy: str = "remove it"


UNSUPPORTED: tuple[UnsupportedSetting, ...] = (
    UnsupportedSetting("logging.payloads", ("off",), "logging payloads"),
)


def reject_unsupported(config: Config, problems: Problems) -> None:
    for row in UNSUPPORTED:
        for path, value in _at(config, row.path.split("."), ()):
            if value not in row.allowed and not problems.at(path):
                problems.add(path, f"{row.what} is not available yet; {row.remedy}")


def _at(value: object, steps: list[str], path: Path) -> Iterator[tuple[Path, object]]:
    if not steps or value is None:
        if not steps:
            yield path, value
        return
    name, *rest = steps
    field = name.removesuffix("[]")
    inner: object = getattr(value, field)
    if not name.endswith("[]"):
        yield from _at(inner, rest, (*path, field))
    elif isinstance(inner, tuple):
        for index, item in enumerate(cast("tuple[object, ...]", inner)):
            yield from _at(item, rest, (*path, field, index))
