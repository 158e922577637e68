"""Messages between the leader and the serving processes about issued keys, besides `KeyList`."""

from collections.abc import Mapping

from msgspec import Struct


class KeysApplied(Struct, frozen=True, kw_only=True, tag=True):
    """The serving process has put this version of the list into effect."""

    version: int


class KeysChanged(Struct, frozen=True, kw_only=True, tag=True):
    """The serving process has changed keys in the store: read the list now."""


class KeysUsed(Struct, frozen=True, kw_only=True, tag=True):
    """When keys were last used, by name; Unix seconds."""

    times: Mapping[str, float]


KeysToLeader = KeysApplied | KeysChanged | KeysUsed
