"""The keys of one identity provider as this process knows them: fetched, rotated, kept for a time.

A token by an unknown key makes the gateway fetch the keys again, once for all requests that wait,
and not again within COOLDOWN_S. Otherwise they are fetched every REFRESH_S, so that a key that the
issuer has withdrawn ends here, too.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from strowger_gateway.gateway.config.schema.identities import Issuer
from strowger_gateway.gateway.governance.identities.issuer_documents import (
    DocumentError,
    IssuerDocuments,
)
from strowger_gateway.gateway.governance.identities.key_set import (
    KeySet,
    VerificationKey,
    read_key_set,
)
from strowger_gateway.gateway.governance.identities.refusals import IssuerUnavailable, WrongToken
from strowger_gateway.gateway.platform.clock import now

REFRESH_S: Final = 300.0
COOLDOWN_S: Final = 10.0
"""Minimum interval between fetches, however many tokens name unknown keys."""

RETRY_S: Final = 2.0
"""The same while no keys are known."""

_log = logging.getLogger("strowger.identities")


class IssuerKeys:
    """Shared by all generations of the configuration in which the issuer is the same.

    current: `None` before the first fetch, and when the last one is too long ago.
    problem: why the last fetch failed, "" if it did not. fetched_at: by the clock, seconds.
    """

    def __init__(
        self,
        settings: Issuer,
        clock: Callable[[], float] = now,
        documents: IssuerDocuments | None = None,
    ) -> None:
        """documents: of the issuer, closed with the keys.

        Raises InvalidConfig for certificates that cannot be used.
        """
        self.settings = settings
        self.current: KeySet | None = None
        self.problem = ""
        self.fetched_at = 0.0
        self.fetches = {"done": 0, "failed": 0}
        self._documents = documents or IssuerDocuments(settings)
        self._clock = clock
        self._tried_at: float | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, alg: str) -> VerificationKey:
        """Return the key that a token was signed with.

        Raises WrongToken if the issuer has no such key, and IssuerUnavailable if that is unknown.
        """
        found = self._known(kid, alg)
        if found is None:
            await self._fetch_if_due()
            found = self._known(kid, alg)
        if found is not None:
            return found
        if self.current is None or self.problem:
            raise IssuerUnavailable(
                f"the identity provider {self.settings.name!r} cannot be reached to verify the "
                "token; retry later",
                retry_after=RETRY_S if self.current is None else COOLDOWN_S,
            )
        raise WrongToken(
            f"header kid: the identity provider {self.settings.name!r} has no key of this id and "
            "algorithm; get a new token"
        )

    async def find_fresh(self, kid: str | None, alg: str) -> VerificationKey:
        """As `find`, for an issuer whose keys nothing fetches regularly."""
        self.tick()
        if self._fetching is not None:
            await asyncio.shield(self._fetching)
        return await self.find(kid, alg)

    def tick(self) -> None:
        """Fetch the keys if they are due, and forget those that are too old. Call it regularly."""
        at = self._clock()
        if self.current is not None and at - self.fetched_at > self.settings.max_stale_s:
            self.current = None
            text = "identity provider %s: its keys are too old (max_stale_s); refusing its tokens"
            _log.error(text, self.settings.name)
        if self._due(REFRESH_S if not self.problem else COOLDOWN_S):
            self._start()

    async def aclose(self) -> None:
        """Close its connections; a fetch in flight ends."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)
        await self._documents.aclose()

    def _known(self, kid: str | None, alg: str) -> VerificationKey | None:
        return None if self.current is None else self.current.find(kid, alg)

    def _due(self, interval_s: float) -> bool:
        if self.current is None:
            interval_s = min(interval_s, RETRY_S)
        at = self._tried_at
        return self._fetching is None and (at is None or self._clock() - at >= interval_s)

    async def _fetch_if_due(self) -> None:
        """Wait for the fetch in flight, or for a new one unless the last was just now."""
        if self._due(COOLDOWN_S):
            self._start()
        if self._fetching is not None:
            await asyncio.shield(self._fetching)

    def _start(self) -> None:
        self._tried_at = self._clock()
        self._fetching = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        """Raises nothing but CancelledError."""
        name = self.settings.name
        try:
            source = await self._documents.key_set()
            if self.current is None or self.current.source != source:
                self.current = read_key_set(source)
                _log.info("identity provider %s: %d keys", name, len(self.current.keys))
            elif self.problem:
                _log.warning("identity provider %s can be reached again", name)
            self.problem, self.fetched_at = "", self._clock()
            self.fetches["done"] += 1
        except (DocumentError, ValueError) as exc:
            self.fetches["failed"] += 1
            if not self.problem:
                _log.error(
                    "identity provider %s cannot be used; %s: %s",
                    name,
                    "refusing its tokens" if self.current is None else "keeping its last keys",
                    exc,
                )
            self.problem = str(exc)
        finally:
            self._fetching = None


class KnownIssuers:
    """The issuers of one generation of the configuration. keys: in the order of `settings`."""

    def __init__(self, settings: tuple[Issuer, ...], before: "KnownIssuers | None" = None) -> None:
        """before: of the previous generation, whose keys are taken over.

        Raises InvalidConfig for certificates that cannot be used.
        """
        known = {_source(keys.settings): keys for keys in before.keys} if before else {}
        self.settings = settings
        self.keys: tuple[IssuerKeys, ...] = tuple(
            known.get(_source(one)) or IssuerKeys(one) for one in settings
        )

    def tick(self) -> None:
        """See IssuerKeys.tick."""
        for one in self.keys:
            one.tick()


def _source(settings: Issuer) -> tuple[object, ...]:
    """Return what decides where keys come from, and how long they last."""
    proxy = "" if settings.proxy is None else settings.proxy.reveal()
    where = (settings.issuer, settings.jwks_uri, settings.ca_file, proxy)
    return (settings.name, settings.max_stale_s, *where)
