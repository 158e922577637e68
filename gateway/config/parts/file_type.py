"""The type of config.yaml: `Config`, and a field for the section of each part.

What reads the file, and what describes it to editors, sees one Struct, so that the section of a
part has what all others have: messages, hints, relative paths, a schema.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import cast

from msgspec import Struct, defstruct

from strowger_gateway.gateway.config.parts.part import ConfiguredPart
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.sections import Sections
from strowger_gateway.schemas.errors import InvalidConfig


def section_types(parts: Iterable[ConfiguredPart]) -> Mapping[str, type[Struct]]:
    """Return the type of each section by its name.

    Raises InvalidConfig for a name or a type that another section has, because
    `config.section(TYPE)` could not choose, and for a type that can be changed in place.
    """
    found: dict[str, type[Struct]] = {}
    for part in parts:
        name, cls = part.name, part.section
        if cls is None:
            continue
        if name in found or hasattr(Config, name):
            raise InvalidConfig((f"a part brings the section {name!r}, which exists already",))
        if cls in found.values():
            other = next(one for one, known in found.items() if known is cls)
            raise InvalidConfig((f"the sections {other!r} and {name!r} have the same type",))
        if not cls.__struct_config__.frozen:
            raise InvalidConfig((f"the type of the section {name!r} is not frozen",))
        found[name] = cls
    return found


def file_type(parts: Iterable[ConfiguredPart]) -> type[Config]:
    """Return the type of the whole file; a section that is absent is `None`.

    Raises InvalidConfig as `section_types`.
    """
    return _file_type(tuple(section_types(parts).items()))


@cache  # the decoder keeps what it knows of each type
def _file_type(sections: tuple[tuple[str, type[Struct]], ...]) -> type[Config]:
    if not sections:
        return Config
    fields = [(name, cls | None, None) for name, cls in sections]
    return cast(
        "type[Config]",
        defstruct(
            Config.__name__,
            fields,
            bases=(Config,),
            module=__name__,
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
        ),
    )


def plain_config(read: Config) -> Config:
    """Return a value of `file_type` as a `Config` that carries the sections."""
    if type(read) is Config:
        return read
    own = {name: getattr(read, name) for name in Config.__struct_fields__}
    given = {name: getattr(read, name) for name in read.__struct_fields__ if name not in own}
    own["sections"] = Sections({name: one for name, one in given.items() if one is not None})
    return Config(**own)
