"""Issued keys in the store, on both databases."""

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey, KeyList, KeySecret, ListReader
from strowger_gateway.gateway.storage.sql.sql import SqlStore

KEY = IssuedKey(
    name="ci",
    team="red",
    user="jane",
    models=("chat", "gpt-*"),
    max_priority=3,
    tags=("a", "b=c"),
    expires=2e9,
    not_before=1.5,
    allowed_networks=("10.0.0.0/8", "fd00::/8"),
    disabled=True,
    created_by="a test",
    created=1.25,
    secrets=(
        KeySecret(digest="ab" * 32, last4="wxyz", created=1.25),
        KeySecret(digest="cd" * 32, last4="abcd", created=0.5, until=9.5),
    ),
)


def test_a_key_comes_back_as_it_was_added(store: SqlStore) -> None:
    rows = store.issued_keys
    empty = rows.current()

    assert rows.add(KEY)
    assert empty == KeyList(version=0)
    assert rows.find("ci") == replace(KEY, version=1)
    assert rows.current() == KeyList(version=1, keys=(replace(KEY, version=1),))
    assert rows.find("other") is None


def test_a_name_is_added_once_even_after_its_key_was_revoked(store: SqlStore) -> None:
    rows = store.issued_keys
    rows.add(KEY)
    again = rows.add(replace(KEY, secrets=()))
    rows.change("ci", lambda key: replace(key, revoked=5.0, secrets=()))

    assert not again
    assert not rows.add(KEY)
    assert rows.current() == KeyList(version=2)
    assert [(key.revoked, key.secrets) for key in rows.all()] == [(5.0, ())]


def test_a_change_that_fails_changes_nothing(store: SqlStore) -> None:
    rows = store.issued_keys
    rows.add(KEY)

    def fails(key: IssuedKey) -> IssuedKey:
        raise LookupError

    with pytest.raises(LookupError):
        rows.change("ci", fails)
    assert rows.change("other", fails) is None
    assert rows.current() == KeyList(version=1, keys=(replace(KEY, version=1),))


def test_the_last_use_is_the_latest_and_no_change_of_the_list(store: SqlStore) -> None:
    rows = store.issued_keys
    rows.add(KEY)
    rows.note_used({"ci": 20.0, "gone": 7.0})
    rows.note_used({"ci": 10.0})
    rows.change("ci", lambda key: replace(key, disabled=False))

    found = rows.find("ci")
    assert found is not None
    assert (found.last_used, found.disabled, rows.version()) == (20.0, False, 2)


def test_readers_are_listed_until_they_leave_or_are_silent_for_long(store: SqlStore) -> None:
    rows = store.issued_keys
    readers = [
        ListReader(id=f"r{at}", host="h", pid=at, processes=2, version=at, at=float(at))
        for at in (1, 2, 3)
    ]
    for reader in readers:
        rows.report(reader, 0.0)
    rows.report(replace(readers[2], version=9), forget_before=2.0)
    listed = rows.readers()
    rows.leave("r3")

    assert [(one.id, one.version) for one in listed] == [("r3", 9), ("r2", 2)]
    assert rows.readers() == [readers[1]]
