"""What a database of LiteLLM has that neither a key nor config.yaml can express, by name."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from strowger_gateway.gateway.cli.litellm_import.database.reading import (
    PREFIX,
    LiteLLMDatabase,
    Row,
    document,
    number,
    text,
)
from strowger_gateway.gateway.cli.litellm_import.database.rules import Note
from strowger_gateway.gateway.cli.litellm_import.ledger import Listed

KEY_COLUMNS: Final = frozenset(
    (
        *("token", "key_name", "key_alias", "soft_budget_cooldown", "spend", "total_spend"),
        *("expires", "models", "user_id", "team_id", "max_parallel_requests", "metadata"),
        *("blocked", "tpm_limit", "rpm_limit", "tpd_limit", "max_budget", "budget_duration"),
        *("budget_reset_at", "model_spend", "model_max_budget", "budget_id", "created_at"),
        *("created_by", "updated_at", "updated_by", "settings_updated_at", "last_active"),
        *("rotation_count", "last_rotation_at", "budget_limits", "access_group_ids"),
    )
)
TEAM_COLUMNS: Final = frozenset(
    (
        *("team_id", "team_alias", "organization_id", "admins", "members", "members_with_roles"),
        *("metadata", "max_budget", "soft_budget", "spend", "models", "max_parallel_requests"),
        *("tpm_limit", "rpm_limit", "tpd_limit", "budget_duration", "budget_reset_at", "blocked"),
        *("created_at", "updated_at", "model_spend", "model_max_budget", "budget_limits"),
        *("model_id", "access_group_ids", "team_member_permissions"),
    )
)
USER_COLUMNS: Final = frozenset(
    (
        *("user_id", "user_alias", "team_id", "sso_user_id", "organization_id", "password"),
        *("teams", "user_role", "max_budget", "spend", "user_email", "models", "metadata"),
        *("max_parallel_requests", "tpm_limit", "rpm_limit", "budget_duration"),
        *("budget_reset_at", "model_spend", "model_max_budget", "created_at", "updated_at"),
        *("password_reset_required", "last_breach_check_at"),
    )
)
BUDGET_COLUMNS: Final = frozenset(
    (
        *("budget_id", "max_budget", "soft_budget", "max_parallel_requests", "tpm_limit"),
        *("rpm_limit", "tpd_limit", "model_max_budget", "budget_duration", "budget_reset_at"),
        *("created_at", "created_by", "updated_at", "updated_by", "allowed_models"),
    )
)
_READ_METADATA: Final = frozenset(
    ("tags", "model_rpm_limit", "model_tpm_limit", "model_max_parallel_requests")
)
_REMEDIES: Final = {
    "aliases": "add the names to models[].aliases",
    "guardrails": "write guardrails with `who` (docs/guardrails.md)",
    "allowed_routes": "nothing here restricts a key to routes; restrict them in front of it",
    "permissions": "write guardrails and models of the key",
    "object_permission_id": "MCP servers, vector stores and agents are not served",
    "policies": "write guardrails (docs/guardrails.md)",
    "router_settings": "routing is per model (docs/routing.md)",
    "budget_fallbacks": "set on_exceeded: {use_model: …} of the budget (docs/budgets.md)",
    "auto_rotate": "rotate with `strowger keys rotate` from a timer (docs/keys.md)",
    "rotation_interval": "rotate with `strowger keys rotate` from a timer (docs/keys.md)",
    "key_rotation_at": "rotate with `strowger keys rotate` from a timer (docs/keys.md)",
    "project_id": "use a team of its own, or tags",
    "organization_id": "there is no level above teams; give its teams limits and budgets",
    "agent_id": "agents are not served",
    "config": "set defaults per model (models[].defaults)",
    "allowed_cache_controls": "caching is per model (docs/caching.md)",
    "temp_budget_increase": "raise the budget until then with `strowger keys change --budget`",
    "temp_budget_expiry": "lower the budget then with `strowger keys change --budget`",
    "logging": "export traces with telemetry.otlp (docs/tracing.md)",
}


def rest_of(
    database: LiteLLMDatabase, budgets: Mapping[str, Row], teams: Mapping[str, str]
) -> list[Listed]:
    """List all rows that have no counterpart. budgets: by id. teams: names by id."""
    found: list[Listed] = []

    def note(path: str, reason: str, remedy: str) -> None:
        found.append(Listed(path if path.isprintable() else ascii(path), reason, remedy))

    for budget_id, row in budgets.items():
        leftovers(row, BUDGET_COLUMNS, partial(_note_budget, note, budget_id))
    for row in database.rows("OrganizationTable"):
        name = text(row, "organization_alias") or text(row, "organization_id")
        budget = budgets.get(text(row, "budget_id"), {})
        most = number(budget, "max_budget")
        amount = "" if most is None else f" with a budget of ${most:g}"
        note(
            f"organization {name}",
            f"there is no level above teams{amount}",
            "give its teams models, limits and budgets",
        )
    for table, what, name, remedy in (
        ("EndUserTable", "end user", "user_id", "set limits and budgets with each: end_user"),
        ("TagTable", "tag", "tag_name", "give keys of their own a budget, or teams"),
        ("ProjectTable", "project", "project_alias", "use a team for each project"),
    ):
        for row in database.rows(table):
            about = _about(row, budgets.get(text(row, "budget_id"), {}))
            if about or table == "ProjectTable":
                shown = text(row, name) or text(row, "project_id")
                note(f"{what} {shown}", about or "has no counterpart", remedy)
    for row in database.rows("OrganizationMembership"):
        if text(row, "budget_id"):
            note(
                f"member {text(row, 'user_id')} of organization {text(row, 'organization_id')}",
                "budgets are of keys, teams and users",
                "set a budget with who: {user: …}",
            )
    aliases = {
        number(row, "id"): document(row, "model_aliases") or document(row, "aliases")
        for row in database.rows("ModelTable")
    }
    for row in database.rows("TeamTable"):
        for alias, model in aliases.get(number(row, "model_id"), {}).items():
            note(
                f"team {teams[text(row, 'team_id')]}.aliases.{alias}",
                "aliases are for every client",
                f"add {alias!r} to the aliases of the model {model!r}, or rename it in clients",
            )
    for table, count in database.others.items():
        if count:
            note(f"{PREFIX}{table}", f"{count:,} rows without counterpart", _remedy(table))
    return found


def _note_budget(note: Note, budget: str, column: str, reason: str, remedy: str) -> None:
    note(f"budget {budget}.{column}", reason, remedy)


def leftovers(row: Row, known: frozenset[str], note: Note) -> None:
    """List every field that is set and is not among the known ones, those of metadata included."""
    for column, value in row.items():
        if column not in known and value not in (None, "", 0, False, [], {}):
            note(column, "has no counterpart", _REMEDIES.get(column, "see docs/keys.md"))
    for field, value in document(row, "metadata").items():
        if field not in _READ_METADATA and value not in (None, "", [], {}):
            remedy = _REMEDIES.get(field, "keep it elsewhere, or as a tag of the key")
            note(f"metadata.{field}", "keys have no such field", remedy)


def _about(row: Row, budget: Row) -> str:
    """Say what LiteLLM does with an end user or a tag, "" if that is nothing."""
    parts = ["is blocked"] if row.get("blocked") is True else []
    most = number(budget, "max_budget")
    if most is not None:
        parts.append(
            f"has a budget of ${most:g}, of which ${number(row, 'spend') or 0:.2f} is spent"
        )
    parts += [
        f"has {name} {number(budget, name):g}"
        for name in ("rpm_limit", "tpm_limit", "max_parallel_requests")
        if number(budget, name) is not None
    ]
    parts += [
        f"has {name}"
        for name in ("allowed_model_region", "default_model", "models", "object_permission_id")
        if row.get(name)
    ]
    return ", ".join(parts)


def _remedy(table: str) -> str:
    if table.startswith(("MCP", "Agents", "ClaudeCode", "Skills", "Search", "ManagedVector")):
        return "the gateway does not serve this; keep it where it is"
    if table.startswith(("Guardrails", "Policy")):
        return "write guardrails (docs/guardrails.md)"
    if table.startswith("Prompt"):
        return "write prompts (docs/prompts.md)"
    if table.startswith(("SSO", "JWT", "UserProviderCredentials")):
        return "write auth.jwt or the sign-in of /admin (docs/identities.md)"
    return "see docs/configuration.md for related settings"
