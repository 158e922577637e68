"""Messages between the leader and its workers about budgets."""

from msgspec import Struct

from gateway.budgets.ledger import Short
from gateway.store.spend_rows import Spend


class Share(Struct, frozen=True):
    """An amount of one account."""

    budget: str
    subject: str
    amount: int


class PurseUse(Struct, frozen=True):
    """spent: of the lease. returned: what is given back. overdrawn: used beyond the lease."""

    budget: str
    subject: str
    spent: int
    returned: int
    overdrawn: int


class Recorded(Struct, frozen=True):
    """What the requests of one batch of records have used. batch: its number."""

    batch: int
    spend: tuple[Spend, ...]


class BudgetAsk(Struct, frozen=True, kw_only=True, tag=True):
    """A request lacks these amounts; answered with the same id.

    needs: of the whole request, for messages; same order.
    """

    id: int
    lacking: tuple[Share, ...]
    needs: tuple[int, ...]


class BudgetGrant(Struct, frozen=True, kw_only=True, tag=True):
    """granted: at least what was lacking, in the same order."""

    id: int
    granted: tuple[Share, ...]


class BudgetDenial(Struct, frozen=True, kw_only=True, tag=True):
    """Nothing was granted: these budgets have no room."""

    id: int
    short: tuple[Short, ...]


class BudgetOutage(Struct, frozen=True, kw_only=True, tag=True):
    """Nothing was granted, because the budget cannot be checked and must hold."""

    id: int
    why: str


class BudgetRecall(Struct, frozen=True, kw_only=True, tag=True):
    """Give back what you hold of these accounts; answered by BudgetReport with this id."""

    id: int
    accounts: tuple[tuple[str, str], ...]


class BudgetReport(Struct, frozen=True, kw_only=True, tag=True):
    """What was used since the last report, by account and by record, and what is given back.

    recall: the id of the BudgetRecall, or 0. writer: of the records.
    """

    recall: int
    writer: str
    uses: tuple[PurseUse, ...]
    recorded: tuple[Recorded, ...] = ()


ToLeader = BudgetAsk | BudgetReport
ToWorker = BudgetGrant | BudgetDenial | BudgetOutage | BudgetRecall
