"""Redis as the transport between gateways, through redis-py.

One hash holds the notices of all gateways; each lease is a key, so each command has one key and a
Cluster needs nothing else. https://redis.io/docs/latest/commands/
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from redis.exceptions import RedisClusterException, RedisError

from strowger_gateway.gateway.coordination.gateway_transport import (
    LEASE_S,
    Ask,
    TransportUnavailable,
)
from strowger_gateway.gateway.storage.redis.client import ROUND_S, open_client
from strowger_gateway.gateway.storage.redis.faults import reason_of
from strowger_gateway.schemas.secret import Secret

NOTICES = "strowger:gateways:1"
LEASE = "strowger:probe:1:"
"""Both names contain the version of the format."""

NOTICES_S = 120
"""Expiry of the notices after the last gateway has stopped, seconds."""

_KEEP = (
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end "
    "return 0"
)
_GIVE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0"


class RedisTransport:
    """See GatewayTransport. One connection, used by one task."""

    def __init__(self, url: Secret, name: str, lease_s: float = LEASE_S) -> None:
        """lease_s: how long a lease lasts without `keep`.

        Raises InvalidConfig for an address that redis-py cannot parse.
        """
        self._client = open_client(url)
        self.name = name
        self.sharded = self._client.sharded
        self._lease_ms = str(round(lease_s * 1000))
        self._connected = False

    @property
    def where(self) -> str:
        return self._client.where

    async def exchange(self, own: bytes, gone: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """See GatewayTransport.exchange."""
        commands: list[tuple[str | bytes, ...]] = [("HSET", NOTICES, self.name, own)]
        if gone:
            commands.append(("HDEL", NOTICES, *gone))
        commands += [("EXPIRE", NOTICES, str(NOTICES_S)), ("HGETALL", NOTICES)]
        return cast("dict[bytes, bytes]", (await self._round(commands))[-1])

    async def leases(self, asks: Sequence[tuple[Ask, str]]) -> list[bool]:
        """See GatewayTransport.leases."""
        return [bool(answer) for answer in await self._round([self._lease(*ask) for ask in asks])]

    async def run(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[object]:
        """See ScriptRunner.run."""
        return await self._round(commands)

    async def leave(self) -> None:
        """See GatewayTransport.leave."""
        try:
            if self._connected:
                await self._round([("HDEL", NOTICES, self.name)])
        except TransportUnavailable:
            return  # the other gateways notice the silence
        await self._hang_up()

    def _lease(self, ask: Ask, place: str) -> tuple[str, ...]:
        key = LEASE + place
        match ask:
            case "take":
                return ("SET", key, self.name, "NX", "PX", self._lease_ms)
            case "keep":
                return ("EVAL", _KEEP, "1", key, self.name, self._lease_ms)
            case "give":
                return ("EVAL", _GIVE, "1", key, self.name)

    async def _round(self, commands: Sequence[tuple[str | bytes, ...]]) -> list[object]:
        pipeline = self._client.pipeline()
        for command in commands:
            pipeline.execute_command(*command)
        task = asyncio.current_task()
        cancelled = 0 if task is None else task.cancelling()
        try:
            async with asyncio.timeout(ROUND_S if self._connected else self._client.connect_s):
                answers = await pipeline.execute(raise_on_error=False)
        except TimeoutError:
            await self._hang_up()
            raise TransportUnavailable("no answer in time") from None
        except (RedisError, RedisClusterException, OSError, RuntimeError) as exc:
            await self._hang_up()
            raise TransportUnavailable(reason_of(exc)) from exc
        finally:
            # redis-py waits by `wait_for`, which in Python 3.11 drops a cancellation that comes
            # when it is done: https://github.com/python/cpython/issues/86296
            if task is not None and task.cancelling() > cancelled:
                raise asyncio.CancelledError
        self._connected = True
        for answer in answers:
            if isinstance(answer, Exception):
                await self._hang_up()  # a master that is one no longer refuses, and stays connected
                raise TransportUnavailable(f"{type(answer).__name__}: {answer}") from answer
        return answers

    async def _hang_up(self) -> None:
        """Close the connection: a late answer must not pass for that of the next command."""
        self._connected = False
        try:
            await self._client.hang_up()
        except (RedisError, RedisClusterException, OSError, TimeoutError, RuntimeError):
            return  # already broken; there is nothing left to close
