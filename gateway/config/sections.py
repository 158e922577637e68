"""Sections of config.yaml that parts bring, as `Config` carries them."""

from collections.abc import Iterator, Mapping
from typing import TypeVar, final

from msgspec import Struct

SectionT = TypeVar("SectionT", bound=Struct)


@final
class Sections(Mapping[str, Struct]):
    """The sections that the file has, by name; each is of another type.

    Not a Struct, because `config` knows none of the types: `gateway/config/parts/encoding.py`
    says how processes send them.
    """

    __slots__ = ("_by_name", "_by_type")

    def __init__(self, sections: Mapping[str, Struct]) -> None:
        self._by_name = dict(sections)
        self._by_type = {type(one): one for one in sections.values()}

    def of(self, cls: type[SectionT]) -> SectionT | None:
        """Return the section of this type; `None` if the file has none."""
        found = self._by_type.get(cls)
        return found if isinstance(found, cls) else None

    def __getitem__(self, name: str) -> Struct:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"Sections({self._by_name!r})"


NO_SECTIONS = Sections({})
