"""A fake Databricks workspace on loopback: tokens, serving endpoints, and their failures.

    async with databricks_server() as server:
        ...  # talk to server.base_url with OAuth, server.client_id and server.client_secret
        server.revoke()                       # tokens that were issued so far become invalid
        server.fail(429, "REQUEST_LIMIT_EXCEEDED", headers={"retry-after": "2"})
        server.cut_short(bytes_sent=200)      # the next answer is truncated
        server.fragment(seed=7)               # from now on bodies arrive in random pieces
    server.requests                           # the requests for endpoints, in order

tests.stand_ins.databricks_answers computes the answers: the last message as text, a call if there
are tools, and signed reasoning for `thinking` or `reasoning_effort`.
https://docs.databricks.com/aws/en/dev-tools/auth/oauth-m2m
"""

import asyncio
import json
import random
from base64 import b64decode
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from urllib.parse import parse_qs, unquote, unquote_plus

from msgspec import Struct

from tests.stand_ins.databricks_answers import Json, Refused, checked, chunks, whole
from tests.stand_ins.provider import Answer, Provider, Received

OPENAI_PATHS = ("chat/completions", "completions", "embeddings")


class Failure(Struct, frozen=True, kw_only=True):
    status: int
    body: bytes
    headers: Mapping[str, str]


class DatabricksServer:
    """One workspace. Its plain attributes may be changed as it runs.

    issued:   access tokens, in order of issue.
    missing:  endpoints that do not exist. key: a personal access token that is also valid.
    accepting: whether any token is valid.
    expired_is: the status for an invalid token: 401, or 403 as in recordings.
    """

    def __init__(self, *, lifetime_s: float = 3600.0, key: str = "dapi-fake") -> None:
        self.client_id = "5f5a2b1e-client"
        self.client_secret = "dose/secret+with=odd:characters"
        self.key = key
        self.lifetime_s = lifetime_s
        self.token_delay_s = 0.0
        self.accepting = True
        self.expired_is = 401
        self.missing: set[str] = set()
        self.served = "served-1"
        self.issued: list[str] = []
        self.requests: list[Received] = []
        self.token_requests: list[Received] = []
        self._names = count(1)
        self._expires: dict[str, float] = {}
        self._failures: deque[Failure] = deque()
        self._token_failures: deque[Failure] = deque()
        self._cuts: deque[int] = deque()
        self._pieces: random.Random | None = None
        self._provider = Provider(self._behave)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._provider.port}"

    @property
    def token_calls(self) -> int:
        return len(self.token_requests)

    @property
    def bodies(self) -> list[Json]:
        """Return the decoded bodies of the requests for endpoints."""
        return [request.json for request in self.requests]

    def fail(
        self,
        status: int,
        code: str,
        message: str = "it failed",
        *,
        headers: Mapping[str, str] | None = None,
        times: int = 1,
    ) -> None:
        """Answer the next requests with an error envelope."""
        body = json.dumps({"error_code": code, "message": message}).encode()
        self._failures += [Failure(status=status, body=body, headers=headers or {})] * times

    def fail_tokens(
        self,
        status: int,
        body: Json | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        times: int = 1,
    ) -> None:
        """Answer the next token requests with this."""
        said = {"error": "invalid_client", "error_description": "Client authentication failed"}
        data = json.dumps(said if body is None else body).encode()
        self._token_failures += [Failure(status=status, body=data, headers=headers or {})] * times

    def cut_short(self, bytes_sent: int) -> None:
        """Close the connection of the next answer after `bytes_sent` bytes of its body."""
        self._cuts.append(bytes_sent)

    def fragment(self, seed: int) -> None:
        """Split every body from now on at random places, and send each piece separately."""
        self._pieces = random.Random(seed)

    def revoke(self) -> None:
        """Revoke all tokens issued so far."""
        self._expires.clear()

    async def start(self) -> None:
        await self._provider.start()

    async def stop(self) -> None:
        await self._provider.stop()

    async def _behave(self, request: Received, answer: Answer) -> None:
        path = request.path.partition("?")[0]
        if path == "/oidc/v1/token":
            self.token_requests.append(request)
            await asyncio.sleep(self.token_delay_s)
            await self._token(request, answer)
            return
        if not path.startswith(("/serving-endpoints/", "/ai-gateway/")):
            # clients look for descriptions of the host, which not every workspace has
            await self._error(answer, 404, "ENDPOINT_NOT_FOUND", f"No API found for {path}")
            return
        self.requests.append(request)
        if not self._authorized(request):
            code = "UNAUTHENTICATED" if self.expired_is == 401 else 403
            said = {"error_code": code, "message": "Invalid access token. [ReqId: 1]"}
            await answer.json(said, self.expired_is)
        elif self._failures:
            await self._fail(answer, self._failures.popleft())
        else:
            await self._serve(path, request, answer)

    async def _token(self, request: Received, answer: Answer) -> None:
        """Issue a token (RFC 6749, 4.4.2 and 5); credentials come in a header or in the form."""
        if self._token_failures:
            await self._fail(answer, self._token_failures.popleft())
            return
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        kind = request.headers.get("content-type", "")
        if not kind.startswith("application/x-www-form-urlencoded"):
            await answer.json({"error": "invalid_request"}, 400)
        elif form.get("grant_type") != "client_credentials":
            await answer.json({"error": "unsupported_grant_type"}, 400)
        elif form.get("scope") != "all-apis":
            await answer.json({"error": "invalid_scope", "error_description": "no such"}, 400)
        elif _client(request, form) != (self.client_id, self.client_secret):
            said = {"error": "invalid_client", "error_description": "Client authentication failed"}
            await answer.json(said, 401)
        else:
            token = f"eyJ.access-token.{next(self._names)}"
            self.issued.append(token)
            self._expires[token] = asyncio.get_running_loop().time() + self.lifetime_s
            said = {"access_token": token, "token_type": "Bearer", "scope": "all-apis"}
            await answer.json({**said, "expires_in": self.lifetime_s})

    def _authorized(self, request: Received) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        now = asyncio.get_running_loop().time()
        valid = token == self.key or self._expires.get(token, 0.0) > now
        return self.accepting and scheme == "Bearer" and valid

    async def _serve(self, path: str, request: Received, answer: Answer) -> None:
        found = _address(path, request.json)
        if found is None:
            await self._error(answer, 404, "ENDPOINT_NOT_FOUND", f"No API found for {path}")
            return
        endpoint, served = found
        if endpoint in self.missing:
            said = f"The given endpoint does not exist: {endpoint}"
            await self._error(answer, 404, "RESOURCE_DOES_NOT_EXIST", said)
            return
        try:
            task = checked(request.json)
        except Refused as exc:
            await self._error(answer, 400, exc.code, str(exc))
            return
        headers = {"served-model-name": served or self.served, "x-request-id": "r-1"}
        if request.json.get("stream") and task != "input":
            events = [*map(json.dumps, chunks(request.json, endpoint, task)), "[DONE]"]
            body = "".join(f"data: {event}\n\n" for event in events)
            await self._send(answer, body.encode(), "text/event-stream", headers)
        else:
            body = json.dumps(whole(request.json, endpoint, task))
            await self._send(answer, body.encode(), "application/json", headers)

    async def _send(
        self, answer: Answer, body: bytes, kind: str, headers: Mapping[str, str]
    ) -> None:
        """Send HTTP chunks, one per event, or as set by `fragment` and `cut_short`."""
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n{extra}"
        await answer.raw(f"{head}\r\n".encode())
        end = self._cuts.popleft() if self._cuts else len(body)
        for piece in self._cut(body[:end]):
            await answer.chunk(piece)
        if end < len(body):
            answer.close()
        else:
            await answer.raw(b"0\r\n\r\n")

    def _cut(self, body: bytes) -> list[bytes]:
        if self._pieces is None or len(body) < 2:
            return body.splitlines(keepends=True)
        places = sorted(self._pieces.sample(range(1, len(body)), min(20, len(body) - 1)))
        starts, ends = [0, *places], [*places, len(body)]
        return [body[start:end] for start, end in zip(starts, ends, strict=True)]

    async def _fail(self, answer: Answer, failure: Failure) -> None:
        await answer.body(failure.body, "application/json", failure.status, failure.headers)

    async def _error(self, answer: Answer, status: int, code: str, message: str) -> None:
        await answer.json({"error_code": code, "message": message}, status)


@asynccontextmanager
async def databricks_server(
    *, lifetime_s: float = 3600.0, key: str = "dapi-fake"
) -> AsyncGenerator[DatabricksServer, None]:
    """Run a workspace until the block ends. lifetime_s: of each access token."""
    server = DatabricksServer(lifetime_s=lifetime_s, key=key)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def _client(request: Received, form: Mapping[str, str]) -> tuple[str, str]:
    scheme, _, basic = request.headers.get("authorization", "").partition(" ")
    if scheme == "Basic":
        name, _, secret = b64decode(basic).decode().partition(":")
        return unquote_plus(name), unquote_plus(secret)
    return form.get("client_id", ""), form.get("client_secret", "")


def _address(path: str, body: Json) -> tuple[str, str] | None:
    """Return the endpoint and, if it is addressed directly, the served model."""
    for prefix in ("/serving-endpoints/", "/ai-gateway/mlflow/v1/"):
        if path.startswith(prefix) and path.removeprefix(prefix) in OPENAI_PATHS:
            return str(body.get("model", "")), ""
    steps = [unquote(step) for step in path.split("/")]
    match steps:
        case ["", "serving-endpoints", name, "invocations"] if "model" not in body:
            return name, ""
        case ["", "serving-endpoints", name, "served-models", served, "invocations"]:
            return name, served
        case _:
            return None
