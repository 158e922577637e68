"""Translates the headers that a deployment sends."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.cli.litellm_import.acceptance import accepts
from strowger_gateway.gateway.cli.litellm_import.ledger import Path, mapping
from strowger_gateway.gateway.cli.litellm_import.values import Values, variable_name
from strowger_gateway.gateway.cli.litellm_import.vendors import NOT_SECRET, AdapterChoice
from strowger_gateway.gateway.config.yaml_document import Tree

_TO: Final = "providers[].headers"
_WITH_TOKENS: Final = {"aws", "azure", "google", "oauth"}


class Headers:
    """`headers`, `extra_headers`, which win, and `organization` of one deployment."""

    def __init__(
        self, values: Values, at: Path, vendor: AdapterChoice, settings: Mapping[str, object]
    ) -> None:
        """at: the path of `litellm_params`. settings: of the provider so far."""
        self.values = values
        self._at = at
        self._vendor = vendor
        self._settings = settings

    def of(self, params: Mapping[str, Tree]) -> dict[str, str]:
        """Return `providers[].headers`."""
        given: dict[str, tuple[str, Path, Tree]] = {}
        for section in ("headers", "extra_headers"):
            for name, value in mapping(params.get(section)).items():
                if name.lower() in given:
                    self.values.ledger.omit(
                        given[name.lower()][1], "it is given again", "nothing: it had no effect"
                    )
                given[name.lower()] = (name, (*self._at, section, name), value)
        organization = params.get("organization")
        if self._vendor.adapter in ("openai", "openai-responses") and organization:
            name = "openai-organization"
            given[name] = (name, (*self._at, "organization"), organization)
        sent = {name: self._value(name, path, value) for name, path, value in given.values()}
        return {name: value for name, value in sent.items() if value is not None}

    def _value(self, name: str, path: Path, value: Tree) -> str | None:
        if name.lower() == "authorization" and self._settings.keys() & _WITH_TOKENS:
            self.values.ledger.omit(
                path, "the gateway's own token is in this header", "remove one of the two"
            )
            return None
        plain = self.values.text(value)
        if plain is not None and name.lower() not in NOT_SECRET:
            plain = "in-the-environment"
        if plain is None or not self._accepts(name, plain):
            self.values.ledger.omit(
                path,
                "providers[].headers does not accept this name or value, or the gateway sets it",
                "correct it and import again, or remove it",
            )
            return None
        if name.lower() not in NOT_SECRET:
            variable = variable_name(self._vendor.adapter, name)
            return self.values.secret(value, path, _TO, variable)
        self.values.ledger.translate(path, _TO)
        return plain

    def _accepts(self, name: str, value: str) -> bool:
        settings = {"adapter": self._vendor.adapter, "headers": {name: value}}
        return accepts(settings, "headers", name) and accepts(settings, "headers")
