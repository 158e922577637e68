"""docs/configuration.md lists exactly the keys that the code knows, with their defaults."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.decode import Decoder
from strowger_gateway.gateway.config.parts.file_type import file_type
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import RequestFields
from strowger_gateway.gateway.config.schema.experiment import VariantFields
from strowger_gateway.gateway.config.type_names import kind_of
from strowger_gateway.gateway.config.yaml_document import parse
from strowger_gateway.schemas.sampling import Sampling

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"
ROW = re.compile(r"^\| `(?P<key>[a-z0-9_]+)` \| (?P<rest>.*) \|$", re.MULTILINE)
OPERATOR_VALUES = "`models[].defaults` and `models[].overrides`"


def structs(cls: type[Struct], path: str) -> Iterator[tuple[str, type[Struct]]]:
    """Every Struct of the file by its path, as in the headings of the document."""
    yield path, cls
    for field in fields(cls):
        kind = kind_of(field.type)
        inner = kind_of(kind.item) if kind.item is not None else kind
        if inner.struct is not None and inner.struct not in (RequestFields, VariantFields):
            place = f"{path}.{field.name}".lstrip(".") + ("[]" if kind.item is not None else "")
            yield from structs(inner.struct, place)


def fields(cls: type[Struct]) -> list[FieldInfo]:
    """The fields that a file can set."""
    found = msgspec.structs.fields(cls)
    return [field for field in found if "resolved" not in kind_of(field.type).extra]


STRUCTS = dict(structs(file_type(PARTS), ""))


def section(heading: str) -> str:
    _, _, after = DOCUMENT.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert after, f"no section {heading}"
    return after.partition("\n## ")[0]


def rows(path: str) -> Mapping[str, list[str]]:
    """The cells of each row by key."""
    text = section(f"`{path}`" if path else "Top-level keys")
    return {row["key"]: row["rest"].split(" | ") for row in ROW.finditer(text)}


@pytest.mark.parametrize("path", STRUCTS)
def test_every_key_is_documented_in_the_order_of_the_code(path: str) -> None:
    assert list(rows(path)) == [field.name for field in fields(STRUCTS[path])]


@pytest.mark.parametrize("path", STRUCTS)
def test_every_documented_default_is_the_codes(path: str) -> None:
    cls = STRUCTS[path]
    cells = {key: cell for key, (_, cell, *_) in rows(path).items()}
    given = {key: cell.strip("`") for key, cell in cells.items() if cell != "required"}
    tree = parse("".join(f"{key}: {cell}\n" for key, cell in given.items()), Problems(""))

    documented = Decoder(Path(), Problems("")).struct(tree or {}, cls, ())

    for field in fields(cls):
        assert (cells[field.name] == "required") == (field.default is NODEFAULT and field.required)
        if not field.required:
            assert getattr(documented, field.name) == _default(field), field.name


def test_nothing_is_documented_as_not_available_yet() -> None:
    said = {
        f"{path}.{key}".lstrip(".")
        for path in STRUCTS
        for key, cells in rows(path).items()
        if "ot available yet" in cells[-1]
    }

    assert said == set()


def test_every_operator_value_is_documented() -> None:
    own = [name for name in RequestFields.__struct_fields__ if name != "sampling"]
    sampling = [name for name in Sampling.__struct_fields__ if name != "embedding_bias"]

    documented = [row["key"] for row in ROW.finditer(section(OPERATOR_VALUES))]

    assert documented == [*sampling, *own]


def _default(field: msgspec.structs.FieldInfo) -> object:
    if field.default is not NODEFAULT:
        return field.default
    assert callable(field.default_factory)
    return field.default_factory()
