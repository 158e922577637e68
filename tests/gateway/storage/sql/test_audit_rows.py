"""The audit log in the database: one chain, whoever appends, of which old rows are pruned."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.audit.chain import NO_HASH, AuditRow, ChainHead, timestamp
from strowger_gateway.gateway.audit.event import Action, AuditEvent
from strowger_gateway.gateway.audit.verification import ChainCheck, ChainProblem
from strowger_gateway.gateway.storage.sql.audit_rows import AuditQuery
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.secret import Secret

EVENT = AuditEvent(action="gateway.start", actor_kind="gateway")
PRUNE = AuditEvent(action="audit.prune", actor_kind="gateway")


def event(number: int, action: Action = "key.create", actor: str = "ada") -> AuditEvent:
    return AuditEvent(
        action=action, actor_kind="session", actor=actor, target=f"k{number}", time=float(number)
    )


def rows(store: SqlStore) -> list[AuditRow]:
    return [one for one in store.audit.chain() if isinstance(one, AuditRow)]


def problems(store: SqlStore) -> Sequence[ChainProblem]:
    check = ChainCheck()
    for one in store.audit.chain():
        if isinstance(one, ChainHead):
            check.finish(one)
        else:
            check.add(one)
    return check.problems


def test_a_new_database_has_an_empty_chain(store: SqlStore) -> None:
    assert list(store.audit.chain()) == [ChainHead(seq=0, hash=NO_HASH)]
    assert problems(store) == []


def test_threads_and_connections_append_to_one_chain(store: SqlStore, url: Secret) -> None:
    other = open_store(url)
    stores, per_thread = [store, other] * 3, 8

    def append(number: int) -> None:
        for at in range(per_thread):
            stores[number].audit.append([event(number * 100 + at), event(number * 100 + at + 50)])

    with ThreadPoolExecutor(len(stores)) as threads:
        list(threads.map(append, range(len(stores))))
    other.close()
    found = rows(store)

    assert [row.seq for row in found] == list(range(1, 2 * per_thread * len(stores) + 1))
    assert all(one.hash == other.prev for one, other in pairwise(found))
    assert problems(store) == []


def test_an_event_that_arrives_twice_has_one_row(store: SqlStore) -> None:
    store.audit.append([EVENT])
    store.audit.append([EVENT, EVENT, event(2)])

    assert [row.target for row in rows(store)] == ["", "k2"]
    assert problems(store) == []


def test_texts_that_no_database_can_store_are_replaced(store: SqlStore) -> None:
    store.audit.append([replace(EVENT, actor="a\0b\ud800\n", facts={"x\0": "\0"})])

    assert rows(store)[0].actor == "a\ufffdb\ufffd\ufffd"
    assert problems(store) == []


def test_pruned_rows_are_named_by_the_row_that_is_left(store: SqlStore) -> None:
    store.audit.append([event(at) for at in range(6)])

    removed = store.audit.prune(timestamp(3), PRUNE)
    again = store.audit.prune(timestamp(3), replace(PRUNE, id="again"))
    left = rows(store)

    assert (removed, again) == (3, 0)
    assert [(row.seq, row.action) for row in left] == [
        *((seq, "key.create") for seq in (4, 5, 6)),
        (7, "audit.prune"),
    ]
    assert problems(store) == []


def test_a_late_event_with_an_early_time_keeps_the_rows_before_it(store: SqlStore) -> None:
    """Only a whole beginning is pruned, or the rest would not verify."""
    store.audit.append([event(1), event(9), event(2)])

    assert store.audit.prune(timestamp(5), PRUNE) == 1
    assert [row.seq for row in rows(store)] == [2, 3, 4]
    assert problems(store) == []


def test_everything_can_be_pruned_again_and_again(store: SqlStore) -> None:
    store.audit.append([event(1), event(2)])
    store.audit.prune(timestamp(5), replace(PRUNE, time=6.0))
    store.audit.append([event(7)])
    store.audit.prune(timestamp(8), replace(PRUNE, id="later", time=9.0))

    assert [row.seq for row in rows(store)] == [5]
    assert problems(store) == []


def test_rows_removed_at_the_beginning_are_missed(store: SqlStore) -> None:
    store.audit.append([event(at) for at in range(6)])
    store.audit.prune(timestamp(3), PRUNE)
    with store.audit._database.writing() as session:  # pyright: ignore[reportPrivateUsage]
        session.run("DELETE FROM audit_rows WHERE seq = 4")

    assert [one.problem for one in problems(store)] == [
        "rows 1 to 4 are missing, and no audit.prune row names them"
    ]


def test_a_lost_head_is_reported_and_the_chain_goes_on(store: SqlStore) -> None:
    store.audit.append([event(1)])
    with store.audit._database.writing() as session:  # pyright: ignore[reportPrivateUsage]
        session.run("DELETE FROM audit_head")

    assert [one.seq for one in problems(store)] == [1]
    store.audit.append([event(2)])
    assert [row.seq for row in rows(store)] == [1, 2]
    assert problems(store) == []


@pytest.mark.parametrize(
    ("query", "targets"),
    [
        (AuditQuery(), ["k4", "k3", "k2", "k1"]),
        (AuditQuery(limit=2), ["k4", "k3"]),
        (AuditQuery(before=3), ["k2", "k1"]),
        (AuditQuery(since=timestamp(3)), ["k4", "k3"]),
        (AuditQuery(action="key"), ["k3", "k2", "k1"]),
        (AuditQuery(action="key.revoke"), ["k3"]),
        (AuditQuery(action="ke"), []),
        (AuditQuery(actor="bob"), ["k2"]),
        (AuditQuery(actor="session"), ["k4", "k3", "k2", "k1"]),
        (AuditQuery(actor="session", action="key", since=timestamp(2), limit=1), ["k3"]),
    ],
)
def test_a_page_has_the_newest_rows_that_match(
    store: SqlStore, query: AuditQuery, targets: list[str]
) -> None:
    store.audit.append(
        [
            event(1),
            event(2, actor="bob"),
            event(3, action="key.revoke"),
            event(4, action="session.sign_in"),
        ]
    )

    assert [row.target for row in store.audit.page(query)] == targets


def test_a_key_is_changed_together_with_its_row_or_not_at_all(store: SqlStore) -> None:
    def audited(old: IssuedKey | None, new: IssuedKey) -> AuditEvent:
        return replace(EVENT, id=new.user, target=new.name, reason="new" if old is None else "old")

    def refused(key: IssuedKey) -> IssuedKey:
        raise InvalidRequest("no")

    store.issued_keys.add(IssuedKey(name="ci", user="1"), audited)
    with pytest.raises(InvalidRequest):
        store.issued_keys.change("ci", refused, audited)
    store.issued_keys.add(IssuedKey(name="ci", user="2"), audited)
    store.issued_keys.change("ci", lambda key: replace(key, user="3"), audited)

    assert [(row.target, row.reason) for row in rows(store)] == [("ci", "new"), ("ci", "old")]
