"""A Redis in memory, in virtual time: the notices, the probe leases and the script of the limits.

The script is `gateway/governance/limits/over_gateways/limit_script.py`'s in Python, for windows and
holders that live; tests/benchmarks/test_fleet.py compares both.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.coordination.gateway_transport import LEASE_S, Ask
from strowger_gateway.gateway.governance.limits.over_gateways.limit_script import (
    ScriptAnswer,
    ScriptItem,
    ScriptRequest,
)

ROUND_TRIP_S: Final = 0.001

_request: msgspec.json.Decoder[ScriptRequest] = msgspec.json.Decoder(ScriptRequest)


class _Hash(Struct, eq=False):
    """One quantity of one account: uses by when they stop to count, and what holders hold."""

    uses: dict[int, int] = {}
    held: dict[str, int] = {}


class Redis:
    """The server. commands: how many it has carried out. read: notices that it has sent."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._hashes: dict[str, _Hash] = {}
        self._leases: dict[str, tuple[str, float]] = {}
        self.notices: dict[bytes, bytes] = {}
        self.commands = self.scripts = self.read = 0

    def lease(self, ask: Ask, place: str, name: str) -> bool:
        self.commands += 1
        holder, until = self._leases.get(place, ("", 0.0))
        mine = holder == name and self._clock() < until
        free = self._clock() >= until
        if ask == "give":
            if mine:
                del self._leases[place]
            return mine
        if (mine and ask == "keep") or (free and ask == "take"):
            self._leases[place] = name, self._clock() + LEASE_S
            return True
        return False

    def script(self, keys: Sequence[str], body: bytes) -> bytes:
        """See SCRIPT."""
        self.commands += 1
        self.scripts += 1
        request = _request.decode(body)
        now = round(self._clock() * 1000)
        hashes = [self._hashes.setdefault(key, _Hash()) for key in keys]
        refused, longest = 0, -1
        for place, (one, item) in enumerate(zip(hashes, request.items, strict=True)):
            _report(one, item, request.holder, now)
            room = item.limit - sum(one.uses.values()) - sum(one.held.values())
            if item.need > room:
                wait = _wait(one, item, now)
                if wait > longest:
                    refused, longest = place + 1, wait
        granted: list[int] = []
        for one, item in zip(hashes, request.items, strict=True):
            amount = 0
            if not refused and item.need:
                amount = item.need
                total = sum(one.uses.values()) + sum(one.held.values())
                spare = item.limit - total - item.need
                if spare > item.limit / 4:
                    amount += min(item.advance, spare)
            one.held[request.holder] = one.held.get(request.holder, 0) + amount
            granted.append(amount)
        answer = ScriptAnswer(
            refused=refused,
            wait=longest,
            granted=tuple(granted),
            left=tuple(
                [
                    max(0, item.limit - sum(one.uses.values()) - sum(one.held.values()))
                    for one, item in zip(hashes, request.items, strict=True)
                ]
            ),
            mine=tuple([one.held[request.holder] for one in hashes]),
        )
        return msgspec.json.encode(answer)


class Connection:
    """One gateway's connection: a GatewayTransport and a ScriptRunner."""

    sharded = False
    where = "memory"

    def __init__(self, redis: Redis, name: str) -> None:
        self._redis = redis
        self.name = name

    async def exchange(self, own: bytes, gone: Sequence[bytes]) -> Mapping[bytes, bytes]:
        await asyncio.sleep(ROUND_TRIP_S)
        redis = self._redis
        redis.notices[self.name.encode()] = own
        for name in gone:
            redis.notices.pop(name, None)
        redis.commands += 3 + bool(gone)
        redis.read += len(redis.notices)
        return dict(redis.notices)

    async def leases(self, asks: Sequence[tuple[Ask, str]]) -> list[bool]:
        await asyncio.sleep(ROUND_TRIP_S)
        return [self._redis.lease(ask, place, self.name) for ask, place in asks]

    async def run(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[object]:
        await asyncio.sleep(ROUND_TRIP_S)
        answers: list[object] = []
        for _, _, count, *rest in commands:
            keys = [str(key) for key in rest[: int(count)]]
            answers.append(self._redis.script(keys, cast(bytes, rest[int(count)])))
        return answers

    async def leave(self) -> None:
        self._redis.notices.pop(self.name.encode(), None)


def _report(one: _Hash, item: ScriptItem, holder: str, now: int) -> None:
    """Book what the holder reports, and drop what has stopped to count."""
    mine = one.held.get(holder, 0) + item.over
    for left, amount in item.uses:
        if amount > 0:
            if left > 0:
                one.uses[now + left] = one.uses.get(now + left, 0) + amount
            mine = max(0, mine - amount)
        else:
            near = [at for at, known in one.uses.items() if known >= -amount and at > now]
            if near:
                best = min(near, key=lambda at: abs(at - now - left))
                one.uses[best] += amount
            mine -= amount
    mine = max(0, mine - item.back)
    if item.holds >= 0:
        if item.period and mine > item.holds:
            end = now + item.period
            one.uses[end] = one.uses.get(end, 0) + mine - item.holds
        mine = item.holds
    one.held[holder] = mine
    one.uses = {at: amount for at, amount in one.uses.items() if at > now and amount}


def _wait(one: _Hash, item: ScriptItem, now: int) -> int:
    after = sum(one.uses.values()) + sum(one.held.values())
    for at in sorted(one.uses):
        after -= one.uses[at]
        if after + item.need <= item.limit:
            return at - now
    return item.period
