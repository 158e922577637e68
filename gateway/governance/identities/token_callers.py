"""Callers by their tokens: verified once, then known by the token's digest until it expires."""

import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.config.schema.auth import CallerPlan, Team
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.governance.identities.claims import caller_of, check_claims, issuer_of
from strowger_gateway.gateway.governance.identities.compact_token import (
    looks_like_token,
    read_token,
)
from strowger_gateway.gateway.governance.identities.issuer_keys import IssuerKeys, KnownIssuers
from strowger_gateway.gateway.governance.identities.key_set import KeySet, signed
from strowger_gateway.gateway.governance.identities.refusals import WrongToken

MOST_KNOWN: Final = 10_000
"""Tokens that are remembered; beyond that, the oldest is forgotten."""


class _Known(Struct, frozen=True):
    """A verified token. until: Unix seconds. keys: those it was verified with; others end it."""

    until: float
    caller: Caller
    issuer: IssuerKeys
    keys: KeySet


class TokenCallers:
    """See strowger_gateway.gateway.governance.access.auth.Tokens. Tokens are remembered by digest,
    never themselves.
    """

    def __init__(
        self,
        issuers: KnownIssuers,
        teams: Sequence[Team] = (),
        plans: Sequence[CallerPlan] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """clock: Unix seconds."""
        self._issuers = {
            settings.issuer: (settings, keys)
            for settings, keys in zip(issuers.settings, issuers.keys, strict=True)
        }
        self._teams = {team.name: team for team in teams}
        self._plans = tuple([plan.name for plan in plans])
        self._clock = clock
        self._known: dict[bytes, _Known] = {}

    def takes(self, credential: bytes) -> bool:
        """See Tokens."""
        return looks_like_token(credential)

    def known(self, token: bytes) -> Caller | None:
        """See Tokens."""
        found = self._known.get(sha256(token).digest())
        if found is not None and found.until > self._clock() and found.keys is found.issuer.current:
            return found.caller
        return None

    async def caller(self, token: bytes) -> Caller:
        """See Tokens."""
        read = read_token(token)
        (settings, issuer), header = issuer_of(read.claims, self._issuers), read.header
        if header.alg not in settings.algorithms:
            raise WrongToken(
                "header alg: the gateway does not accept this algorithm from the issuer; allowed: "
                + ", ".join(settings.algorithms)
            )
        key = await issuer.find(header.kid, header.alg)
        keys = issuer.current
        if not signed(token, key, header.alg):
            raise WrongToken("the token's signature is not valid; get a new token")
        until = check_claims(read.claims, settings, self._clock())
        caller = caller_of(read.claims, settings, self._teams, self._plans)
        if keys is not None:
            self._remember(sha256(token).digest(), _Known(until, caller, issuer, keys))
        return caller

    def _remember(self, digest: bytes, found: _Known) -> None:
        known = self._known
        if len(known) >= MOST_KNOWN:
            del known[next(iter(known))]
        known.pop(digest, None)
        known[digest] = found
