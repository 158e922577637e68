"""Every relative path of the configuration starts at the folder of its file."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import FieldInfo

from strowger_gateway.gateway.config.decode import Decoder
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.type_names import kind_of
from strowger_gateway.schemas.errors import InvalidConfig
from tests.gateway.config.configs import GOOD, read

FOLDER = Path("/etc/strowger")
NAMES = re.compile(r"(^|_)(dir|directory|file|folder|path|paths|spool|cert|ca|tokenizer)$")
"""Names of settings that are probably paths."""


def structs(cls: type[Struct], seen: set[type[Struct]]) -> Iterator[type[Struct]]:
    """All parts of the configuration."""
    if cls in seen:
        return
    seen.add(cls)
    yield cls
    for field in msgspec.structs.fields(cls):
        for inner in parts(field.type):
            yield from structs(inner, seen)


def parts(annotation: object) -> Iterator[type[Struct]]:
    kind = kind_of(annotation)
    if kind.struct is not None:
        yield kind.struct
    if kind.item is not None:
        yield from parts(kind.item)
    if kind.entry is not None:
        yield from parts(kind.entry[1])


def is_path(field: FieldInfo) -> bool:
    return bool({"path", "model_path"} & set(kind_of(field.type).extra))


ALL = [(cls, field) for cls in structs(Config, set()) for field in msgspec.structs.fields(cls)]
PATHS = [(cls, field) for cls, field in ALL if is_path(field)]


def test_there_are_paths_to_look_at() -> None:
    assert len(PATHS) > 20


@pytest.mark.parametrize(
    ("cls", "field"), PATHS, ids=[f"{cls.__name__}.{field.name}" for cls, field in PATHS]
)
def test_a_given_path_starts_there(cls: type[Struct], field: FieldInfo) -> None:
    whole = Decoder(FOLDER, Problems("c")).struct({field.name: "./some/file"}, cls, ())

    assert getattr(whole, field.name) == str(FOLDER / "some/file")


def test_no_default_is_a_path_that_starts_elsewhere() -> None:
    whole = Decoder(FOLDER, Problems("c")).struct({}, Config, ())
    found = [
        value
        for part in parts_of(whole)
        for field in msgspec.structs.fields(type(part))
        if is_path(field) and isinstance(value := getattr(part, field.name), str) and value
    ]

    assert found == [str(FOLDER / "payloads")]


def parts_of(value: object) -> Iterator[Struct]:
    if isinstance(value, Struct):
        yield value
        for field in msgspec.structs.fields(type(value)):
            yield from parts_of(getattr(value, field.name))


def test_a_setting_that_is_named_like_a_path_is_one() -> None:
    texts = [
        f"{cls.__name__}.{field.name}"
        for cls, field in ALL
        if NAMES.search(field.name)
        and field.type is not int
        and "str" in str(field.type)
        and not is_path(field)
    ]

    assert texts == ["HealthCheck.path"], "of a URL"


def test_the_payloads_and_the_files_in_addresses_start_there(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    config = read(
        f"""{GOOD}
store:
  url: "postgresql://u:p%40ss@db/x?sslmode=verify-full&sslrootcert=ca.pem&sslcert=/a/b.pem"
  redis_url: "rediss://r/0?ssl_ca_certs=ca.pem"
logging: {{payloads: {{mode: all}}}}
""",
        folder=tmp_path,
    )

    assert config.logging.payloads.dir == f"{tmp_path}/payloads"
    assert config.store.url.reveal() == (
        "postgresql://u:p%40ss@db/x?sslmode=verify-full"
        f"&sslrootcert={tmp_path}/ca.pem&sslcert=/a/b.pem"
    )
    assert config.store.redis_url is not None
    assert config.store.redis_url.reveal() == f"rediss://r/0?ssl_ca_certs={tmp_path}/ca.pem"


def test_a_store_that_has_moved_keeps_its_spool_where_it_was() -> None:
    store = "store: {url: postgresql://h/n, moved_from: 'sqlite:///data/old.db'}"

    config = read(f"{GOOD}\n{store}")

    assert config.store.moved_from is not None
    assert config.store.moved_from.reveal().endswith("/data/old.db")
    assert str(config.store.spool).endswith("data/strowger-spool")


@pytest.mark.parametrize(
    ("former", "told"),
    [
        ("mysql://h/n", "must be sqlite:///FILE or postgresql://HOST/NAME"),
        ("postgresql://h/n", "is store.url itself; remove it"),
    ],
)
def test_a_former_store_is_another_database(former: str, told: str) -> None:
    with pytest.raises(InvalidConfig, match=f"store.moved_from: {told}"):
        read(f"{GOOD}\nstore: {{url: postgresql://h/n, moved_from: '{former}'}}")
