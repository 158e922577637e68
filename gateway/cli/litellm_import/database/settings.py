"""The models and settings that LiteLLM keeps in its database, as they would be in its file."""

from collections.abc import Mapping, Sequence
from typing import Final

from strowger_gateway.gateway.cli.litellm_import.database.ciphertexts import (
    decrypted,
    looks_encrypted,
)
from strowger_gateway.gateway.cli.litellm_import.database.reading import (
    LiteLLMDatabase,
    document,
    text,
)
from strowger_gateway.gateway.cli.litellm_import.ledger import Listed, mapping
from strowger_gateway.gateway.config.yaml_document import Tree

_SECTIONS: Final = ("general_settings", "router_settings", "litellm_settings")
_ENVIRONMENT: Final = "environment_variables"
_NO_KEY: Final = (
    "is encrypted",
    "give --salt-key, LITELLM_SALT_KEY or else the master key, and import again",
)
_OTHER_KEY: Final = (
    "the salt key does not decrypt it",
    "give the LITELLM_SALT_KEY, or else the master key, of the proxy that wrote it",
)


class StoredSettings:
    """Merges the rows into a document. variables: of the environment, which LiteLLM sets itself."""

    def __init__(self, database: LiteLLMDatabase, salt_key: str) -> None:
        self._database = database
        self._salt_key = salt_key
        self.listed: list[Listed] = []
        self.variables: dict[str, str] = {}

    def merged(self, tree: Tree) -> dict[str, Tree]:
        """Return the file's document with what the database adds, which wins over the file."""
        found = dict(mapping(tree))
        for row in self._database.rows("Config"):
            name, value = text(row, "param_name"), mapping(row.get("param_value"))
            if name == _ENVIRONMENT:
                self._variables(value)
            elif name in _SECTIONS:
                found[name] = {**mapping(found.get(name)), **value}
            elif value:
                self._list(f"Config.{name}", "has no counterpart", "see docs/configuration.md")
        credentials: list[Tree] = [
            {
                "credential_name": text(row, "credential_name"),
                "credential_values": self._opened(
                    document(row, "credential_values"),
                    f"credential {text(row, 'credential_name')}",
                ),
                "credential_info": dict(document(row, "credential_info")),
            }
            for row in self._database.rows("CredentialsTable")
        ]
        if credentials:
            found["credential_list"] = [*_items(found.get("credential_list")), *credentials]
        models: list[Tree] = []
        for row in self._database.rows("ProxyModelTable"):
            name = text(row, "model_name")
            if row.get("blocked") is True:
                self._list(f"model {name}", "is blocked", "add it to config.yaml to use it")
                continue
            entry: dict[str, Tree] = {
                "model_name": name,
                "litellm_params": self._opened(document(row, "litellm_params"), f"model {name}"),
            }
            info: dict[str, Tree] = {
                key: value
                for key, value in document(row, "model_info").items()
                if key not in ("id", "db_model") and value is not None
            }
            if info:
                entry["model_info"] = info
            models.append(entry)
        if models:
            found["model_list"] = [*_items(found.get("model_list")), *models]
        return found

    def _variables(self, values: Mapping[str, Tree]) -> None:
        for name, value in values.items():
            opened = self._text(value, f"Config.{_ENVIRONMENT}.{name}")
            if isinstance(opened, str):
                self.variables[name] = opened

    def _opened(self, values: Mapping[str, Tree], whose: str) -> dict[str, Tree]:
        """Decrypt each text; those that cannot be are listed and left out."""
        found: dict[str, Tree] = {}
        for name, value in values.items():
            opened = self._text(value, f"{whose}.{name}")
            if opened is not None:
                found[name] = opened
        return found

    def _text(self, value: Tree, path: str) -> Tree:
        if not isinstance(value, str) or not looks_encrypted(value):
            return value
        if not self._salt_key:
            self._list(path, *_NO_KEY)
            return None
        opened = decrypted(value, self._salt_key)
        if opened is None:
            self._list(path, *_OTHER_KEY)
        return opened

    def _list(self, path: str, reason: str, remedy: str) -> None:
        self.listed.append(Listed(path if path.isprintable() else ascii(path), reason, remedy))


def access_groups(tree: Tree) -> Mapping[str, Sequence[str]]:
    """Return the names of models by access group, of `model_info.access_groups`."""
    found: dict[str, list[str]] = {}
    for entry in _items(mapping(tree).get("model_list")):
        model = mapping(entry)
        name = model.get("model_name")
        for group in _items(mapping(model.get("model_info")).get("access_groups")):
            if isinstance(group, str) and isinstance(name, str):
                members = found.setdefault(group, [])
                if name not in members:
                    members.append(name)
    return found


def _items(tree: Tree) -> list[Tree]:
    return tree if isinstance(tree, list) else []
