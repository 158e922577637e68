"""A database as a LiteLLM proxy leaves it: the columns that the import reads, and some others.

Written from the documentation of its API. `tests/clients/test_litellm_database.py` has the tables
of LiteLLM's own migrations.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Final, LiteralString, cast

import psycopg

_RULES: Final = """max_budget DOUBLE PRECISION, budget_duration TEXT,
    budget_reset_at TIMESTAMP, tpm_limit BIGINT,
    rpm_limit BIGINT, max_parallel_requests INTEGER, model_max_budget JSONB"""
TABLES: Final = {
    "BudgetTable": f"""budget_id TEXT PRIMARY KEY, soft_budget DOUBLE PRECISION,
        temp_budget_increase DOUBLE PRECISION, allowed_models TEXT[], {_RULES}""",
    "TeamTable": f"""team_id TEXT PRIMARY KEY, team_alias TEXT, models TEXT[], metadata JSONB,
        spend DOUBLE PRECISION DEFAULT 0, blocked BOOLEAN DEFAULT false, model_id INTEGER,
        access_group_ids TEXT[], soft_budget DOUBLE PRECISION, organization_id TEXT, {_RULES}""",
    "UserTable": f"""user_id TEXT PRIMARY KEY, user_email TEXT, models TEXT[], metadata JSONB,
        spend DOUBLE PRECISION DEFAULT 0, {_RULES}""",
    "VerificationToken": f"""token TEXT PRIMARY KEY, key_name TEXT, key_alias TEXT,
        spend DOUBLE PRECISION DEFAULT 0, expires TIMESTAMP, models TEXT[], aliases JSONB,
        user_id TEXT, team_id TEXT, metadata JSONB, blocked BOOLEAN, budget_id TEXT,
        tpd_limit BIGINT, budget_limits JSONB, access_group_ids TEXT[], last_active TIMESTAMP,
        created_at TIMESTAMP DEFAULT now(), allowed_routes TEXT[], a_later_column TEXT, {_RULES}""",
    "DeprecatedVerificationToken": "token TEXT, active_token_id TEXT, revoke_at TIMESTAMP",
    "TeamMembership": "user_id TEXT, team_id TEXT, budget_id TEXT, spend DOUBLE PRECISION",
    "OrganizationTable": "organization_id TEXT, organization_alias TEXT, budget_id TEXT",
    "EndUserTable": "user_id TEXT, blocked BOOLEAN, budget_id TEXT, spend DOUBLE PRECISION",
    "ModelTable": "id INTEGER, aliases JSONB",
    "AccessGroupTable": "access_group_id TEXT, access_group_name TEXT, access_model_names TEXT[]",
    "ProxyModelTable": "model_name TEXT, litellm_params JSONB, model_info JSONB",
    "CredentialsTable": "credential_name TEXT, credential_values JSONB, credential_info JSONB",
    "Config": "param_name TEXT, param_value JSONB",
    "MCPServerTable": "server_id TEXT",
    "SpendLogs": "request_id TEXT",
}


def token(secret: str) -> str:
    """Return a secret as LiteLLM stores it, by its `hash_token`."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create(url: str) -> None:
    with psycopg.connect(url) as connection:
        for name, columns in TABLES.items():
            connection.execute(f'CREATE TABLE "LiteLLM_{name}" ({columns})'.encode())


def insert(url: str, table: str, *rows: Mapping[str, object]) -> None:
    with psycopg.connect(url) as connection:
        for row in rows:
            names = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join(["%s"] * len(row))
            values = [json.dumps(one) if isinstance(one, dict) else one for one in row.values()]
            sql = f'INSERT INTO "LiteLLM_{table}" ({names}) VALUES ({marks})'
            connection.execute(cast("LiteralString", sql), values)
