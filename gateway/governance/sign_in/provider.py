"""The identity provider that operators sign in with, as this process knows it.

Its endpoints are found by discovery and kept for REFRESH_S; the process asks for them once for all
sign-ins that wait, and not again within RETRY_S after a failure.
"""

import asyncio
import logging
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote_plus, urlencode, urlsplit

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.admin_oidc import AdminOidc
from strowger_gateway.gateway.config.schema.identities import Issuer
from strowger_gateway.gateway.governance.identities.claims import Claims
from strowger_gateway.gateway.governance.identities.compact_token import MOST_BYTES
from strowger_gateway.gateway.governance.identities.issuer_documents import (
    Discovery,
    DocumentError,
    IssuerDocuments,
)
from strowger_gateway.gateway.governance.identities.issuer_keys import IssuerKeys
from strowger_gateway.gateway.governance.identities.refusals import IssuerUnavailable
from strowger_gateway.gateway.governance.sign_in.attempt import SignInAttempt
from strowger_gateway.gateway.governance.sign_in.id_token import verified_claims
from strowger_gateway.gateway.governance.sign_in.refusals import (
    ProviderUnavailable,
    RefusedByProvider,
    RefusedToken,
    error_code,
)
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.fair_slots import FairSlots
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder

CALLBACK: Final = "/admin/sign-in/callback"
REFRESH_S: Final = 300.0
RETRY_S: Final = 1.0
MOST_EXCHANGES: Final = 16
"""Codes that are exchanged at a time in one process; clients take turns by address."""

MOST_WAITING, MOST_WAITING_EACH = 1000, 50
"""Codes that wait for their turn, in all and of one address."""

_PLACE: Final = "auth.admin_oidc"
_log = logging.getLogger("strowger.sign_in")


class _Tokens(Struct, frozen=True, kw_only=True):
    """https://openid.net/specs/openid-connect-core-1_0.html#TokenResponse; access tokens are not
    read."""

    id_token: str


class _Refusal(Struct, frozen=True, kw_only=True):
    """https://www.rfc-editor.org/rfc/rfc6749#section-5.2"""

    error: str


_tokens = msgspec.json.Decoder(_Tokens)
_refusal = msgspec.json.Decoder(_Refusal)


class SignInProvider:
    """Shared by all generations of the configuration in which the settings are the same."""

    def __init__(self, settings: AdminOidc, clock: Callable[[], float] = time.time) -> None:
        """clock: Unix seconds. Raises InvalidConfig for certificates that cannot be used."""
        self.settings = settings
        self._clock = clock
        self._issuer = Issuer(
            name=settings.name,
            issuer=settings.issuer,
            audience=(settings.client_id,),
            algorithms=settings.algorithms,
            require=settings.require,
            leeway_s=settings.leeway_s,
            max_stale_s=settings.max_stale_s,
            ca_file=settings.ca_file,
            proxy=settings.proxy,
        )
        self._documents = IssuerDocuments(
            self._issuer, place=_PLACE, fetch_s=settings.timeout_s / 3, posts=MOST_EXCHANGES
        )
        self._keys = IssuerKeys(self._issuer, documents=self._documents)
        self._discovery: Discovery | None = None
        self._problem = ""
        self._tried_at: float | None = None
        self._discovering: asyncio.Task[None] | None = None
        self._exchanges = FairSlots(MOST_EXCHANGES)
        self._waiting: Counter[Holder] = Counter()

    async def authorization_url(self, attempt: SignInAttempt) -> str:
        """Return where to send the browser. Raises ProviderUnavailable."""
        found = await self._discovered()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self.settings.client_id,
                "redirect_uri": self._redirect_uri,
                "scope": " ".join(self.settings.scopes),
                "state": attempt.state,
                "nonce": attempt.nonce,
                "code_challenge": attempt.challenge,
                "code_challenge_method": "S256",
            }
        )
        url = found.authorization_endpoint
        return f"{url}{'&' if urlsplit(url).query else '?'}{query}"

    async def claims(
        self, attempt: SignInAttempt, code: str, sent_by: str | None, client: Holder = ANONYMOUS
    ) -> Claims:
        """Exchange a code; return the verified claims of the person who signed in.

        sent_by: the parameter `iss` of the provider's answer. client: takes turns with others.
        Raises RefusedByProvider, RefusedToken, ProviderUnavailable.
        """
        found = await self._discovered()
        self._check_sender(found, sent_by)
        await self._turn(client)
        try:
            token = await self._exchanged(found, attempt, code)
            return await verified_claims(
                token, self._keys, self._issuer, attempt.nonce, self._clock()
            )
        except IssuerUnavailable as exc:
            raise self._unavailable() from exc
        finally:
            self._exchanges.release(client)

    async def aclose(self) -> None:
        if self._discovering is not None:
            self._discovering.cancel()
            await asyncio.gather(self._discovering, return_exceptions=True)
        await self._keys.aclose()

    @property
    def _redirect_uri(self) -> str:
        return self.settings.public_url.rstrip("/") + CALLBACK

    async def _turn(self, client: Holder) -> None:
        """Wait for a slot to exchange a code, for at most `timeout_s`. Raises ProviderUnavailable.

        A code of the client's own invention is as good as any until the provider has seen it, so
        one address cannot take the slots of others.
        """
        busy = ProviderUnavailable("too many people sign in at this moment; retry", retry_after=1)
        waiting = self._waiting
        if self._exchanges.waiting >= MOST_WAITING or waiting[client] >= MOST_WAITING_EACH:
            raise busy
        waiting[client] += 1
        try:
            by = asyncio.get_running_loop().time() + self.settings.timeout_s
            await self._exchanges.acquire(client, by=by)
        except TimeoutError:
            raise busy from None
        finally:
            waiting[client] -= 1
            if not waiting[client]:
                del waiting[client]

    def _check_sender(self, found: Discovery, sent_by: str | None) -> None:
        """Refuse another provider's answer. https://www.rfc-editor.org/rfc/rfc9207#section-2.4"""
        if sent_by is None and not found.authorization_response_iss_parameter_supported:
            return
        if sent_by != self.settings.issuer:
            raise RefusedByProvider(
                "the answer is not of this identity provider: its parameter iss "
                + ("is missing" if sent_by is None else "names another issuer")
            )

    async def _exchanged(self, found: Discovery, attempt: SignInAttempt, code: str) -> bytes:
        """Return the ID token for a code. https://www.rfc-editor.org/rfc/rfc6749#section-4.1.3"""
        credentials, headers = self._credentials(found)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": attempt.verifier,
            **credentials,
        }
        try:
            status, body = await self._documents.post(found.token_endpoint, form, headers)
        except DocumentError as exc:
            _log.error("%s: the code cannot be exchanged: %s", _PLACE, exc)
            raise self._unavailable() from exc
        if status != 200:
            raise self._refused(status, body)
        try:
            token = _tokens.decode(body).id_token.encode("ascii")
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            _log.error("%s: the token endpoint's answer has no ID token", _PLACE)
            raise RefusedToken(
                "the identity provider sent no ID token; auth.admin_oidc.scopes needs openid"
            ) from exc
        if len(token) > MOST_BYTES:
            raise RefusedToken(
                f"the provider's ID token has more than {MOST_BYTES} bytes; configure fewer claims"
            )
        return token

    def _credentials(self, found: Discovery) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return fields of the form and headers that identify this client."""
        client, secret = self.settings.client_id, self.settings.client_secret.reveal()
        if not secret:
            return {"client_id": client}, {}
        way, offered = self.settings.token_auth, found.token_endpoint_auth_methods_supported
        if way == "auto":
            basic = "client_secret_basic" in offered or "client_secret_post" not in offered
            way = "basic" if basic else "post"
        if way == "post":
            return {"client_id": client, "client_secret": secret}, {}
        pair = f"{quote_plus(client)}:{quote_plus(secret)}".encode()
        return {}, {"authorization": f"Basic {b64encode(pair).decode()}"}

    def _refused(self, status: int, body: bytes) -> RefusedByProvider | ProviderUnavailable:
        if status >= 500 or status == 429:
            _log.error("%s: the token endpoint answered %d", _PLACE, status)
            return self._unavailable()
        try:
            error = _refusal.decode(body).error
        except (msgspec.DecodeError, RecursionError):
            error = ""
        shown = error_code(error) or f"status {status}"
        _log.warning("%s: the token endpoint refused the code: %s", _PLACE, shown)
        if error == "invalid_client":
            return RefusedByProvider(
                "the identity provider does not accept the gateway's client_id or client_secret; "
                "see auth.admin_oidc"
            )
        return RefusedByProvider(
            f"the identity provider did not accept the code ({shown}); start again"
        )

    def _unavailable(self) -> ProviderUnavailable:
        return ProviderUnavailable(
            f"{self.settings.name} cannot be reached or does not answer; retry later, or sign in "
            "with the operator's key",
            retry_after=RETRY_S,
        )

    async def _discovered(self) -> Discovery:
        """Raises ProviderUnavailable."""
        interval = RETRY_S if self._problem or self._discovery is None else REFRESH_S
        due = self._tried_at is None or now() - self._tried_at >= interval
        if due and self._discovering is None:
            self._tried_at = now()
            self._discovering = asyncio.create_task(self._discover())
        if self._discovering is not None:
            await asyncio.shield(self._discovering)
        if self._discovery is None:
            raise self._unavailable()
        return self._discovery

    async def _discover(self) -> None:
        """Raises nothing but CancelledError. Endpoints that were found stay while it fails."""
        try:
            self._discovery, self._problem = _complete(await self._documents.discovery()), ""
        except DocumentError as exc:
            if not self._problem:
                _log.error("%s: the identity provider cannot be used: %s", _PLACE, exc)
            self._problem = str(exc)
        finally:
            self._discovering = None


def _complete(found: Discovery) -> Discovery:
    """Raises DocumentError."""
    if not (found.authorization_endpoint and found.token_endpoint):
        raise DocumentError("its discovery document names no endpoints to sign in with")
    return found
