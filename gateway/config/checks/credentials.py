"""Checks of credentials: one that a header cannot carry, and none where a vendor requires one."""

import re
from typing import Final

from strowger_gateway.gateway.config.adapter_names import Defaults
from strowger_gateway.gateway.config.aws import BEDROCK, aws_base_url
from strowger_gateway.gateway.config.problems import Path, Problems
from strowger_gateway.gateway.config.schema.config import Provider
from strowger_gateway.schemas.secret import Secret

_BEARER: Final = re.compile(r"bearer\s", re.IGNORECASE)
_VISIBLE: Final = re.compile(r"[\x20-\x7e]*")


def check_keyless(
    provider: Provider, path: Path, problems: Problems, defaults: Defaults | None
) -> None:
    """path: the provider's. defaults: of its adapter."""
    # Late: the module reads the catalogue.
    from strowger_gateway.adapters.hosts_with_keys import any_credential, requires_credential

    given = provider.first_key or provider.oauth or provider.aws
    given = given or provider.google or provider.azure
    if given or provider.tls.client_cert is not None or any_credential(provider.headers):
        return
    credentials = ("api_key", "api_keys", "oauth", "aws", "google", "azure", "headers")
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


def check_credential(secret: Secret, path: Path, problems: Problems) -> None:
    """Check that a header can carry the credential: visible ASCII, no spaces at the ends."""
    value = secret.reveal()
    if not _VISIBLE.fullmatch(value) or value != value.strip():
        problems.add(
            path,
            "starts or ends with a space, or contains a line break or another character that "
            "headers cannot carry",
        )


def check_key(secret: Secret, path: Path, problems: Problems) -> None:
    """Check a credential that is sent after `Bearer` or another scheme name."""
    check_credential(secret, path, problems)
    if _BEARER.match(secret.reveal()) and not problems.at(path):
        problems.add(path, "starts with the word Bearer, which is not part of a key; remove it")
