"""Translates a whole LiteLLM configuration to the text of a config.yaml."""

from collections.abc import Sequence
from typing import NamedTuple

from strowger_gateway.gateway.cli.litellm_import.access import GeneralSettings
from strowger_gateway.gateway.cli.litellm_import.database.found import People
from strowger_gateway.gateway.cli.litellm_import.database.known_models import with_known_models
from strowger_gateway.gateway.cli.litellm_import.deployments import Deployments
from strowger_gateway.gateway.cli.litellm_import.ledger import Ledger, Listed, mapping
from strowger_gateway.gateway.cli.litellm_import.routing import Models
from strowger_gateway.gateway.cli.litellm_import.timeouts import DeploymentTimeouts
from strowger_gateway.gateway.cli.litellm_import.values import Values
from strowger_gateway.gateway.cli.litellm_import.yaml_output import COMMENT, document
from strowger_gateway.gateway.config.yaml_document import Tree

_CATALOGUE = "LiteLLM has prices of its own; these are published ones, in the gateway's table"


class Translation(NamedTuple):
    """text: config.yaml. translated: key of config.yaml by path. variables: that it needs.

    secrets: the values of variables that stand for a secret of the input, by name.
    """

    text: str
    translated: dict[str, str]
    listed: tuple[Listed, ...]
    variables: tuple[str, ...]
    models: int
    secrets: dict[str, str]


def translate(tree: Tree, people: People | None = None) -> Translation:
    """Translate a document. Every leaf is in `translated` or in `listed`, never in both.

    people: from the database, whose teams, limits and budgets are sections of config.yaml.
    """
    ledger = Ledger(tree)
    values = Values(ledger, tree)
    sections = mapping(tree)
    router, litellm = (
        mapping(sections.get(name)) for name in ("router_settings", "litellm_settings")
    )
    timeouts = DeploymentTimeouts(ledger, sections)
    deployments = Deployments(values, timeouts, sections.get("credential_list"))
    ledger.omit(
        ("include",), "other files are not read", "put them into this file and import again"
    )
    entries = sections.get("model_list")
    for place, entry in enumerate(entries if isinstance(entries, list) else []):
        deployments.add(("model_list", place), entry)
        if people is not None:
            groups = ("model_list", place, "model_info", "access_groups")
            ledger.translate(groups, "models of keys and teams")
    models = Models(deployments, {"router_settings": router, "litellm_settings": litellm})
    if people is not None:
        people = with_known_models(people, models.names())
    access = GeneralSettings(values, sections, issued=people is not None)
    config: dict[str, object] = {"server": access.server}
    if access.store:
        config["store"] = access.store
    if people is not None and not access.auth:
        access.auth = {"mode": "keys", "admin_key": values.variable("LITELLM_MASTER_KEY")}
        access.server["host"] = "0.0.0.0"  # as LiteLLM listens
    if access.auth:
        config["auth"] = access.auth
    if access.end_users:
        config["end_users"] = access.end_users
    if access.cache.cache is not None:
        config["cache"] = access.cache.cache
    if access.cache.each is not None:
        for model in models.models.values():
            model["cache"] = access.cache.each
    config["providers"] = [{"name": name, **one} for name, one in deployments.providers.items()]
    config["models"] = list(models.models.values())
    rows = list(deployments.prices.values())
    if _has_costs(access, models, people):
        config["prices"] = {COMMENT: _CATALOGUE, "from": "catalogue"} | (
            {"rows": rows} if rows else {}
        )
    elif rows:
        config["prices"] = rows
    config |= _lists(deployments, access, people)
    listed = ledger.listed() + (() if people is None else people.listed)
    return Translation(
        text=f"{_head(listed)}\n{document(config)}",
        translated=ledger.translated,
        listed=listed,
        variables=tuple(values.variables),
        models=len(models.models),
        secrets=values.secrets(),
    )


def _head(listed: Sequence[Listed]) -> str:
    """Return the comment at the top of the result, with what is listed."""
    head = "# Translated by `strowger import litellm`. Check it with `strowger check`.\n"
    notes = "".join(f"# {one.path}: {one.reason}; {one.remedy}\n" for one in listed)
    return f"{head}#\n# Not translated:\n{notes}" if notes else head


def _lists(
    deployments: Deployments, access: GeneralSettings, people: People | None
) -> dict[str, list[dict[str, object]]]:
    """Return the sections that are lists, but for providers, models and prices."""
    found = {
        "capabilities": list(deployments.capabilities.values()),
        "teams": [] if people is None else list(people.teams),
        "limits": [*access.limits, *(() if people is None else people.limits)],
        "budgets": [*access.budgets, *(() if people is None else people.budgets)],
    }
    return {key: rows for key, rows in found.items() if rows}


def _has_costs(access: GeneralSettings, models: Models, people: People | None) -> bool:
    """Return whether the result needs prices."""
    if access.budgets or (people is not None and people.spends):
        return True
    return any(model.get("policy") == "lowest_cost" for model in models.models.values())
