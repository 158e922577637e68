"""The settings of a configuration: values, defaults and origins, and never a secret."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

import msgspec
import pytest
from msgspec import Struct

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.config.load import read_config
from strowger_gateway.gateway.config.parts.file_type import plain_config, section_types
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.sections import Sections
from strowger_gateway.gateway.config.settings.listing import settings_of
from strowger_gateway.gateway.config.settings.setting import Setting
from strowger_gateway.gateway.config.source_file.written import Written
from strowger_gateway.gateway.config.type_names import Kind, kind_of
from strowger_gateway.gateway.config.yaml_document import lines_of
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tensors import Tensor

TEXT = """\
# The first line
server:
  port: ${PORT}
  host: 127.0.0.1
  max_in_flight: ${MOST:-100}
providers:
  - name: p
    adapter: openai
    api_key: ${OPENAI_KEY}
    headers: {x-team: "${file:team.txt}", authorization: literal-secret-1}
models:
  - {name: chat, backends: [{provider: p, model: m}], retry: {attempts: 2}}
  - name: small
    backends:
      - {provider: p, model: s}
store:
  url: postgresql://ann:password-1@db.example:5432/gateway?sslkey=/x
prices:
  from: catalogue
  rows: [{match: p/m, input: 2, output: 8}]
"""
ENV = {"PORT": "8181", "OPENAI_KEY": "key-of-openai-1"}


def listed(folder: Path, text: str = TEXT, env: Mapping[str, str] = ENV) -> dict[str, Setting]:
    (folder / "team.txt").write_text("secret-of-the-team\n")
    config = read_config(text, source="config.yaml", env=env, folder=folder, parts=PARTS)
    found = list(settings_of(config.written, section_types(PARTS)))
    paths = [one.path for one in found]
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, found, strict=True))


@pytest.mark.parametrize(
    ("path", "value", "default", "origin", "line", "names"),
    [
        ("server.port", "8181", "8080", "environment", 3, ("PORT",)),
        ("server.host", "127.0.0.1", "127.0.0.1", "config", 4, ()),
        ("server.max_in_flight", "100", "4096", "config", 5, ()),
        ("server.workers", "1", "1", "default", None, ()),
        ("server.cors.allow_origins", "[]", "[]", "default", None, ()),
        ("providers[p].api_key", "***", None, "environment", 9, ("OPENAI_KEY",)),
        ("providers[p].headers.x-team", "***", None, "file", 10, ("team.txt",)),
        ("providers[p].headers.authorization", "***", None, "config", 10, ()),
        ("providers[p].base_url", "https://api.openai.com/v1", None, "default", None, ()),
        ("providers[p].timeouts.connect_s", "5", "5", "default", None, ()),
        ("models[chat].retry.attempts", "2", "3", "config", 12, ()),
        ("models[small].retry.attempts", "3", "3", "default", None, ()),
        ("models[small].backends[0].model", "s", None, "config", 15, ()),
        ("store.url", "postgresql://***", "sqlite:///strowger.db", "config", 17, ()),
        ("prices.from", "catalogue", "rows", "config", 19, ()),
        ("prices[0].input", "2", None, "config", 20, ()),
        ("cache", None, None, "default", None, ()),
    ],
)
def test_a_setting_has_its_value_its_default_and_its_origin(
    tmp_path: Path,
    path: str,
    value: str | None,
    default: str | None,
    origin: str,
    line: int | None,
    names: tuple[str, ...],
) -> None:
    found = listed(tmp_path)[path]

    assert (found.value, found.default) == (value, default)
    assert (found.origin, found.line, found.names) == (origin, line, names)


def test_what_the_command_line_replaces_says_so(tmp_path: Path) -> None:
    def override(config: Config) -> Config:
        return msgspec.structs.replace(
            config, server=msgspec.structs.replace(config.server, port=9000)
        )

    (tmp_path / "team.txt").write_text("x")
    config = read_config(
        TEXT, source="config.yaml", env=ENV, folder=tmp_path, override=override, parts=PARTS
    )

    found = {one.path: one for one in settings_of(config.written)}
    assert (found["server.port"].value, found["server.port"].origin) == ("9000", "command_line")
    assert found["server.host"].origin == "config"


def test_an_alias_has_the_line_where_it_is_used_and_its_fields_that_of_the_anchor() -> None:
    lines = lines_of("a: &one\n  x: 1\nb: *one\nc: [p,\n  q]\n")

    assert lines == {
        ("a",): 1, ("a", "x"): 2, ("b",): 3, ("b", "x"): 2, ("c",): 4, ("c", 0): 4, ("c", 1): 5,
    }  # fmt: skip


def test_comments_are_no_change_of_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "team.txt").write_text("x")
    one, other = (
        read_config(text, source="config.yaml", env=ENV, folder=tmp_path, parts=PARTS)
        for text in (TEXT, f"# more\n{TEXT}")
    )

    assert one == other
    moved = next(one for one in settings_of(other.written) if one.path == "server.port")
    assert moved.line == 4


def test_no_secret_is_listed_wherever_a_configuration_may_have_one() -> None:
    planter = Planter()
    config = planter.whole()

    written = Written(file="config.yaml", text="", declared=config, env={})
    shown = msgspec.json.encode(list(settings_of(written, section_types(PARTS)))).decode()

    assert planter.secrets > 20
    assert planter.addresses > 5
    assert "planted" not in shown


class Planter:
    """Builds a configuration in which every secret, every credential among headers and every text
    that may be an address holds a planted one. secrets, addresses: how many."""

    def __init__(self) -> None:
        self.secrets = self.addresses = 0

    def whole(self) -> Config:
        given = {name: self.struct(cls) for name, cls in section_types(PARTS).items()}
        config = plain_config(self.struct(Config))
        return msgspec.structs.replace(config, sections=Sections(given))

    def struct(self, cls: type[Struct]) -> Any:
        values: dict[str, object] = {}
        for field in msgspec.structs.fields(cls):
            kind = kind_of(field.type)
            if kind.struct is not Tensor and "resolved" not in kind.extra:
                values[field.name] = self.value(kind)
        build: Any = cls
        return build(**values)

    def value(self, kind: Kind) -> object:
        if kind.secret:
            self.secrets += 1
            return Secret(f"planted-{self.secrets}")
        if kind.struct is not None:
            return self.struct(kind.struct)
        if kind.item is not None:
            return (self.value(kind_of(kind.item)),)
        if kind.entry is not None:
            return dict(self.entries(kind.entry))
        if str in kind.bare:
            self.addresses += 1
            user = f"user:planted@{self.addresses}@"
            return f"https://{user}host.example:443/path?token=planted-{self.addresses}"
        if kind.words:
            return kind.words[0]
        return 1

    def entries(self, entry: tuple[object, object]) -> Iterator[tuple[object, object]]:
        value = kind_of(entry[1])
        if value.bare and get_origin(value.bare[0]) in (dict, Mapping):
            yield "deep", {"api_key": "planted-deep"}
        elif str in value.bare:
            yield "authorization", "planted-header"
            yield "x-note", "plain"
        else:
            yield ("1" if kind_of(entry[0]).bare == (int,) else "name"), self.value(value)
