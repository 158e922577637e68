"""Checks of `providers[].google` and `providers[].azure`."""

from importlib.util import find_spec

from strowger_gateway.gateway.config.problems import Found, Path, Problems
from strowger_gateway.gateway.config.schema.config import Provider
from strowger_gateway.gateway.config.schema.connection import Azure, Google

AZURE = "azure"
"""The only adapter with a default scope for tokens of Entra ID."""

GOOGLE_PACKAGES = ("google.auth", "requests")
AZURE_PACKAGES = ("azure.identity",)


def check_cloud_credentials(provider: Provider, path: Path, problems: Problems) -> None:
    """path: the provider's."""
    if provider.google is not None:
        place = (*path, "google")
        _alone(provider, "google", path, problems)
        _google(provider.google, place, problems)
        _packages(GOOGLE_PACKAGES, "google-auth[requests]", "vertex", place, problems)
    if provider.azure is not None:
        place = (*path, "azure")
        _alone(provider, "azure", path, problems)
        _azure(provider, provider.azure, place, problems)
        _packages(AZURE_PACKAGES, "azure-identity", "entra", place, problems)


def _alone(provider: Provider, name: str, path: Path, problems: Problems) -> None:
    others = {
        "api_key": bool(provider.first_key) and not problems.at((*path, "api_key")),
        "oauth": provider.oauth is not None,
        "aws": provider.aws is not None,
        "google": provider.google is not None,
    }
    for other, given in others.items():
        if given and other != name:
            problems.add((*path, name), f"conflicts with {other}; give one of them")
    if any(header.lower() == "authorization" for header in provider.headers):
        problems.add(
            (*path, name), "its token and headers.authorization are the same header; give one"
        )


def _google(google: Google, place: Path, problems: Problems) -> None:
    for index, scope in enumerate(google.scopes):
        if not scope.isascii() or " " in scope:
            problems.add(
                (*place, "scopes", index),
                Found(scope),
                " is not a scope; write one list entry per scope",
            )
    project = google.quota_project
    if project is not None and not (project.isascii() and project.isprintable()):
        problems.add((*place, "quota_project"), Found(project), " is not a project id")


def _azure(provider: Provider, azure: Azure, place: Path, problems: Problems) -> None:
    unused = {
        "managed": {"tenant_id": azure.tenant_id, "token_file": azure.token_file},
        "workload": dict[str, str | None](),
        "cli": {"client_id": azure.client_id, "token_file": azure.token_file},
    }
    for name, value in unused[azure.identity].items():
        if value is not None:
            problems.add((*place, name), f"identity {azure.identity} does not use it; remove it")
    if azure.scope is None and provider.adapter != AZURE:
        problems.add(
            (*place, "scope"),
            "is missing; adapter ",
            Found(provider.adapter),
            " has no default scope",
        )


def _packages(
    modules: tuple[str, ...], package: str, extra: str, place: Path, problems: Problems
) -> None:
    if not all(_installed(module) for module in modules):
        problems.add(place, f"needs the package {package}; pip install 'strowger-gateway[{extra}]'")


def _installed(module: str) -> bool:
    """True if a module can be imported; for a dotted name its package may be missing, too."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
