"""Each caller has one holder: its key and team, as what is scarce is shared out."""

from strowger_gateway.gateway.config.schema.auth import Auth, Key, Team
from strowger_gateway.gateway.governance.access.auth import EVERYONE, Caller, Keyring
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder
from strowger_gateway.schemas.secret import Secret


def keyring(*keys: Key) -> Keyring:
    return Keyring(Auth(mode="keys", keys=keys), [Team(name="blue")])


def named(ring: Keyring, name: str) -> Caller:
    found = ring.named(name)
    assert found is not None
    return found


def test_each_of_several_keys_holds_by_its_own_name_and_team() -> None:
    ring = keyring(Key(name="a", key=Secret("k-a"), team="blue"), Key(name="b", key=Secret("k-b")))

    assert named(ring, "a").holder == Holder("a", "blue")
    assert named(ring, "b").holder == Holder("b")


def test_the_only_key_is_not_bounded() -> None:
    assert named(keyring(Key(name="a", key=Secret("k-a"))), "a").holder is ANONYMOUS


def test_clients_without_keys_are_not_told_apart() -> None:
    assert EVERYONE.holder is ANONYMOUS
