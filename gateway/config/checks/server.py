"""Cross-checks of `server`: origins, networks, sizes, and the default model."""

import ipaddress
import re

from strowger_gateway.gateway.config.checks.models import matches
from strowger_gateway.gateway.config.checks.providers import check_file
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.config import Config, ServerConfig

_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@A-Z\s]+/?")
"""As browsers send it, or "*" for any; a trailing / is allowed. https://www.rfc-editor.org/rfc/rfc6454#section-6.2"""


def check_server(config: Config, problems: Problems) -> None:
    """Record faults, and skip places that already have one."""
    server = config.server
    _fetch(server, problems)
    for index, origin in enumerate(server.cors.allow_origins):
        place: Path = ("server", "cors", "allow_origins", index)
        if not _ORIGIN.fullmatch(origin) and not problems.at(place):
            problems.add(
                place,
                Found(origin),
                " is not an origin, so it matches no page; write it as https://app.example.com, "
                "with the port if it has one, in lower case and without a path",
            )
    path: Path = ("server", "max_body_bytes")
    sizes = (path, ("server", "max_buffered_bytes"))
    if server.max_body_bytes > server.max_buffered_bytes and not any(map(problems.at, sizes)):
        problems.add(
            path,
            f"{server.max_body_bytes} is more than server.max_buffered_bytes "
            f"({server.max_buffered_bytes}), the limit for all bodies together",
        )


def _fetch(server: ServerConfig, problems: Problems) -> None:
    _networks(server.fetch.allow, ("server", "fetch", "allow"), problems)
    _networks(server.fetch.deny, ("server", "fetch", "deny"), problems)
    _networks(server.trusted_proxies, ("server", "trusted_proxies"), problems)
    if server.fetch.ca_file is not None:
        check_file(server.fetch.ca_file, ("server", "fetch", "ca_file"), problems)


def _networks(networks: tuple[str, ...], path: Path, problems: Problems) -> None:
    for index, network in enumerate(networks):
        try:
            ipaddress.ip_network(network)
        except ValueError:
            if not problems.at((*path, index)):
                text = " is not a network; write it as 10.1.0.0/16"
                problems.add((*path, index), Found(network), text)


def check_default_model(config: Config, problems: Problems) -> None:
    name = config.server.default_model
    path: Path = ("server", "default_model")
    if name is None or problems.at(path) or problems.under(("models",)):
        return
    names = [name for model in config.models for name in (model.name, *model.aliases)]
    if not any(matches(known, name) for known in names) or name.endswith("*"):
        problems.add(path, "no model is named ", Found(name), nearest(name, names))
