"""What was used, in sums by quarter of an hour and payer, which outlive the requests themselves.

Reports read them instead of the requests: there are fewer, and a request's team and tags are those
of the moment it was sent.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Insert, Session, listed, marks, pieces
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, RequestRow
from strowger_gateway.gateway.storage.sql.spend_rows import MOST_TOKENS, MOST_USD, NANOS, slot_of

OTHERS: Final = "(others)"
"""Stands for what clients say of themselves beyond MOST_CLAIMED."""

MOST_CLAIMED: Final = 5000
"""Payers per key. Clients choose their names and tags, so without a bound they would decide how
much is stored for as long as usage is kept."""

_MAX_PAYERS: Final = 64
"""Payers per statement; a power of two."""


class UsagePayer(Struct, frozen=True, order=True):
    """Whom attempts are charged to, and what answered; the fields are columns.

    key, team, user, tags: of the API key when the request was sent; tags in order, each once.
    route: the model's own name. role: as of AttemptRow.
    client, request_tags, end_user: what clients claim; OTHERS if their key has MOST_CLAIMED payers.
    """

    key: str
    team: str
    user: str
    tags: tuple[str, ...]
    route: str
    backend: str
    role: str
    client: str = ""
    request_tags: tuple[str, ...] = ()
    end_user: str = ""


class UsageCounts(Struct, frozen=True):
    """attempts: at backends. nanos: 10⁻⁹ US dollars.

    unpriced: attempts that used tokens and whose cost is unknown. estimated_tokens: of prompts and
    answers whose backend reported none; 0 for usage from before they were counted.
    """

    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    nanos: int = 0
    unpriced: int = 0
    estimated_tokens: int = 0

    def __add__(self, other: "UsageCounts") -> "UsageCounts":
        return UsageCounts(
            self.attempts + other.attempts,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.nanos + other.nanos,
            self.unpriced + other.unpriced,
            self.estimated_tokens + other.estimated_tokens,
        )


class Usage(Struct, frozen=True):
    """What one payer has used in one period. period: its index."""

    period: int
    payer: UsagePayer
    counts: UsageCounts


UsageSums = Mapping[tuple[int, UsagePayer], UsageCounts]
"""By slot, as of spend_rows, and payer."""


def usage_of(
    requests: Iterable[RequestRow], attempts: Iterable[AttemptRow], copies: Iterable[AttemptRow]
) -> UsageSums:
    """Add up the attempts of these requests, and these copies for mirrors.

    copies: those among the attempts that are new; they come apart from their requests.
    """
    owners = {row.request_id: row for row in requests}
    sums: dict[tuple[int, UsagePayer], UsageCounts] = {}
    for one in (*(row for row in attempts if row.role != "mirror"), *copies):
        owner = one if one.role == "mirror" else owners.get(one.request_id)
        if owner is not None:
            place = slot_of(one.time), _payer(owner, one)
            sums[place] = sums.get(place, _NOTHING) + _counts(one)
    return sums


def new_copies(session: Session, attempts: Iterable[AttemptRow]) -> list[AttemptRow]:
    """Return the attempts at mirrors that the store does not have, each once."""
    found = {(row.request_id, row.number): row for row in attempts if row.role == "mirror"}
    for ids in pieces(sorted({request_id for request_id, _ in found})):
        sql = f"SELECT request_id, number FROM attempts WHERE request_id IN ({marks(ids)})"
        for place in session.rows(tuple[str, int], sql, *ids):
            found.pop(place, None)
    return list(found.values())


def add_usage(session: Session, sums: UsageSums) -> None:
    """Add to what the store has."""
    kept = _bounded(session, {payer for _, payer in sums})
    ids = _ids(session, sorted(set(kept.values())))
    added: dict[tuple[int, int], UsageCounts] = {}
    for (slot, payer), counts in sums.items():
        place = slot, ids[kept[payer]]
        added[place] = added.get(place, _NOTHING) + counts
    rows = [(*place, *msgspec.structs.astuple(counts)) for place, counts in added.items()]
    session.insert(_SUMS, sorted(rows))


def drop_old_usage(session: Session, before: float) -> None:
    """Delete sums, and payers without any. before: Unix seconds."""
    if not session.run("DELETE FROM usage_sums WHERE slot < ?", slot_of(before)):
        return
    session.run("DELETE FROM usage_payers WHERE id NOT IN (SELECT payer FROM usage_sums)")


def usage(session: Session, periods: Sequence[tuple[int, int]]) -> list[Usage]:
    """Return what was used in each period. periods: as of SqlStore.usage."""
    sql = f"SELECT id, {_COLUMNS} FROM usage_payers"
    payers = dict(_read(session.rows(_PayerRow, sql)))
    return [
        Usage(place, payers[id], UsageCounts(*counts))
        for place, (begin, end) in enumerate(periods)
        for id, *counts in session.rows(_SumRow, _USED, begin, end)
    ]


def _ids(session: Session, wanted: Sequence[UsagePayer]) -> dict[UsagePayer, int]:
    """Return the ids of payers; new ones get one."""
    ids = _known(session, wanted)
    missing = [payer for payer in wanted if payer not in ids]
    if missing:
        sql = "SELECT COALESCE(MAX(id), 0) FROM usage_payers"
        last = session.rows(tuple[int], sql)[0][0]
        ids.update({payer: last + place for place, payer in enumerate(missing, 1)})
        session.insert(_PAYERS, [(ids[payer], *_texts(payer)) for payer in missing])
    return ids


def _known(session: Session, wanted: Sequence[UsagePayer]) -> dict[UsagePayer, int]:
    """Return the ids of the payers that the store has."""
    ids: dict[UsagePayer, int] = {}
    for piece in pieces(wanted, _MAX_PAYERS):
        which = " OR ".join([f"({_SAME})"] * len(piece))
        sql = f"SELECT id, {_COLUMNS} FROM usage_payers WHERE {which}"
        texts = [text for payer in piece for text in _texts(payer)]
        ids.update((payer, id) for id, payer in _read(session.rows(_PayerRow, sql, *texts)))
    return ids


def _bounded(session: Session, payers: Collection[UsagePayer]) -> dict[UsagePayer, UsagePayer]:
    """Return what each payer is stored as: without its claims if its key has too many already."""
    kept = {payer: payer for payer in payers}
    claiming = sorted(payer for payer in payers if payer.client or payer.request_tags)
    if not claiming:
        return kept
    known = _known(session, claiming)
    counts: dict[str, int] = {}
    for payer in claiming:
        if payer in known:
            continue
        if payer.key not in counts:
            sql = "SELECT COUNT(*) FROM usage_payers WHERE key = ?"
            counts[payer.key] = session.rows(tuple[int], sql, payer.key)[0][0]
        if counts[payer.key] >= MOST_CLAIMED:
            tags = (OTHERS,) if payer.request_tags else ()
            user = payer.end_user and OTHERS
            claims = {"client": OTHERS, "request_tags": tags, "end_user": user}
            kept[payer] = msgspec.structs.replace(payer, **claims)
        else:
            counts[payer.key] += 1
    return kept


def _payer(owner: RequestRow | AttemptRow, attempt: AttemptRow) -> UsagePayer:
    who = (owner.key, owner.team, owner.user)
    tags = tuple(sorted(set(owner.tags))) if owner.tags else ()
    claimed = _clean(owner.client), tuple(map(_clean, owner.request_tags)), owner.end_user
    return UsagePayer(*who, tags, owner.route, _clean(attempt.backend), attempt.role, *claimed)


def _counts(one: AttemptRow) -> UsageCounts:
    """The integer that a cost was made from, exactly."""
    prompt = min(one.prompt_tokens or 0, MOST_TOKENS)
    completion = min(one.completion_tokens or 0, MOST_TOKENS)
    return UsageCounts(
        1,
        prompt,
        completion,
        min(one.cached_tokens or 0, MOST_TOKENS),
        min(one.cache_write_tokens or 0, MOST_TOKENS),
        min(one.reasoning_tokens or 0, MOST_TOKENS),
        round(min(one.cost_usd or 0.0, MOST_USD) * NANOS),
        int(one.cost_usd is None and one.usage_source != ""),
        prompt + completion if one.usage_source == "estimated" else 0,
    )


def _texts(payer: UsagePayer) -> tuple[str, ...]:
    tags, sent = _encode(payer.tags).decode(), _encode(payer.request_tags).decode()
    who = payer.key, payer.team, payer.user, tags, payer.route, payer.backend, payer.role
    return *who, payer.client, sent, payer.end_user


def _read(rows: Iterable["_PayerRow"]) -> Iterator[tuple[int, UsagePayer]]:
    for id, key, team, user, tags, route, backend, role, client, sent, end_user in rows:
        who = key, team, user, _tags.decode(tags)
        claimed = client, _tags.decode(sent), end_user
        yield id, UsagePayer(*who, route, backend, role, *claimed)


def _clean(text: str) -> str:
    """Replace NUL, which names from clients may contain and PostgreSQL texts may not."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


_NOTHING: Final = UsageCounts()
_PAYER: Final = UsagePayer.__struct_fields__
_COLUMNS: Final = listed(_PAYER)
_PayerRow = tuple[int, str, str, str, str, str, str, str, str, str, str]
_COUNTS: Final = UsageCounts.__struct_fields__
_SAME: Final = " AND ".join(f'"{one}" = ?' for one in _PAYER)
_SumRow = tuple[int, int, int, int, int, int, int, int, int, int]
_USED: Final = (
    f"SELECT payer, {', '.join(f'CAST(SUM({one}) AS BIGINT)' for one in _COUNTS)} FROM usage_sums"
    " WHERE slot >= ? AND slot < ? GROUP BY payer"
)
_encode = msgspec.json.encode
_tags = msgspec.json.Decoder(tuple[str, ...])
_PAYERS: Final = Insert(table="usage_payers", columns=("id", *_PAYER))
_SUMS: Final = Insert(
    table="usage_sums",
    columns=("slot", "payer", *_COUNTS),
    otherwise="ON CONFLICT (slot, payer) DO UPDATE SET "
    + ", ".join(f"{one} = usage_sums.{one} + excluded.{one}" for one in _COUNTS),
)
