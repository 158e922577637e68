"""Cross-checks of a decoded configuration: rules that involve several fields.

Sections that are fields of `Config` have their checks here, those of parts in the parts.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from strowger_gateway.gateway.config.adapter_names import Defaults
from strowger_gateway.gateway.config.checks.access import check_access
from strowger_gateway.gateway.config.checks.admin_oidc import check_admin_oidc
from strowger_gateway.gateway.config.checks.capabilities import check_honoured
from strowger_gateway.gateway.config.checks.client_fields import check_client_fields
from strowger_gateway.gateway.config.checks.ineffective import warn_ineffective
from strowger_gateway.gateway.config.checks.model_facts import check_model_facts
from strowger_gateway.gateway.config.checks.models import check_models
from strowger_gateway.gateway.config.checks.providers import check_providers
from strowger_gateway.gateway.config.checks.routing import check_routing
from strowger_gateway.gateway.config.checks.server import check_default_model, check_server
from strowger_gateway.gateway.config.checks.webhooks import check_webhooks
from strowger_gateway.gateway.config.checks.when_rules import check_rules
from strowger_gateway.gateway.config.parts.named import named
from strowger_gateway.gateway.config.parts.part import ConfiguredPart
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.remote_engines.checks import check_pools
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema_store import check_store

Check = Callable[[Config, Problems], None]
"""Records faults and settings without effect, and skips places that already have a fault."""


def check(
    config: Config,
    problems: Problems,
    adapters: Mapping[str, Defaults],
    parts: Sequence[ConfiguredPart] = (),
) -> None:
    """Run all checks, in the order in which their faults are shown; those of parts at the end."""
    for one in _checks(adapters):
        one(config, problems)
    for part in parts:
        with named(part.name, "checking a configuration"):
            part.check(config, problems)


def _checks(adapters: Mapping[str, Defaults]) -> tuple[Check, ...]:
    return (
        check_server,
        partial(check_providers, adapters=adapters),
        partial(check_client_fields, adapters=adapters),
        check_models,
        check_rules,
        check_routing,
        check_pools,
        check_model_facts,
        check_store,
        check_webhooks,
        partial(check_honoured, adapters=adapters),
        partial(warn_ineffective, adapters=adapters),
        check_default_model,
        check_access,
        check_admin_oidc,
    )
