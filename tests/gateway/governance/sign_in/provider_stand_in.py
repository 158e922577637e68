"""An identity provider to sign in with: strict about what it receives, scripted in what it sends.

It checks redirect_uri, PKCE, the client's secret and that a code is used once, as RFC 6749 and
RFC 7636 require, and then sends what the test wants.
"""

import asyncio
import base64
import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from tests.stand_ins.identity_provider import DISCOVERY, IdentityProvider
from tests.stand_ins.provider import Answer, Received, provider

CLIENT, SECRET = "the gateway", "a secret: with % and +"
PATIENCE_S = 30.0
Fields = Mapping[str, str]


class SignInStandIn(IdentityProvider):
    """more: fields of its discovery document. secret: of its client; "" for a public one.

    claims: of the next tokens, over the usual ones. token: sent instead of a signed one.
    token_mode: what its token endpoint does. forms: what that has received.
    hold: its answers wait for this.
    """

    def __init__(self) -> None:
        super().__init__()
        self.more: dict[str, object] = {}
        self.secret = SECRET
        self.claims: dict[str, object] = {}
        self.token_sent: str | None = None
        self.token_mode: Literal["well", "silent", "huge", "error", "garbage", "bare"] = "well"
        self.forms: list[Fields] = []
        self.hold: asyncio.Event | None = None
        self.codes: dict[str, Fields] = {}

    def answer_url(self, authorization_url: str, **changes: str | None) -> str:
        """Let a person in: return where the provider sends the browser. changes: of the answer."""
        parts = urlsplit(authorization_url)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.url}/authorize"
        query = {name: value for name, (value,) in parse_qs(parts.query).items()}
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["client_id"] == CLIENT
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        sent: dict[str, str | None] = {"code": code, "state": query["state"], **changes}
        given = {name: value for name, value in sent.items() if value is not None}
        return f"{query['redirect_uri']}?{urlencode(given)}"

    async def received(self, count: int) -> None:
        """Wait until its token endpoint has received so many forms."""
        async with asyncio.timeout(PATIENCE_S):
            while len(self.forms) < count:  # noqa: ASYNC110  no event to wait for
                await asyncio.sleep(0.01)

    async def behave(self, request: Received, answer: Answer) -> None:
        if request.path == "/realms/a/token":
            await self._exchange(request, answer)
        elif request.path == f"/realms/a{DISCOVERY}" and self.mode == "well":
            found = {
                "issuer": self.issuer or self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                **self.more,
            }
            await answer.json({name: one for name, one in found.items() if one is not None})
        else:
            await super().behave(request, answer)

    async def _exchange(self, request: Received, answer: Answer) -> None:
        form = {name: one for name, (one,) in parse_qs(request.body.decode()).items()}
        self.forms.append(form)
        if self.hold is not None:
            await self.hold.wait()
        match self.token_mode:
            case "silent":
                await answer.gone.wait()
            case "huge":
                await answer.body(b'{"id_token":"' + b"e" * 2_000_000 + b'"}', "application/json")
            case "error":
                await answer.json({"error": "server_error"}, status=500)
            case "garbage":
                await answer.body(b"<html>maintenance</html>", "text/html")
            case "bare":
                await answer.json({"access_token": "opaque", "token_type": "Bearer"})
            case "well":
                error, query = self._judged(request, form)
                if error:
                    await answer.json({"error": error, "error_description": "no"}, status=400)
                    return
                claims = {"aud": CLIENT, "nonce": query["nonce"], **self.claims}
                token = self.token_sent or self.token(more=claims)
                await answer.json(
                    {"access_token": "opaque-access", "token_type": "Bearer", "id_token": token}
                )

    def _judged(self, request: Received, form: Fields) -> tuple[str, Fields]:
        """Return an error, "" if the code is good, and what the code was issued for."""
        if self.secret and not self._is_client(request, form):
            return "invalid_client", {}
        query = self.codes.pop(form["code"], None)
        if query is None or form["grant_type"] != "authorization_code":
            return "invalid_grant", {}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        same = form["redirect_uri"] == query["redirect_uri"]
        return ("" if same and challenge == query["code_challenge"] else "invalid_grant"), query

    def _is_client(self, request: Received, form: Fields) -> bool:
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        if kind == "Basic":
            name, _, secret = base64.b64decode(value).decode().partition(":")
            return (unquote_plus(name), unquote_plus(secret)) == (CLIENT, self.secret)
        return (form.get("client_id"), form.get("client_secret")) == (CLIENT, self.secret)


@asynccontextmanager
async def sign_in_stand_in() -> AsyncGenerator[SignInStandIn, None]:
    found = SignInStandIn()
    async with provider(found.behave) as server:
        found.server = server
        yield found
