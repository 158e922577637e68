"""Read the tables of a LiteLLM database, of any version, in one snapshot, and write nothing."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, cast
from urllib.parse import parse_qsl, urlencode

from strowger_gateway.gateway.cli.litellm_import.ledger import mapping
from strowger_gateway.gateway.config.schema_store import postgres_address
from strowger_gateway.gateway.config.yaml_document import Tree
from strowger_gateway.schemas.errors import InvalidConfig

Row = Mapping[str, object]
"""A row by column. JSON is decoded; times have no zone and are UTC."""

MOST_ROWS: Final = 500_000
"""Of one table."""

PREFIX: Final = "LiteLLM_"
_READ: Final = (
    "VerificationToken",
    "DeprecatedVerificationToken",
    "TeamTable",
    "UserTable",
    "OrganizationTable",
    "BudgetTable",
    "TeamMembership",
    "OrganizationMembership",
    "ModelTable",
    "EndUserTable",
    "TagTable",
    "ProjectTable",
    "ProxyModelTable",
    "CredentialsTable",
    "Config",
    "AccessGroupTable",
)
"""Names of tables, without PREFIX."""

_RECORDS: Final = re.compile(
    r"(Daily\w*|SpendLog\w*|ErrorLogs|AuditLog|HealthCheckTable|CronJob|Deleted\w*|ManagedFile\w*"
    r"|ManagedObject\w*|BudgetWindowSpend|UserNotifications|InvitationLink|ProxyWorkerHeartbeat"
    r"|AutoRouter\w*|ShadowEval\w*|Lens\w*|WorkflowRun|WorkflowEvent|WorkflowMessage|TelemetryReport"
    r"|AdaptiveRouter\w*|BackgroundInteraction\w*|VerifiedSubject|SSOIdentityAssertion|UISettings"
    r"|OrganizationMembership|Retired\w*|ToolTable|MemoryTable)"
)
"""Tables of what was: no settings that a gateway follows."""

_PRISMA: Final = {
    *("schema", "connection_limit", "pool_timeout", "pgbouncer", "sslidentity", "sslpassword"),
    *("sslaccept", "socket_timeout", "statement_cache_size"),
}
"""Parameters of Prisma's addresses that libpq does not know.
https://www.prisma.io/docs/orm/overview/databases/postgresql"""


class LiteLLMDatabase:
    """All rows of the tables that are read, and the numbers of rows of the others."""

    def __init__(self, tables: Mapping[str, Sequence[Row]], others: Mapping[str, int]) -> None:
        self._tables = tables
        self.others = others

    def rows(self, table: str) -> Sequence[Row]:
        """Return the rows of a table, without its prefix; () if this version has none."""
        return self._tables.get(table, ())


def read_database(url: str) -> LiteLLMDatabase:
    """Read everything. Raises InvalidConfig, without a password in its message."""
    try:
        import psycopg
        from psycopg import sql
        from psycopg.rows import dict_row
    except ImportError as exc:
        why = "--database: needs psycopg; pip install 'strowger-gateway[postgres]'"
        raise InvalidConfig((why,)) from exc
    address, schema = _without_prisma(url)
    tables: dict[str, Sequence[Row]] = {}
    others: dict[str, int] = {}
    try:
        with psycopg.Connection[dict[str, object]].connect(
            address,
            row_factory=dict_row,  # pyright: ignore[reportArgumentType]  psycopg's own example
            connect_timeout=10,
        ) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            named = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
                " AND starts_with(table_name, %s) ORDER BY table_name",
                [schema, PREFIX],
            ).fetchall()
            for name in [str(one["table_name"]) for one in named]:
                short = name.removeprefix(PREFIX)
                whole = sql.Identifier(schema, name)
                if short in _READ:
                    query = sql.SQL("SELECT * FROM {} LIMIT %s").format(whole)
                    tables[short] = connection.execute(query, [MOST_ROWS + 1]).fetchall()
                elif not _RECORDS.fullmatch(short):
                    query = sql.SQL("SELECT COUNT(*) AS rows FROM {}").format(whole)
                    for one in connection.execute(query).fetchall():
                        others[short] = int(str(one["rows"]))
    except psycopg.Error as exc:
        raise InvalidConfig((f"--database: {' '.join(str(exc).split())}",)) from None
    if "VerificationToken" not in tables:
        why = f"--database: has no table {PREFIX}VerificationToken in the schema {schema!r}"
        raise InvalidConfig((f"{why}; is it LiteLLM's?",))
    large = [name for name, rows in tables.items() if len(rows) > MOST_ROWS]
    if large:
        raise InvalidConfig((f"--database: {large[0]} has more than {MOST_ROWS:,} rows",))
    return LiteLLMDatabase(tables, others)


def _without_prisma(url: str) -> tuple[str, str]:
    """Return an address for libpq, and the schema. Raises InvalidConfig."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise InvalidConfig(("--database: must be postgresql://USER:PASSWORD@HOST/NAME",))
    try:
        parts = postgres_address(url)
    except ValueError as exc:
        raise InvalidConfig((f"--database: {exc}",)) from None
    options = parse_qsl(parts.options, keep_blank_values=True)
    schema = dict(options).get("schema", "public")
    kept = urlencode([(key, value) for key, value in options if key not in _PRISMA])
    login = f"{parts.login}@" if parts.login else ""
    return f"postgresql://{login}{parts.hosts}/{parts.name}{kept and f'?{kept}'}", schema


def text(row: Row, name: str) -> str:
    """Return a text; "" for none."""
    found = row.get(name)
    return found if isinstance(found, str) else ""


def texts(row: Row, name: str) -> tuple[str, ...]:
    """Return a list of texts; () for none."""
    found = row.get(name)
    items = cast("list[object]", found) if isinstance(found, list) else []
    return tuple(one for one in items if isinstance(one, str))


def number(row: Row, name: str) -> float | None:
    """Return a finite number; `None` for any other value."""
    found = row.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return found if abs(found) < float("inf") else None


def document(row: Row, name: str) -> Mapping[str, Tree]:
    """Return a JSON object; an empty one for any other value."""
    return mapping(row.get(name))


def seconds(row: Row, name: str) -> float | None:
    """Return a time as Unix seconds."""
    found = row.get(name)
    if not isinstance(found, datetime):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
