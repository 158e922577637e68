"""Entries in Redis, for all workers and gateways, through redis-py.

https://redis.io/docs/latest/commands/set/
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from redis.exceptions import (
    NoPermissionError,
    OutOfMemoryError,
    RedisClusterException,
    RedisError,
)

from strowger_gateway.gateway.content.cache.key import model_of
from strowger_gateway.gateway.content.cache.remote_store import CacheUnavailable
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.gateway.storage.redis.client import open_client
from strowger_gateway.gateway.storage.redis.faults import reason_of
from strowger_gateway.schemas.secret import Secret

PREFIX: Final = "strowger:cache:3:"
"""Of all keys, with the version of the format."""

CONNECTIONS: Final = 16
"""Per worker."""

ANSWER_S: Final = 0.5
"""How long a request waits for Redis, also while a connection opens."""

PAUSE_S: Final = 2.0
"""After a failure, requests pass Redis by for so long, instead of waiting for it each."""

SCAN_S: Final = 20.0
"""How long an operator waits for entries to be counted or deleted."""

_AT_ONCE: Final = 500
_GLOB: Final = re.compile(r"[\\*?\[\]^]")
_ESCAPED: Final = r"\\\g<0>"

_log = logging.getLogger("strowger.cache")


class RedisStore:
    """See RemoteStore."""

    def __init__(self, url: Secret) -> None:
        """Raises InvalidConfig for an address that cannot be read."""
        self.failed = 0
        self._client = open_client(url)
        self._room = asyncio.Semaphore(CONNECTIONS)
        self._connected = False
        self._connecting: asyncio.Task[None] | None = None
        self._down_until = self._unwritable_until = 0.0
        self._is_down = self._is_unwritable = False

    async def get(self, key: str) -> bytes | None:
        """See RemoteStore."""
        found = await self._run("GET", PREFIX + key)
        return found if isinstance(found, bytes) else None

    async def put(self, key: str, data: bytes, ttl_s: float) -> None:
        """See RemoteStore."""
        if now() < self._unwritable_until:
            raise CacheUnavailable
        await self._run("SET", PREFIX + key, data, "PX", str(max(1, round(ttl_s * 1000))))
        if self._is_unwritable:
            self._is_unwritable = False
            _log.warning("Redis takes responses again")

    async def by_model(self) -> tuple[dict[str, int], bool]:
        """See RemoteStore."""
        found: Counter[str] = Counter()
        async with self._scanning() as ends:
            async for key in self._client.keys(f"{PREFIX}*"):
                found[model_of(key.decode("utf-8", "replace").removeprefix(PREFIX))] += 1
        return dict(found), not ends.expired()

    async def clear_model(self, model: str) -> tuple[int, bool]:
        """See RemoteStore."""
        deleted = 0
        pattern = f"{PREFIX}{_GLOB.sub(_ESCAPED, model)}:*" if model else f"{PREFIX}*"
        async with self._scanning() as ends:
            some: list[bytes] = []
            async for key in self._client.keys(pattern):
                # A model's name may begin with that of another one and a colon.
                if model and model_of(key.decode("utf-8", "replace")) != PREFIX + model:
                    continue
                some.append(key)
                if len(some) >= _AT_ONCE:
                    deleted += await self._delete(some)
                    some.clear()
            deleted += await self._delete(some)
        return deleted, not ends.expired()

    async def _delete(self, keys: Sequence[bytes]) -> int:
        if not keys:
            return 0
        pipeline = self._client.pipeline()
        for key in keys:
            pipeline.execute_command("UNLINK", key)
        return sum(
            one for one in await pipeline.execute(raise_on_error=False) if isinstance(one, int)
        )

    @asynccontextmanager
    async def _scanning(self) -> AsyncGenerator[asyncio.Timeout]:
        """Bound how long operators wait. Raises CacheUnavailable."""
        try:
            async with asyncio.timeout(SCAN_S) as ends:
                yield ends
        except TimeoutError:
            return  # what was counted or deleted until then
        except (RedisError, RedisClusterException, OSError, RuntimeError) as exc:
            await self._fail(exc)
            raise CacheUnavailable from None

    async def aclose(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)
        await self._hang_up()

    async def _run(self, *command: str | bytes) -> object:
        """Run a command. Raises CacheUnavailable."""
        if now() < self._down_until:
            raise CacheUnavailable
        await in_task()
        if not self._connected:
            if self._connecting is None:
                self._connecting = asyncio.create_task(self._connect())
            await asyncio.wait({self._connecting}, timeout=ANSWER_S)
            if not self._connected:
                raise CacheUnavailable
        return await self._round(ANSWER_S, *command)

    async def _connect(self) -> None:
        """Find the server, which takes longer than a request should wait if a machine is down."""
        try:
            await self._round(self._client.connect_s, "GET", PREFIX)
        except CacheUnavailable:
            return  # counted, and tried again after a pause
        finally:
            self._connecting = None
        self._connected = True
        if self._is_down:
            self._is_down = False
            _log.warning("Redis answers again; responses are cached")

    async def _round(self, within_s: float, *command: str | bytes) -> object:
        try:
            async with asyncio.timeout(within_s), self._room:
                pipeline = self._client.pipeline()
                pipeline.execute_command(*command)
                (answer,) = await pipeline.execute(raise_on_error=False)
        except (RedisError, RedisClusterException, OSError, TimeoutError, RuntimeError) as exc:
            await self._fail(exc)
            raise CacheUnavailable from None
        if isinstance(answer, Exception):
            if command[0] == "SET" and _refuses_writes(answer):
                self._pass_writes_by(answer)
            else:
                await self._fail(answer)
            raise CacheUnavailable
        return answer

    def _pass_writes_by(self, why: Exception) -> None:
        """Pause writes only, because entries can still be read."""
        self.failed += 1
        self._unwritable_until = now() + PAUSE_S
        if not self._is_unwritable:
            self._is_unwritable = True
            _log.warning("Redis takes no responses, and is only read: %s", reason_of(why))

    async def _fail(self, why: Exception) -> None:
        self.failed += 1
        self._down_until = now() + PAUSE_S
        if not self._is_down:
            self._is_down = True
            _log.warning("Redis cannot be used, so responses are not cached: %s", reason_of(why))
        await self._hang_up()

    async def _hang_up(self) -> None:
        """Close the connections: a late answer must not pass for that of the next command."""
        self._connected = False
        try:
            await self._client.hang_up()
        except (RedisError, RedisClusterException, OSError, TimeoutError, RuntimeError):
            return  # already broken; there is nothing left to close


def _refuses_writes(answer: Exception) -> bool:
    """Whether a server that works, and is the right one, refuses to write.

    MISCONF: it cannot save its data, https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/
    """
    refused = isinstance(answer, OutOfMemoryError | NoPermissionError)
    return refused or str(answer).startswith("MISCONF")
