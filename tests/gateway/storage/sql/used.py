"""Usage as reports show it, for tests that count what was recorded."""

from strowger_gateway.gateway.governance.usage.periods import UsageRange
from strowger_gateway.gateway.governance.usage.report import (
    UsageQuery,
    UsageRow,
    dimensions,
    usage_report,
)
from strowger_gateway.gateway.storage.sql.base import Store


def used(
    store: Store, by: str = "key,model,backend", begin: int = 0, end: int = 9_000_000_000
) -> list[UsageRow]:
    """begin, end: Unix seconds, multiples of 900."""
    query = UsageQuery(range=UsageRange(begin=begin, end=end), by=dimensions(by))
    return usage_report(query, store.usage).rows
