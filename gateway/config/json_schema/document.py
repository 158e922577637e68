"""The JSON Schema of a configuration file, from the Structs that `gateway/config/decode.py` fills.

It refuses what the decoder refuses: wrong types, values out of range, unknown and missing keys. It
does not know what depends on several places of a file, such as names that must exist.

Draft 7 (https://json-schema.org/draft-07), because editors implement it completely.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import FieldInfo

from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.config.adapter_names import WITHOUT_WIRE
from strowger_gateway.gateway.config.checks.models import RANGES
from strowger_gateway.gateway.config.json_schema.leaves import (
    DEFINITIONS,
    NULL,
    Schema,
    any_of,
    bounded,
    keys_schema,
    leaf_schemas,
)
from strowger_gateway.gateway.config.parts.file_type import file_type
from strowger_gateway.gateway.config.parts.part import ConfiguredPart
from strowger_gateway.gateway.config.schema.config import Config, Price, Provider
from strowger_gateway.gateway.config.type_names import Kind, kind_of
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tensors import Tensor

DRAFT = "http://json-schema.org/draft-07/schema#"
DESCRIPTIONS = "descriptions.json"
"""In this folder: the meaning of each key by its path, from docs/configuration.md."""
OPERATOR_VALUES = "models[].defaults"
"""Path of the descriptions of request fields, wherever an operator sets them."""


def config_schema(parts: Sequence[ConfiguredPart] = ()) -> Schema:
    """Return the JSON Schema of config.yaml. Adapters of plug-ins are allowed, not suggested.

    parts: bring sections besides those of `config` itself.
    """
    texts = Path(__file__).with_name(DESCRIPTIONS).read_bytes()
    whole = _Structs(msgspec.json.decode(texts, type=dict[str, str])).schema(file_type(parts), "")
    return {
        "$schema": DRAFT,
        "title": "Configuration of the Strowger gateway",
        **whole,
        "definitions": DEFINITIONS,
    }


class _Structs:
    """descriptions: by path, such as `models[].retry.attempts`."""

    def __init__(self, descriptions: Mapping[str, str]) -> None:
        self._descriptions = descriptions

    def schema(self, cls: type[Struct], path: str) -> Schema:
        """Return the schema of a mapping; `path` is "" for the whole file."""
        properties: dict[str, Schema] = {}
        required: list[str] = []
        self._add(cls, path, properties, required)
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }

    def _add(
        self, cls: type[Struct], path: str, properties: dict[str, Schema], required: list[str]
    ) -> None:
        for field in msgspec.structs.fields(cls):
            kind = kind_of(field.type)
            if kind.struct is Tensor or "resolved" in kind.extra:
                continue
            if "flatten" in kind.extra and kind.struct is not None:
                self._add(kind.struct, path, properties, required)
                continue
            at = f"{path}.{field.name}" if path else field.name
            found = any_of(*self._field(cls, field, kind, at))
            text = self._descriptions.get(at) or self._descriptions.get(
                f"{OPERATOR_VALUES}.{field.name}" if _unset(field) else ""
            )
            properties[field.name] = {
                **({"description": text} if text else {}),
                **found,
                **_default(field),
            }
            if field.required:
                required.append(field.name)

    def _field(
        self, cls: type[Struct], field: FieldInfo, kind: Kind, path: str
    ) -> tuple[Schema, ...]:
        """Return the alternatives of a field. An empty container means its default."""
        if issubclass(cls, Config) and kind.item is Price:
            return (*self._values(kind, path), self._catalogue(kind, path), NULL)
        found = self._values(kind, path)
        if cls is Provider and field.name == "adapter":
            known = sorted((*Registry(plugins=()).names, *WITHOUT_WIRE))
            found = ({"enum": known}, *found)  # first, so that editors suggest them
        elif cls is Sampling and field.name in RANGES:
            found = tuple(bounded(one, RANGES[field.name]) for one in found)
        if kind.nullable or (kind.container and not field.required):
            found = (*found, NULL)
        return found

    def _values(self, kind: Kind, path: str) -> tuple[Schema, ...]:
        """Return the alternatives of a value that is present."""
        if kind.struct is not None:
            words = leaf_schemas(kind) if kind.words else ()
            if "shorthand" in kind.extra:
                words = (
                    *words,
                    *self._values(kind_of(msgspec.structs.fields(kind.struct)[0].type), path),
                )
            return (*words, self.schema(kind.struct, path))
        if kind.item is not None:
            return (self._list(kind, path),)
        if kind.entry is not None:
            key, value = (kind_of(one) for one in kind.entry)
            return (
                {
                    "type": "object",
                    **keys_schema(key),
                    "additionalProperties": any_of(*self._values(value, path)),
                },
            )
        return leaf_schemas(kind)

    def _list(self, kind: Kind, path: str) -> Schema:
        least, most = kind.lengths
        return {
            "type": "array",
            "items": any_of(*self._values(kind_of(kind.item), f"{path}[]")),
            **({"minItems": least} if least else {}),
            **({} if most is None else {"maxItems": most}),
        }

    def _catalogue(self, kind: Kind, path: str) -> Schema:
        """Return the schema of `prices` as a mapping (gateway/config/price_source.py)."""
        return {
            "type": "object",
            "properties": {
                "from": {"enum": ["catalogue"]},
                "rows": any_of(*self._values(kind, path), NULL),
            },
            "required": ["from"],
            "additionalProperties": False,
        }


def _unset(field: FieldInfo) -> bool:
    """Return True for a field of requests, which an operator may leave to clients."""
    return field.default is UNSET


def _default(field: FieldInfo) -> Schema:
    """Return `{"default": …}` unless the field is required, unset, or a mapping of defaults."""
    default: object = field.default
    if not isinstance(default, str | bool | int | float | tuple | Secret | None):
        return {}
    value: object = msgspec.json.decode(msgspec.json.encode(default, enc_hook=_plain))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return {"default": value}


def _plain(value: object) -> object:
    """Encode the default of a secret, which is public."""
    if isinstance(value, Secret):
        return value.reveal()
    raise NotImplementedError
