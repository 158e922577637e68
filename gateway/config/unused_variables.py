"""Warn of proxies and certificates that the environment names and the gateway does not use.

The gateway reads its configuration alone, so that a variable of the machine never changes where
prompts and keys are sent.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from strowger_gateway.gateway.config.adapter_names import WITHOUT_WIRE
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config, Provider

_PROXIES: Final[Mapping[str, tuple[str, ...]]] = {
    "https": ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"),
    "http": ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"),
}
"""By the scheme of an address, the variables that name its proxy."""

_BUNDLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_READ: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Of certificates, those that the gateway uses."""

_MOST: Final = 5
"""Providers that a warning names."""


def warn_unused_variables(config: Config, env: Mapping[str, str], problems: Problems) -> None:
    """env: the environment in which the gateway runs."""
    remote = [one for one in config.providers if one.adapter not in WITHOUT_WIRE]
    direct: dict[str, list[str]] = {}
    for provider in remote:
        name = _proxy_of(provider, env)
        if name:
            direct.setdefault(name, []).append(provider.name)
    for name, providers in direct.items():
        more = f" and {len(providers) - _MOST} more" if len(providers) > _MOST else ""
        problems.warn(
            ("providers",),
            f"the environment variable {name} is not used: {', '.join(providers[:_MOST])}{more} "
            f"are called directly; to use it, set providers[].proxy to ${{{name}}}",
        )
    if any(env.get(name) for name in _READ) or all(one.tls.ca_file for one in remote):
        return
    for name in _BUNDLES:
        if env.get(name):
            problems.warn(
                ("providers",),
                f"the environment variable {name} is not used; set SSL_CERT_FILE, or "
                f"providers[].tls.ca_file to ${{{name}}}",
            )


def _proxy_of(provider: Provider, env: Mapping[str, str]) -> str:
    """Return the variable that names a proxy for the provider, "" for none."""
    if provider.proxy is not None:
        return ""
    address = urlsplit(provider.base_url or "https://vendor.invalid")
    found = next((name for name in _PROXIES.get(address.scheme, ()) if env.get(name)), "")
    spared = env.get("no_proxy") or env.get("NO_PROXY") or ""
    return "" if _is_spared(address.hostname or "", spared) else found


def _is_spared(host: str, spared: str) -> bool:
    """Return whether the list of hosts, or of domains, has this one; `*` is all."""
    names = [one.strip().removeprefix("*").removeprefix(".") for one in spared.split(",")]
    if "*" in spared.replace(" ", "").split(","):
        return True
    return any(host == one or host.endswith(f".{one}") for one in names if one)
