"""Translates the credentials of a deployment: keys, AWS, Google and Entra ID."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.adapters.hosts_with_keys import requires_credential
from strowger_gateway.gateway.cli.litellm_import.acceptance import accepts
from strowger_gateway.gateway.cli.litellm_import.ledger import Path
from strowger_gateway.gateway.cli.litellm_import.values import Values, variable_name
from strowger_gateway.gateway.cli.litellm_import.vendors import AWS, AdapterChoice
from strowger_gateway.gateway.config.problems import PLACEHOLDERS
from strowger_gateway.gateway.config.yaml_document import Tree

_KEYS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_ANYWHERE: Final = ("aws_region_name", "aws_bedrock_runtime_endpoint")


def region_of(region: str | None) -> str:
    """Return a region that `providers[].aws` accepts, "" for none."""
    given = {"adapter": "bedrock", "aws": {"region": region}}
    return region if region and accepts(given, "aws", "region") else ""


class DeploymentCredentials:
    """at: the path of `litellm_params`, in every method."""

    def __init__(self, values: Values) -> None:
        self.values = values
        self.ledger = values.ledger

    def add(
        self,
        at: Path,
        vendor: AdapterChoice,
        params: Mapping[str, Tree],
        settings: dict[str, object],
    ) -> None:
        """Add the credentials to the settings of a provider."""
        if vendor.vertex:
            self.ledger.omit(
                (*at, "api_key"),
                "Vertex AI is called with tokens, by providers[].google",
                "set providers[].google if the credentials of the machine do not suffice",
            )
            settings["google"] = self._google(at, params)
            return
        key = self._key(at, vendor, params)
        if key is None and self._entra(at, vendor, params, settings):
            return
        if key is None and vendor.key and self._requires_key(vendor, settings):
            key = self.values.variable(vendor.key)
        if key is not None:
            settings["api_key"] = key
        if vendor.adapter == "bedrock":
            settings["aws"] = self._aws(at, params, has_key=key is not None)

    def _key(self, at: Path, vendor: AdapterChoice, params: Mapping[str, Tree]) -> str | None:
        """Return the API key, `None` for none or a text that stands for none."""
        key, to = params.get("api_key"), "providers[].api_key"
        if isinstance(key, str) and key.lower() in PLACEHOLDERS:
            self.ledger.translate((*at, "api_key"), to)
            return None
        own = vendor.key or variable_name(vendor.adapter, "api_key")
        return self.values.secret(key, (*at, "api_key"), to, own)

    def _aws(self, at: Path, params: Mapping[str, Tree], *, has_key: bool) -> dict[str, object]:
        aws: dict[str, object] = {}
        for theirs, ours in AWS.items():
            value, to = params.get(theirs), f"providers[].aws.{ours}"
            if not isinstance(value, str):
                continue
            unused = "" if theirs in _ANYWHERE else _unused(theirs, params, aws, has_key=has_key)
            if unused:
                self.ledger.omit((*at, theirs), unused, "nothing: it had no effect")
            elif theirs in _KEYS:
                name = variable_name(theirs)
                aws[ours] = self.values.secret(value, (*at, theirs), to, name)
            else:
                found = self.values.text(value)
                given = {"adapter": "bedrock", "aws": {ours: found}}
                if found is None or not accepts(given, "aws", ours):
                    self.ledger.omit(
                        (*at, theirs), f"{to} does not accept this value", "correct it"
                    )
                    continue
                self.ledger.translate((*at, theirs), to)
                aws[ours] = found
        return {name: value for name, value in aws.items() if value is not None}

    def _google(self, at: Path, params: Mapping[str, Tree]) -> dict[str, object]:
        for key in ("vertex_credentials", "vertex_ai_credentials"):
            file = self.values.text(params.get(key))
            if file is not None and not file.lstrip().startswith("{"):
                self.ledger.translate((*at, key), "providers[].google")
                return {"credentials_file": file}
            self.ledger.omit(
                (*at, key),
                "a secret in the file; providers[].google reads it from a file",
                "write it to a file and set providers[].google.credentials_file",
            )
        return {}

    def _entra(
        self,
        at: Path,
        vendor: AdapterChoice,
        params: Mapping[str, Tree],
        settings: dict[str, object],
    ) -> bool:
        """Translate an application of Entra ID; False if the entry has none."""
        if vendor.key != "AZURE_API_KEY":
            return False
        self.ledger.omit(
            (*at, "azure_ad_token"),
            "a token that expires",
            "set providers[].azure or oauth, which get and renew tokens (docs/providers/azure.md)",
        )
        tenant, client = (self.values.text(params.get(key)) for key in ("tenant_id", "client_id"))
        if tenant is None or client is None:
            return "azure_ad_token" in params
        to = "providers[].oauth"
        secret = self.values.secret(
            params.get("client_secret"), (*at, "client_secret"), to, "AZURE_CLIENT_SECRET"
        )
        if secret is None:
            return False
        for key in ("tenant_id", "client_id"):
            self.ledger.translate((*at, key), to)
        settings["oauth"] = {
            "client_id": client,
            "client_secret": secret,
            "token_url": f"https://login.microsoftonline.com/{tenant}/oauth2/v2.0/token",
        }
        return True

    def _requires_key(self, vendor: AdapterChoice, settings: Mapping[str, object]) -> bool:
        """Return whether LiteLLM's variable is for this address, not for a server of one's own."""
        address = settings.get("base_url")
        if vendor.key == "AZURE_API_KEY" or not isinstance(address, str):
            return True
        return requires_credential(address)


def _unused(
    name: str, params: Mapping[str, Tree], found: Mapping[str, object], *, has_key: bool
) -> str:
    """Return why LiteLLM does not use this credential of AWS, "" if it does."""
    if has_key:
        return "api_key wins"
    if name in _KEYS and params.get("aws_profile_name"):
        return "aws_profile_name wins"
    if name in _KEYS and not all(params.get(key) for key in _KEYS[:2]):
        return "aws_access_key_id and aws_secret_access_key belong together"
    if name == "aws_external_id" and "role_arn" not in found:
        return "it belongs to aws_role_name"
    return ""
