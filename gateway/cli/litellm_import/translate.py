"""Translates a whole LiteLLM configuration to the text of a config.yaml."""

from typing import NamedTuple

from strowger_gateway.gateway.cli.litellm_import.access import GeneralSettings
from strowger_gateway.gateway.cli.litellm_import.deployments import Deployments
from strowger_gateway.gateway.cli.litellm_import.ledger import Ledger, Listed, mapping
from strowger_gateway.gateway.cli.litellm_import.routing import Models
from strowger_gateway.gateway.cli.litellm_import.timeouts import DeploymentTimeouts
from strowger_gateway.gateway.cli.litellm_import.values import Values
from strowger_gateway.gateway.cli.litellm_import.yaml_output import COMMENT, document
from strowger_gateway.gateway.config.yaml_document import Tree

_CATALOGUE = "LiteLLM has prices of its own; these are published ones, in the gateway's table"


class Translation(NamedTuple):
    """text: config.yaml. translated: key of config.yaml by path. variables: that it needs."""

    text: str
    translated: dict[str, str]
    listed: tuple[Listed, ...]
    variables: tuple[str, ...]
    models: int


def translate(tree: Tree) -> Translation:
    """Translate a document. Every leaf is in `translated` or in `listed`, never in both."""
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
    models = Models(deployments, {"router_settings": router, "litellm_settings": litellm})
    access = GeneralSettings(values, sections)
    config: dict[str, object] = {"server": access.server}
    if access.store:
        config["store"] = access.store
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
    costs = access.budgets or any(
        model.get("policy") == "lowest_cost" for model in models.models.values()
    )
    rows = list(deployments.prices.values())
    if costs:
        config["prices"] = {COMMENT: _CATALOGUE, "from": "catalogue"} | (
            {"rows": rows} if rows else {}
        )
    elif rows:
        config["prices"] = rows
    lists = {
        "capabilities": list(deployments.capabilities.values()),
        "limits": access.limits,
        "budgets": access.budgets,
    }
    config |= {key: rows for key, rows in lists.items() if rows}
    listed = ledger.listed()
    head = "# Translated by `strowger import litellm`. Check it with `strowger check`.\n"
    notes = "".join(f"# {one.path}: {one.reason}; {one.remedy}\n" for one in listed)
    if notes:
        head += f"#\n# Not translated:\n{notes}"
    return Translation(
        text=f"{head}\n{document(config)}",
        translated=ledger.translated,
        listed=listed,
        variables=tuple(values.variables),
        models=len(models.models),
    )
