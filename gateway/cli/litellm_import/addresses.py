"""Translates where a deployment is: `providers[].base_url`, by the rules of its vendor."""

import re
from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.cli.litellm_import.ledger import Path
from strowger_gateway.gateway.cli.litellm_import.values import Values
from strowger_gateway.gateway.cli.litellm_import.vendors import ADDRESSES, AdapterChoice
from strowger_gateway.gateway.config.yaml_document import Tree

PROJECT: Final = ("vertex_project", "vertex_ai_project")
_LOCATION: Final = ("vertex_location", "vertex_ai_location")
_BASE: Final = ("api_base", "base_url", "aws_bedrock_runtime_endpoint")
_TO: Final = "providers[].base_url"
_BELOW_DEPLOYMENT: Final = re.compile(r"(/openai/deployments/[^/]+)/.*")
_V1: Final = ("v1", "preview", "latest")
"""Values of `api_version` with which LiteLLM uses Azure's API without versions."""
_VERSION: Final = "2024-10-21"


class Addresses:
    """at: the path of `litellm_params`, in every method."""

    def __init__(self, values: Values) -> None:
        self.values = values

    def of(self, at: Path, vendor: AdapterChoice, params: Mapping[str, Tree]) -> str | None:
        """Return the base URL, `None` if the entry has none."""
        if vendor.vertex and self._text(at, params, PROJECT) is not None:
            return self._vertex(at, vendor, params)
        address = self._text(at, params, _BASE)
        if address is None:
            return ADDRESSES.get(vendor.adapter)
        if vendor.adapter in ("azure", "azure-responses"):
            return self._azure(at, address, vendor, params)
        return address.rstrip("/")

    def _vertex(self, at: Path, vendor: AdapterChoice, params: Mapping[str, Tree]) -> str:
        project = self._text(at, params, PROJECT)
        place = self._text(at, params, _LOCATION) or "us-central1"
        host = "" if place == "global" else f"{place}-"
        publisher = "google" if vendor.adapter == "gemini" else "anthropic"
        return (
            f"https://{host}aiplatform.googleapis.com/v1/projects/{project}/locations/{place}"
            f"/publishers/{publisher}"
        )

    def _azure(
        self, at: Path, address: str, vendor: AdapterChoice, params: Mapping[str, Tree]
    ) -> str:
        address, _, query = address.partition("?")
        address = _BELOW_DEPLOYMENT.sub(r"\1", address).rstrip("/")
        version = self._text(at, params, ("api_version",))
        if vendor.adapter == "azure-responses" or version in _V1:
            return address.partition("/openai")[0] + "/openai/v1"
        if address.endswith("/openai/v1"):
            return address
        if "/openai" not in address and not address.startswith("${"):
            address += "/openai"  # without it the adapter adds it; a variable may end in a slash
        return f"{address}?{query or f'api-version={version or _VERSION}'}"

    def _text(self, at: Path, params: Mapping[str, Tree], keys: tuple[str, ...]) -> str | None:
        """Return the first of these fields that is text, and note that it is translated."""
        for key in keys:
            found = self.values.text(params.get(key))
            if found is not None:
                self.values.ledger.translate((*at, key), _TO)
                return found
        return None
