"""The formats by name."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.cli.agents.documents.document import FileFormat, FileFormatName
from strowger_gateway.gateway.cli.agents.documents.env_lines import EnvLines
from strowger_gateway.gateway.cli.agents.documents.json_text import JsonText
from strowger_gateway.gateway.cli.agents.documents.marks import Marked
from strowger_gateway.gateway.cli.agents.documents.toml_lines import TomlLines
from strowger_gateway.gateway.cli.agents.documents.yaml_text import YamlText

FORMATS: Final[Mapping[FileFormatName, FileFormat]] = {
    "json": Marked(JsonText()),
    "toml": Marked(TomlLines()),
    "yaml": Marked(YamlText()),
    "env": Marked(EnvLines()),
}
