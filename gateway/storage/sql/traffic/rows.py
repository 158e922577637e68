"""The sums of traffic in the store: written with the requests, and folded to coarser ones later.

A place is what a sum is about: a model and a backend, of all clients, of a team, or of a key. Every
request counts in up to three places, so that a question about one of them reads no other rows.
Names are those of the configuration and of keys, so that clients cannot increase their number.

A sum is of 5 seconds at first. It moves to one of a minute, of 15 minutes, of an hour and of 8
hours when no window needs it as it is any more; a request that comes late moves on its own. So
every request is in exactly one sum of each of its places, and reading a window adds up what is in
it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Insert, Session, listed, marks, pieces
from strowger_gateway.gateway.storage.sql.rows import RequestRow
from strowger_gateway.gateway.storage.sql.traffic.counting import (
    COUNTS,
    FINEST_S,
    Alike,
    TrafficSums,
    count,
)
from strowger_gateway.gateway.storage.sql.traffic.sketch_texts import merge_text, text_of

COARSER: Final = (
    (5, 60, 960),
    (60, 900, 4500),
    (900, 3600, 90_000),
    (3600, 28_800, 691_200),
)
"""Seconds of a sum, of the one that it moves to, and its age then: more than any window needs."""

KEPT_S: Final = 31 * 86_400
"""The longest window, and a day."""

FOLDED: Final = 4_000
"""Sums that move at each import, at most."""

_MAX_PLACES: Final = 64
"""Places per statement; a power of two."""

Scope = Literal["all", "team", "key"]


class TrafficPlace(Struct, frozen=True, order=True):
    """What a sum is about; the fields are columns.

    scope:   whose traffic: of all clients, of a team with an empty key, or of a key with its team.
    backend: as configured; "" for requests without an attempt.
    """

    scope: Scope
    model: str
    backend: str
    key: str = ""
    team: str = ""


TrafficByPlace = Mapping[tuple[int, TrafficPlace], TrafficSums]
"""By the start of their 5 seconds, Unix seconds, and place."""


def traffic_of(requests: Iterable[RequestRow]) -> TrafficByPlace:
    """Add up requests and their attempts; those of copies for mirrors are not among them."""
    by_key: dict[tuple[int, str, str, str, str], TrafficSums] = {}
    for row in requests:
        slot = int(row.time) // FINEST_S * FINEST_S

        def at(backend: str, row: RequestRow = row, slot: int = slot) -> TrafficSums:
            place = slot, row.route, backend, row.key, row.team
            found = by_key.get(place)
            if found is None:
                found = by_key[place] = TrafficSums()
            return found

        first_ms = () if row.ttft_ms is None else (row.ttft_ms,)
        count(
            Alike(
                row.route,
                row.status,
                row.error,
                row.attempted,
                1,
                (row.ms,),
                first_ms,
                row.prompt_tokens or 0,
                row.completion_tokens or 0,
            ),
            at,
        )
    found: dict[tuple[int, TrafficPlace], TrafficSums] = {}
    for (slot, model, backend, key, team), sums in by_key.items():
        places = [TrafficPlace("all", model, backend)]
        if team:
            places.append(TrafficPlace("team", model, backend, "", team))
        if key:
            places.append(TrafficPlace("key", model, backend, key, team))
        for place in places:
            known = found.get((slot, place))
            if known is None:
                known = found[slot, place] = TrafficSums()
            known.add(sums)
    return found


def add_traffic(session: Session, sums: TrafficByPlace) -> None:
    """Add to what the store has. Only in a transaction that is alone: sketches are read first."""
    if not sums:
        return
    ids = _ids(session, sorted({place for _, place in sums}))
    _merge(session, FINEST_S, {(slot, ids[place]): one for (slot, place), one in sums.items()})


def fold_traffic(session: Session, now: float, most: int = FOLDED) -> int:
    """Move old sums to coarser ones, oldest first; return how many, up to `most`.

    now: Unix seconds. Only in a transaction that is alone.
    """
    moved = 0
    for span, into, age_s in COARSER:
        before = int(now - age_s) // into * into
        rows = session.rows(_SumRow, _OLDEST, span, before, most - moved)
        if not rows:
            continue
        coarse: dict[tuple[int, int], TrafficSums] = {}
        for slot, place, *numbers, latency, ttft in rows:
            sums = coarse.setdefault((slot // into * into, place), TrafficSums())
            _add_row(sums, numbers, latency, ttft)
        _merge(session, into, coarse)
        slot, place = rows[-1][:2]
        session.run(_FORGET, span, slot, slot, place)
        moved += len(rows)
        if moved >= most:
            break
    return moved


def drop_old_traffic(session: Session, before: float) -> None:
    """Delete sums, and places without any. before: Unix seconds."""
    if session.run("DELETE FROM traffic_sums WHERE slot < ?", int(before)):
        session.run("DELETE FROM traffic_places WHERE id NOT IN (SELECT place FROM traffic_sums)")


def read_sums(
    session: Session, places: Sequence[int], begin: int, end: int, step: int
) -> dict[tuple[int, int], TrafficSums]:
    """Add up what is in a window, by place and by the start of its cell.

    begin, end, step: of the window and of its cells, Unix seconds and seconds.
    """
    found: dict[tuple[int, int], TrafficSums] = {}
    for some in pieces(places):
        sql = _WITHIN.format(marks=marks(some))
        for slot, place, *numbers, latency, ttft in session.rows(_SumRow, sql, *some, begin, end):
            at = place, slot // step * step
            sums = found.get(at)
            if sums is None:
                sums = found[at] = TrafficSums()
            _add_row(sums, numbers, latency, ttft)
    return found


def _add_row(sums: TrafficSums, numbers: Sequence[int], latency: str, ttft: str) -> None:
    sums.add_counts(numbers)
    merge_text(sums.latency, latency)
    merge_text(sums.ttft, ttft)


def _merge(session: Session, span: int, sums: Mapping[tuple[int, int], TrafficSums]) -> None:
    """Add sums by slot and place: counts in the database, sketches here."""
    by_slot: dict[int, list[int]] = {}
    for slot, place in sums:
        by_slot.setdefault(slot, []).append(place)
    for slot, places in by_slot.items():
        for some in pieces(sorted(places)):
            sql = _SKETCHES.format(marks=marks(some))
            for place, latency, ttft in session.rows(_SketchRow, sql, span, slot, *some):
                merge_text(sums[slot, place].latency, latency)
                merge_text(sums[slot, place].ttft, ttft)
    session.insert(
        _SUMS,
        [
            (
                span,
                slot,
                place,
                *one.counts,
                text_of(one.latency.counts),
                text_of(one.ttft.counts),
            )
            for (slot, place), one in sorted(sums.items(), key=_by_place)
        ],
    )


def _by_place(item: tuple[tuple[int, int], TrafficSums]) -> tuple[int, int]:
    (slot, place), _ = item
    return place, slot


def _ids(session: Session, wanted: Sequence[TrafficPlace]) -> dict[TrafficPlace, int]:
    """Return the ids of places; new ones get one."""
    names = {_clean(place): place for place in wanted}
    ids: dict[TrafficPlace, int] = {}
    for piece in pieces(list(names), _MAX_PLACES):
        which = " OR ".join([f"({_SAME})"] * len(piece))
        sql = f"SELECT id, {_PLACE} FROM traffic_places WHERE {which}"
        texts = [text for place in piece for text in place]
        for id, *place in session.rows(_PlaceRow, sql, *texts):
            ids[names[tuple(place)]] = id
    missing = [(name, place) for name, place in names.items() if place not in ids]
    if missing:
        ((last,),) = session.rows(tuple[int], "SELECT COALESCE(MAX(id), 0) FROM traffic_places")
        ids.update({place: last + number for number, (_, place) in enumerate(missing, 1)})
        session.insert(_PLACES, [(ids[place], *name) for name, place in missing])
    for place in wanted:
        ids.setdefault(place, ids[names[_clean(place)]])
    return ids


def _clean(place: TrafficPlace) -> tuple[str, ...]:
    """Return the columns, without NUL, which PostgreSQL's texts cannot have."""
    texts = place.scope, place.model, place.backend, place.key, place.team
    return tuple(text.replace("\0", "\ufffd") if "\0" in text else text for text in texts)


_FIELDS: Final = TrafficPlace.__struct_fields__
_PLACE: Final = listed(_FIELDS)
_SAME: Final = " AND ".join(f'"{one}" = ?' for one in _FIELDS)
_PlaceRow = tuple[int, str, str, str, str, str]
_SketchRow = tuple[int, str, str]
_SumRow = tuple[int, int, int, int, int, int, int, int, int, int, str, str]
_COLUMNS: Final = f"slot, place, {', '.join(COUNTS)}, latency, ttft"
_OLDEST: Final = (
    f"SELECT {_COLUMNS} FROM traffic_sums WHERE span = ? AND slot < ? ORDER BY slot, place LIMIT ?"
)
_FORGET: Final = (
    "DELETE FROM traffic_sums WHERE span = ? AND (slot < ? OR (slot = ? AND place <= ?))"
)
_WITHIN: Final = (
    f"SELECT {_COLUMNS} FROM traffic_sums WHERE place IN ({{marks}}) AND slot >= ? AND slot < ?"
)
_SKETCHES: Final = (
    "SELECT place, latency, ttft FROM traffic_sums WHERE span = ? AND slot = ? "
    "AND place IN ({marks})"
)
_PLACES: Final = Insert(table="traffic_places", columns=("id", *_FIELDS))
_SUMS: Final = Insert(
    table="traffic_sums",
    columns=("span", "slot", "place", *COUNTS, "latency", "ttft"),
    otherwise="ON CONFLICT (place, slot, span) DO UPDATE SET "
    + ", ".join(f"{one} = traffic_sums.{one} + excluded.{one}" for one in COUNTS)
    + ", latency = excluded.latency, ttft = excluded.ttft",
)
