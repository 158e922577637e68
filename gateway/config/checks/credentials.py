"""Check for a provider without credentials at a vendor that always requires them."""

from strowger_gateway.gateway.config.adapter_names import Defaults
from strowger_gateway.gateway.config.aws import BEDROCK, aws_base_url
from strowger_gateway.gateway.config.problems import Path, Problems
from strowger_gateway.gateway.config.schema.config import Provider


def check_keyless(
    provider: Provider, path: Path, problems: Problems, defaults: Defaults | None
) -> None:
    """path: the provider's. defaults: of its adapter."""
    # Late: the module reads the catalogue.
    from strowger_gateway.adapters.hosts_with_keys import any_credential, requires_credential

    given = provider.api_key or provider.oauth or provider.aws or provider.google or provider.azure
    if given or provider.tls.client_cert is not None or any_credential(provider.headers):
        return
    credentials = ("api_key", "oauth", "aws", "google", "azure", "headers")
    if any(problems.under((*path, name)) for name in (*credentials, "base_url", "adapter")):
        return
    address = provider.base_url or aws_base_url(provider)
    address = address or (defaults.base_url if defaults is not None else "")
    if not requires_credential(address):
        return
    needed = "aws, or an API key" if provider.adapter == BEDROCK else "a key"
    problems.add(
        (*path, "api_key"),
        f"is missing, and so is every other credential; this vendor requires {needed}",
    )
