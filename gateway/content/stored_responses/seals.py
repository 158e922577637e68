"""Items that clients keep for the gateway, sealed so that only their callers can use them.

A seal is AES-256-GCM under a key of the deployment and the caller, so that another caller's seal,
a changed one and one that has expired are all the same: nothing. All gateways with the same keys
open each other's. https://cryptography.io/en/latest/hazmat/primitives/aead/
"""

import asyncio
import hmac
import logging
import math
import secrets
import time
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from strowger_gateway.gateway.config.schema.responses import ResponsesConfig
from strowger_gateway.gateway.platform.eventloop.inline_task import in_task
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_log = logging.getLogger("strowger.responses")

_VERSION: Final = b"\x01"
_PURPOSE: Final = b"strowger sealed items 1\n"
_NONCE: Final = 12
_TIME: Final = 8
_DAY_S: Final = 86_400
_COMPRESSED: Final = 256
"""Bytes from which on compression saves some; zlib's fastest level, which takes 20 µs per KiB."""

_READ_AGAIN_S: Final = 3600.0
"""Interval at which the keys in the store are read, and replaced once they are old."""

_RETRY_S: Final = 5.0
"""Interval between reads for the sake of a seal that no known key opens, or after a failure."""

_AT_ONCE: Final = 100
"""Seals that are opened before other requests have their turn: some milliseconds."""


class KeptKeys(Protocol):
    """Where keys are while the configuration has none."""

    def keys(self, at: float, valid_s: float) -> list[str]:
        """See `gateway/storage/sql/sealing_key_rows.py`."""
        ...


class Seals:
    """Seal and open under the keys in force. Use it on the event loop."""

    def __init__(
        self,
        settings: Callable[[], ResponsesConfig],
        rows: KeptKeys | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """settings: returns those of the configuration in force. clock: returns Unix seconds.

        rows: `None` without a store: then the process makes a key that ends with it, as it does
              while the store does not answer.
        """
        self._settings = settings
        self._rows = rows
        self._clock = clock
        self._configured: tuple[str, ...] | None = None
        self._keys: Sequence[bytes] = ()
        self._current = False
        self._opens = 0
        self._own = secrets.token_urlsafe(32).encode()
        self._tried = -math.inf
        self._reading = asyncio.Lock()
        self._cipher: type[AESGCM] | None = None

    @property
    def on(self) -> bool:
        """Whether items are sealed."""
        return self._settings().seal == "on"

    async def ready(self, *, again: bool = False) -> None:
        """Read the keys from the store when that is due.

        again: read them although they are known, because another gateway may have made one.
        """
        if not self._is_due(again=again):
            return
        await in_task()
        async with self._reading:
            if self._is_due(again=again):
                await self._read()

    def _is_due(self, *, again: bool) -> bool:
        configured = tuple([key.reveal() for key in self._settings().sealing_keys])
        if configured != self._configured:
            # The keys so far stay until then: streams that have begun seal with them.
            self._configured, self._current, self._tried = configured, False, -math.inf
        if self._current and (configured or self._rows is None):
            return False
        wait_s = _RETRY_S if again or not self._current else _READ_AGAIN_S
        return not 0 <= self._clock() - self._tried < wait_s  # the clock may be set back

    async def _read(self) -> None:
        """Set the time of the try at its end: until then, other answers wait for its keys.

        A read that ends because its client left does not count: the next answer reads at once.
        """
        loop = asyncio.get_running_loop()
        if self._cipher is None:
            # Not in the store's time: on a busy machine it takes seconds.
            self._cipher = await loop.run_in_executor(None, _imported)
        try:
            async with asyncio.timeout(self._settings().timeout_s):
                found = await loop.run_in_executor(None, self._found)
        except (StoreUnavailable, TimeoutError) as exc:
            _log.error("the keys that seal items cannot be read: %s", exc or "timeout")
        else:
            self._keys, self._current = [key.encode() for key in found], True
        self._tried = self._clock()

    def _found(self) -> Sequence[str]:
        """Blocks. Raises StoreUnavailable."""
        if self._configured:
            return self._configured
        if self._rows is None:
            return [self._own.decode()]
        return self._rows.keys(self._clock(), self._settings().sealed_days * _DAY_S)

    def seal(self, caller: str, data: bytes, purpose: str = "") -> str:
        """Return the data as text of `A-Z a-z 0-9 - _`. Only after `ready`.

        purpose: a seal for one is none for another, so that each opens to what it was made of.
        """
        assert self._cipher is not None
        until = int(self._clock()) + self._settings().sealed_days * _DAY_S
        packed = zlib.compress(data, 1) if len(data) >= _COMPRESSED else b""
        shorter = 0 < len(packed) < len(data)
        plain = until.to_bytes(_TIME, "big") + bytes([shorter]) + (packed if shorter else data)
        nonce = secrets.token_bytes(_NONCE)
        key = self._keys[0] if self._keys else self._own
        cipher = self._cipher(_key_of(key, caller, purpose))
        sealed = _VERSION + nonce + cipher.encrypt(nonce, plain, _VERSION)
        return urlsafe_b64encode(sealed).rstrip(b"=").decode()

    async def open(
        self, caller: str, seal: str, most_bytes: int, purpose: str = ""
    ) -> bytes | None:
        """Return what was sealed for this caller and purpose.

        `None` for anything else, and for what is longer.
        """
        await self.ready()
        self._opens += 1
        if self._opens % _AT_ONCE == 0:
            await in_task()
            await asyncio.sleep(0)
        found = self._opened((caller, purpose), seal, most_bytes)
        if found is None:
            await self.ready(again=True)
            found = self._opened((caller, purpose), seal, most_bytes)
        return found

    def _opened(self, whose: tuple[str, str], seal: str, most_bytes: int) -> bytes | None:
        from cryptography.exceptions import InvalidTag

        try:
            data = urlsafe_b64decode(seal + "=" * (-len(seal) % 4))
        except (NotBase64, ValueError):
            return None
        if data[:1] != _VERSION or len(data) <= 1 + _NONCE or self._cipher is None:
            return None
        nonce, rest = data[1 : 1 + _NONCE], data[1 + _NONCE :]
        for key in (*self._keys, self._own):
            try:
                plain = self._cipher(_key_of(key, *whose)).decrypt(nonce, rest, _VERSION)
            except InvalidTag:
                continue
            until, packed = int.from_bytes(plain[:_TIME], "big"), plain[_TIME] == 1
            if until < self._clock():
                return None
            return _unpacked(plain[_TIME + 1 :], packed=packed, most_bytes=most_bytes)
        return None


def _imported() -> "type[AESGCM]":
    # Late: most gateways never seal, and the library has 10 MB.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM


def _unpacked(data: bytes, *, packed: bool, most_bytes: int) -> bytes | None:
    if not packed:
        return data if len(data) <= most_bytes else None
    unzip = zlib.decompressobj()
    found = unzip.decompress(data, max(most_bytes, 1))
    return found if unzip.eof else None


def _key_of(key: bytes, caller: str, purpose: str) -> bytes:
    whose = f"{purpose}\n{caller}" if purpose else caller
    return hmac.digest(key, _PURPOSE + whose.encode(), "sha256")
