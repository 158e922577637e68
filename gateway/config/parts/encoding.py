"""How a configuration is sent between processes: hooks of msgspec for what is not a Struct."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.parts.file_type import section_types
from strowger_gateway.gateway.config.parts.part import ConfiguredPart
from strowger_gateway.gateway.config.sections import Sections
from strowger_gateway.gateway.config.source_file.written import NOT_WRITTEN, Written
from strowger_gateway.schemas.secret import Secret


def to_plain(value: object) -> object:
    """Encode a secret, the sections of parts, or what the file is. For encoders: `enc_hook`."""
    match value:
        case Secret():
            return value.reveal()
        case Sections():
            return dict(value)
        case Written():
            return None  # the process that has read the file keeps its text
        case _:
            raise NotImplementedError(f"{type(value)} cannot be sent between processes")


def from_plain(parts: Iterable[ConfiguredPart]) -> Callable[[type, object], object]:
    """Return what decodes a secret, or the sections of these parts. For decoders: `dec_hook`.

    Raises InvalidConfig for parts whose sections exclude each other.
    """
    types = section_types(parts)

    def decoded(kind: type, value: object) -> object:
        if kind is Secret and isinstance(value, str):
            return Secret(value)
        if kind is Written:
            return NOT_WRITTEN
        if kind is Sections:
            given = msgspec.convert(value, dict[str, object])
            return Sections({name: section(name, one) for name, one in given.items()})
        raise NotImplementedError(f"{kind} cannot be sent between processes")

    def section(name: str, value: object) -> Struct:
        cls = types.get(name)
        if cls is None:
            raise NotImplementedError(f"no part has the section {name!r}")
        return msgspec.convert(value, cls, dec_hook=decoded)

    return decoded
