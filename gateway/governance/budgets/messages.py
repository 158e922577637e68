"""What the workers and their leader send each other about budgets: see gateway/governance/leases.

The quantity of a place is the unit of its budget: see `lease_place`.
"""

from msgspec import Struct

from strowger_gateway.gateway.governance.leases.messages import ToLeader
from strowger_gateway.gateway.storage.sql.spend_rows import Spend


class Recorded(Struct, frozen=True):
    """What the requests of one batch of records have used. batch: its number."""

    batch: int
    spend: tuple[Spend, ...]


class BudgetsToLeader(Struct, frozen=True, tag=True):
    """A message, and what was recorded before it. writer: of the records."""

    message: ToLeader
    writer: str
    recorded: tuple[Recorded, ...] = ()
