"""What requests have cost, in sums that budgets are read from, and what gateways hold of budgets.

`spend` has a row for each quarter of an hour (the smallest step between time zones) and payer.
Every change of it is also a row of `spend_changes`, so a reader that knows one version gets the
later ones without reading everything again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Database, Insert, Session, listed
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestRow

SLOT_S: Final = 900
NANOS: Final = 1_000_000_000
"""In a US dollar."""

MOST_USD: Final = 1e6
MOST_TOKENS: Final = 10**12
"""Of one attempt."""

DETAIL_S: Final = 40 * 86_400.0
"""Sums of at least this age may lose their time: longer than a month."""

CHANGES_S: Final = 600.0
"""Changes are kept so long; a reader that knows none of them reads everything."""


class Payer(Struct, frozen=True, order=True):
    """Whose spend it is; the fields are columns.

    model:    the requested name, or the route's if a budget chose the route.
    end_user: whom the client named, if a budget holds end users apart; see
    gateway/governance/end_users.
    """

    key: str
    team: str
    user: str
    route: str
    model: str
    end_user: str = ""


class Amount(Struct, frozen=True):
    """nanos: 10⁻⁹ US dollars. unpriced: attempts that used tokens and whose cost is unknown."""

    nanos: int = 0
    tokens: int = 0
    unpriced: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            self.nanos + other.nanos, self.tokens + other.tokens, self.unpriced + other.unpriced
        )

    def __neg__(self) -> "Amount":
        return Amount(-self.nanos, -self.tokens, -self.unpriced)


class Spend(Struct, frozen=True):
    """slot: the start of its quarter of an hour, Unix seconds; 0 for sums that have lost it."""

    slot: int
    payer: Payer
    amount: Amount


class SpendReading(Struct, frozen=True, kw_only=True):
    """Everything as of one moment.

    version:  of the sums. whole: per window that was asked for, its sums by payer.
    changes:  since the version that was given; `None` if they are not known any more.
    imported: by writer, the last of its batches in the store.
    held:     by holder, budget and subject: what other gateways hold.
    beats:    by holder, a number that changes while the holder lives.
    """

    version: int
    whole: tuple[Mapping[Payer, Amount], ...]
    changes: tuple[Spend, ...] | None
    imported: Mapping[str, int]
    held: Mapping[tuple[str, str, str], int]
    beats: Mapping[str, int]


class Holding(Struct, frozen=True, kw_only=True):
    """What a gateway wants to hold of an account.

    amount: wanted; granted as far as there is room. least: granted in any case, because it is used
            already.
    free:   what all gateways together may hold, by the sums of the version that was read.
    counts: what a later change of the sums takes of that.
    """

    budget: str
    subject: str
    amount: int
    least: int
    free: int
    counts: Callable[[Spend], int]


def slot_of(time: float) -> int:
    """time: Unix seconds."""
    return int(time // SLOT_S) * SLOT_S


def amount_of(cost_usd: float | None, prompt: int | None, completion: int | None) -> Amount:
    """What one attempt has used; the integer that its cost was made from, exactly.

    At most MOST_USD and MOST_TOKENS, so that sums of a vendor's nonsense have 64 bits.
    """
    tokens = min((prompt or 0) + (completion or 0), MOST_TOKENS)
    if cost_usd is None:
        return Amount(0, tokens, 1)
    return Amount(round(min(cost_usd, MOST_USD) * NANOS), tokens, 0)


def spend_of(requests: Iterable[RequestRow], attempts: Iterable[AttemptRow]) -> list[Spend]:
    """Add up the attempts of these requests, whichever failed; copies to a mirror do not count."""
    places = {row.request_id: (slot_of(row.time), payer_of(row)) for row in requests}
    sums: dict[tuple[int, Payer], Amount] = {}
    for one in attempts:
        found = places.get(one.request_id)
        if found is not None and one.usage_source and one.role != "mirror":
            used = amount_of(one.cost_usd, one.prompt_tokens, one.completion_tokens)
            sums[found] = sums.get(found, Amount()) + used
    return [Spend(*found, amount) for found, amount in sums.items()]


def payer_of(row: RequestRow) -> Payer:
    model = row.route if row.budget else row.model
    return Payer(row.key, row.team, row.user, row.route, model, row.end_user)


def add_spend(session: Session, spend: Sequence[Spend], at: float) -> None:
    """Add to the sums. at: Unix seconds."""
    if not spend:
        return
    session.run("UPDATE spend_version SET version = version + 1")
    version = _version(session)
    rows = [_values(one) for one in sorted(spend, key=lambda one: (one.slot, one.payer))]
    session.insert(_SPEND, rows)
    session.insert(_CHANGE, [(version, at, *row) for row in rows])


def note_imported(session: Session, rows: Iterable[RequestRow], at: float) -> None:
    """Remember which batches of which writers are in the store."""
    last: dict[str, int] = {}
    for row in rows:
        if row.writer:
            last[row.writer] = max(last.get(row.writer, 0), row.batch)
    session.insert(_WRITER, [(writer, batch, at) for writer, batch in sorted(last.items())])


def fold_old_spend(session: Session, before: float) -> None:
    """Take the time off old sums. before: Unix seconds."""
    limit = slot_of(before)
    sql = f"""INSERT INTO spend (slot, {_COLUMNS}) SELECT 0, {_PAYER},
        CAST(SUM(nanos) AS BIGINT), CAST(SUM(tokens) AS BIGINT), CAST(SUM(unpriced) AS BIGINT)
        FROM spend WHERE slot > 0 AND slot < ? GROUP BY {_PAYER}
        {_ADD}"""
    session.run(sql, limit)
    session.run("DELETE FROM spend WHERE slot > 0 AND slot < ?", limit)


class SpendRows:
    """The sums and what is held, in one database. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, version: int, windows: Sequence[tuple[int, int]], holder: str) -> SpendReading:
        """Read what has changed since a version (-1: none is known), and whole windows.

        windows: the first slot of each, and the first after it. holder: the reader's own id.
        """
        with self._database.reading() as session:
            last = _version(session)
            return SpendReading(
                version=last,
                whole=tuple([_window(session, *window) for window in windows]),
                changes=_changes(session, version, last),
                imported=dict(session.rows(tuple[str, int], _WRITERS)),
                held={
                    (by, budget, subject): amount
                    for by, budget, subject, amount in session.rows(_HeldRow, _OTHERS, holder)
                },
                beats=dict(session.rows(tuple[str, int], _BEATS, holder)),
            )

    def first_request(self) -> float | None:
        """Return when the first request ended that is still kept, Unix seconds; `None`: none."""
        with self._database.reading() as session:
            return session.rows(tuple[float | None], "SELECT MIN(time) FROM requests")[0][0]

    def hold(
        self, holder: str, beat: int, version: int, wanted: Sequence[Holding]
    ) -> tuple[int, ...]:
        """Hold what is wanted, as far as there is room with everything spent since that version.

        Return what is held now of each.
        """
        with self._database.writing() as session:
            session.run(_BEAT, holder, beat)
            changes = _changes(session, version, _version(session))
            return tuple([_hold(session, holder, one, changes) for one in wanted])

    def leave(self, holder: str) -> bool:
        """Hold nothing any more; return whether it held something."""
        with self._database.writing() as session:
            held = session.run("DELETE FROM budget_holds WHERE holder = ?", holder)
            session.run("DELETE FROM budget_holders WHERE holder = ?", holder)
            return held > 0


def _changes(session: Session, version: int, last: int) -> tuple[Spend, ...] | None:
    """What has changed since a version; `None` if that is not known any more."""
    if version == last:
        return ()
    oldest = session.rows(tuple[int], "SELECT COALESCE(MIN(version), -1) FROM spend_changes")[0][0]
    if version < 0 or not 0 <= oldest <= version + 1:
        return None
    sql = f"SELECT slot, {_COLUMNS} FROM spend_changes WHERE version > ?"
    found = session.rows(_Row, sql, version)
    return tuple([Spend(row[0], Payer(*row[1:7]), Amount(*row[7:])) for row in found])


def _hold(session: Session, holder: str, one: Holding, changes: tuple[Spend, ...] | None) -> int:
    """changes: `None` if what was spent since the reading is unknown; then no more is granted."""
    others = session.rows(
        tuple[int],
        "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM budget_holds"
        " WHERE budget = ? AND subject = ? AND holder <> ?",
        one.budget,
        one.subject,
        holder,
    )[0][0]
    known = session.rows(
        tuple[int],
        "SELECT amount FROM budget_holds WHERE budget = ? AND subject = ? AND holder = ?",
        one.budget,
        one.subject,
        holder,
    )
    before = known[0][0] if known else 0
    room = before if changes is None else one.free - others - sum(map(one.counts, changes))
    amount = max(one.least, min(one.amount, max(room, before)))
    if amount != before:
        session.run(_HELD, holder, one.budget, one.subject, amount)
        session.run("DELETE FROM budget_holds WHERE holder = ? AND amount = 0", holder)
    return amount


def _window(session: Session, begin: int, end: int) -> Mapping[Payer, Amount]:
    found = session.rows(
        tuple[str, str, str, str, str, str, int, int, int],
        f"SELECT {_PAYER}, CAST(SUM(nanos) AS BIGINT),"
        " CAST(SUM(tokens) AS BIGINT), CAST(SUM(unpriced) AS BIGINT) FROM spend"
        f" WHERE slot >= ? AND slot < ? GROUP BY {_PAYER}",
        begin,
        end,
    )
    return {Payer(*row[:6]): Amount(*row[6:]) for row in found}


def _version(session: Session) -> int:
    return session.rows(tuple[int], "SELECT version FROM spend_version")[0][0]


def _values(one: Spend) -> tuple[int, str, str, str, str, str, str, int, int, int]:
    payer, amount = one.payer, one.amount
    who = (payer.key, payer.team, payer.user)
    model = payer.model.replace("\0", "\ufffd")
    where = (payer.route, model, payer.end_user)
    return (one.slot, *who, *where, amount.nanos, amount.tokens, amount.unpriced)


_HeldRow = tuple[str, str, str, int]
_WRITERS: Final = "SELECT writer, batch FROM spend_writers"
_OTHERS: Final = "SELECT holder, budget, subject, amount FROM budget_holds WHERE holder <> ?"
_BEATS: Final = "SELECT holder, beat FROM budget_holders WHERE holder <> ?"
_Row = tuple[int, str, str, str, str, str, str, int, int, int]
_SPENT: Final = (*Payer.__struct_fields__, *Amount.__struct_fields__)
_PAYER: Final = listed(Payer.__struct_fields__)
_COLUMNS: Final = listed(_SPENT)
_ADD: Final = f"""ON CONFLICT (slot, {_PAYER}) DO UPDATE SET
    nanos = spend.nanos + excluded.nanos, tokens = spend.tokens + excluded.tokens,
    unpriced = spend.unpriced + excluded.unpriced"""
_SPEND: Final = Insert(table="spend", columns=("slot", *_SPENT), otherwise=_ADD)
_CHANGE: Final = Insert(table="spend_changes", columns=("version", "time", "slot", *_SPENT))
_WRITER: Final = Insert(
    table="spend_writers",
    columns=("writer", "batch", "time"),
    otherwise="""ON CONFLICT (writer) DO UPDATE SET time = excluded.time,
    batch = CASE WHEN excluded.batch > spend_writers.batch
    THEN excluded.batch ELSE spend_writers.batch END""",
)
_BEAT: Final = """INSERT INTO budget_holders (holder, beat) VALUES (?, ?)
    ON CONFLICT (holder) DO UPDATE SET beat = excluded.beat"""
_HELD: Final = """INSERT INTO budget_holds (holder, budget, subject, amount) VALUES (?, ?, ?, ?)
    ON CONFLICT (budget, subject, holder) DO UPDATE SET amount = excluded.amount"""
