"""Cross-checks of a decoded configuration: rules that involve several fields."""

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence

from strowger_gateway.gateway.config.adapter_names import Defaults
from strowger_gateway.gateway.config.checks.access import check_access
from strowger_gateway.gateway.config.checks.admin_oidc import check_admin_oidc
from strowger_gateway.gateway.config.checks.audit import check_audit
from strowger_gateway.gateway.config.checks.budgets import check_budgets
from strowger_gateway.gateway.config.checks.cache import check_cache
from strowger_gateway.gateway.config.checks.capabilities import check_honoured
from strowger_gateway.gateway.config.checks.client_fields import check_client_fields
from strowger_gateway.gateway.config.checks.experiments import check_experiments
from strowger_gateway.gateway.config.checks.guardrails import check_guardrails
from strowger_gateway.gateway.config.checks.identities import check_identities
from strowger_gateway.gateway.config.checks.ineffective import warn_ineffective
from strowger_gateway.gateway.config.checks.limits import check_limits
from strowger_gateway.gateway.config.checks.metrics import check_metrics
from strowger_gateway.gateway.config.checks.model_facts import check_model_facts
from strowger_gateway.gateway.config.checks.models import check_models, matches
from strowger_gateway.gateway.config.checks.payloads import check_payloads
from strowger_gateway.gateway.config.checks.providers import check_file, check_providers
from strowger_gateway.gateway.config.checks.responses import check_responses
from strowger_gateway.gateway.config.checks.routing import check_routing
from strowger_gateway.gateway.config.checks.telemetry import check_telemetry
from strowger_gateway.gateway.config.checks.webhooks import check_webhooks
from strowger_gateway.gateway.config.checks.when_rules import check_rules
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.remote_engines.checks import check_pools
from strowger_gateway.gateway.config.replica_sections import check_discovery
from strowger_gateway.gateway.config.schema.config import Config, ServerConfig
from strowger_gateway.gateway.config.schema_store import check_store

_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^/?#@A-Z\s]+/?")
"""As browsers send it, or "*" for any; a trailing / is allowed. https://www.rfc-editor.org/rfc/rfc6454#section-6.2"""


Check = Callable[[Config, Problems], None]
"""Records the faults of one section, and skips places that already have one."""


def check(
    config: Config,
    problems: Problems,
    adapters: Mapping[str, Defaults],
    more: Sequence[Check] = (),
) -> None:
    """Record faults; skip places that already have one. more: checks of parts above `config`."""
    _server(config.server, problems)
    for check_section in more:
        check_section(config, problems)
    check_providers(config.providers, problems, adapters)
    check_client_fields(config.providers, problems, adapters)
    check_models(config, problems)
    check_rules(config, problems)
    check_routing(config, problems)
    check_pools(config, problems)
    check_discovery(config, problems)
    check_model_facts(config, problems)
    check_store(config.store, problems)
    check_responses(config, problems)
    check_experiments(config, problems)
    check_metrics(config, problems)
    check_limits(config, problems)
    check_budgets(config, problems)
    check_webhooks(config, problems)
    check_telemetry(config, problems)
    check_guardrails(config, problems)
    check_cache(config, problems)
    check_payloads(config, problems)
    check_honoured(config, problems, adapters)
    warn_ineffective(config, problems, adapters)
    _default_model(config, problems)
    check_access(config, problems)
    check_identities(config, problems)
    check_admin_oidc(config, problems)
    check_audit(config, problems)


def _server(server: ServerConfig, problems: Problems) -> None:
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


def _default_model(config: Config, problems: Problems) -> None:
    name = config.server.default_model
    path: Path = ("server", "default_model")
    if name is None or problems.at(path) or problems.under(("models",)):
        return
    names = [name for model in config.models for name in (model.name, *model.aliases)]
    if not any(matches(known, name) for known in names) or name.endswith("*"):
        problems.add(path, "no model is named ", Found(name), nearest(name, names))
