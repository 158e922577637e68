"""The chain of the audit log: whatever is done to its rows is found, and which row it was."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from strowger_gateway.gateway.audit.chain import (
    NO_HASH,
    AuditRow,
    ChainHead,
    chained,
    hash_of,
    line_of,
    row_of,
)
from strowger_gateway.gateway.audit.event import Action, ActorKind, AuditEvent, Change, Outcome
from strowger_gateway.gateway.audit.verification import ChainCheck, ChainProblem

COLUMNS = [name for name in AuditRow.__struct_fields__ if name not in ("seq", "hash")]

texts = st.text(max_size=12)
changes = st.builds(Change, field=texts, old=st.none() | texts, new=texts)
events = st.builds(
    AuditEvent,
    action=st.sampled_from([one for one in get_args(Action) if one != "audit.prune"]),
    outcome=st.sampled_from(get_args(Outcome)),
    actor_kind=st.sampled_from(get_args(ActorKind)),
    actor=texts,
    address=st.sampled_from(["", "10.0.0.1", "2001:db8::1"]),
    target=texts,
    reason=texts,
    facts=st.dictionaries(texts, texts, max_size=2),
    changes=st.lists(changes, max_size=2).map(tuple),
    count=st.integers(1, 1000),
    time=st.floats(0, 4e9),
)
histories = st.lists(events, min_size=1, max_size=8)
Rows = list[AuditRow]


def chain(history: Sequence[AuditEvent]) -> tuple[Rows, ChainHead]:
    rows, head = list[AuditRow](), ChainHead(seq=0, hash=NO_HASH)
    for event in history:
        rows.append(chained(event, head))
        head = ChainHead(seq=rows[-1].seq, hash=rows[-1].hash)
    return rows, head


def found(rows: Rows, head: ChainHead, expected: str = "") -> list[ChainProblem]:
    """Return the problems of rows that the store returns in order of `seq`."""
    check = ChainCheck(expected)
    for row in sorted(rows, key=lambda one: one.seq):
        check.add(row)
    check.finish(head)
    return check.problems


def rehashed(row: AuditRow) -> AuditRow:
    """Return a row with the hash that it should have, as a careful forger writes it."""
    return replace(row, hash=hash_of(row))


def edited(row: AuditRow, column: str) -> AuditRow:
    value = getattr(row, column)
    return replace(row, **{column: value + 1 if isinstance(value, int) else f"{value}x"})


@given(histories)
def test_every_history_verifies(history: list[AuditEvent]) -> None:
    rows, head = chain(history)

    assert found(rows, head) == []
    assert all(found(rows, head, row.hash) == [] for row in rows)


def changed(rows: Rows, at: int, column: str) -> Rows:
    return [*rows[:at], edited(rows[at], column), *rows[at + 1 :]]


def replaced(rows: Rows, at: int, column: str) -> Rows:
    """Change a row and compute its hash anew, but not those of later rows."""
    return [*rows[:at], rehashed(edited(rows[at], column)), *rows[at + 1 :]]


def removed(rows: Rows, at: int, column: str) -> Rows:
    return [*rows[:at], *rows[at + 1 :]]


def cut_off(rows: Rows, at: int, column: str) -> Rows:
    return rows[:at]


def beheaded(rows: Rows, at: int, column: str) -> Rows:
    """Remove all rows up to one, without a row that says so."""
    return rows[at + 1 :]


def swapped(rows: Rows, at: int, column: str) -> Rows:
    """Exchange a row's place with that of the next one, or of the first for the last."""
    other = (at + 1) % len(rows)
    assume(at != other)
    moved = list(rows)
    moved[at] = replace(rows[at], seq=rows[other].seq)
    moved[other] = replace(rows[other], seq=rows[at].seq)
    return moved


def swapped_well(rows: Rows, at: int, column: str) -> Rows:
    """The same, with new hashes for both."""
    return [
        rehashed(row) if row != old else row
        for row, old in zip(swapped(rows, at, column), rows, strict=True)
    ]


def inserted(rows: Rows, at: int, column: str) -> Rows:
    """Move all rows from one on by a place, and put a forged one there, with its own hash."""
    later = [replace(row, seq=row.seq + 1) for row in rows[at:]]
    return [*rows[:at], rehashed(replace(rows[at], id="forged", actor="mallory")), *later]


def appended(rows: Rows, at: int, column: str) -> Rows:
    """Put a forged row at the end, as if it had been appended, but leave the head."""
    last = rows[-1]
    forged = replace(last, seq=last.seq + 1, id="forged", prev=last.hash)
    return [*rows, rehashed(forged)]


EDITS = (changed, replaced, removed, cut_off, inserted)
MOVES = (beheaded, swapped, swapped_well, appended)


@pytest.mark.parametrize("tampering", [*EDITS, *MOVES])
@given(history=histories, place=st.integers(0, 30), column=st.sampled_from(COLUMNS))
def test_every_change_of_the_rows_is_found_next_to_where_it_was_made(
    tampering: Callable[[Rows, int, str], Rows],
    history: list[AuditEvent],
    place: int,
    column: str,
) -> None:
    rows, head = chain(history)
    at = place % len(rows)

    problems = found(tampering(rows, at, column), head)

    assert problems
    if tampering in EDITS:
        assert problems[0].seq in (rows[at].seq, rows[at].seq + 1)


@given(
    st.lists(events, min_size=2, max_size=8),
    st.lists(st.sampled_from([*EDITS, *MOVES]), min_size=1, max_size=3),
    st.lists(st.integers(0, 30), min_size=3, max_size=3),
    st.sampled_from(COLUMNS),
)
def test_several_changes_do_not_hide_each_other(
    history: list[AuditEvent],
    tamperings: list[Callable[[Rows, int, str], Rows]],
    places: list[int],
    column: str,
) -> None:
    rows, head = chain(history)
    tampered = rows
    for tampering, place in zip(tamperings, places, strict=False):
        assume(tampered)
        tampered = tampering(tampered, place % len(tampered), column)
    assume(sorted(tampered, key=lambda one: one.seq) != rows)

    assert found(tampered, head)


@given(history=histories, place=st.integers(0, 30))
def test_a_new_end_of_the_whole_chain_is_found_by_a_hash_from_elsewhere(
    history: list[AuditEvent], place: int
) -> None:
    """The forger computes everything anew, the head too: nothing in the database shows that."""
    rows, head = chain(history)
    at = place % len(rows)
    forged, forged_head = chain([*history[:at], replace(history[at], actor="mallory")])

    assert found(rows[:at], ChainHead(seq=at, hash=rows[at].prev)) == []
    assert found(forged, forged_head) == []
    for rest, end in ((rows[:at], ChainHead(seq=at, hash=rows[at].prev)), (forged, forged_head)):
        if end == head:
            continue
        assert [one.problem for one in found(rest, end, head.hash)] == [
            f"no row has the hash {head.hash}: rows were removed from the end, or all rows since "
            "were replaced"
        ]


@given(events)
def test_a_line_is_checked_with_nothing_but_sha256(event: AuditEvent) -> None:
    """As docs/audit.md says: the hash is that of the line without its last member."""
    (row,), _ = chain([event])
    line = line_of(row)
    body, _, rest = line.rpartition(b',"hash":')

    assert sha256(body + b"}").hexdigest() == row.hash == rest.decode().strip('"}')
    assert row_of(line) == row
    assert b"\n" not in line


def test_what_looks_like_a_key_is_in_no_row() -> None:
    secret = "sk-strw-" + "a1B2c3D4e5" * 5
    event = AuditEvent(
        action="admin.access",
        actor_kind="unknown",
        actor=secret,
        target=f"DELETE /admin/keys/{secret}",
        reason=f"wrong: {secret}",
        facts={"sent": f"x{secret}"},
        changes=(Change(field=secret, old=secret, new=f"{secret}, and more"),),
    )

    assert secret.encode()[8:30] not in line_of(chain([event])[0][0])


def test_a_huge_event_is_cut() -> None:
    many = tuple(Change(field=f"models[{at}]", old="é" * 5_000, new="x") for at in range(3_000))
    event = AuditEvent(
        action="config.reload", actor_kind="config", reason="r" * 100_000, changes=many
    )

    (row,), _ = chain([event])

    assert len(line_of(row)) < 80_000
    assert '"changes_left_out":"' in row.detail
