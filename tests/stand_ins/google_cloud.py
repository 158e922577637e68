"""A fake Google on loopback: token endpoint, token exchange, metadata server, and a model."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import cast
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.stand_ins.gemini_server import gemini
from tests.stand_ins.provider import Answer, Json, Provider, Received

ACCOUNT = "gateway@my-project.iam.gserviceaccount.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
VERTEX = "/v1/projects/my-project/locations/europe-west4/publishers/google"
UNAUTHENTICATED: Json = {
    "error": {"code": 401, "message": "invalid credentials", "status": "UNAUTHENTICATED"}
}


class GoogleCloud:
    """A behaviour for tests.stand_ins.provider.

    issued: the tokens, in order; those in `revoked` are rejected. lifetime_s: of new ones.
    down:   the status, body and headers of the next answers of the token endpoint.
    """

    def __init__(self) -> None:
        self.issued: list[str] = []
        self.revoked: set[str] = set()
        self.lifetime_s = 3600
        self.down: list[tuple[int, Json, Json]] = []
        self.grants: list[dict[str, str]] = []
        self.projects: list[str | None] = []

    async def __call__(self, request: Received, answer: Answer) -> None:
        if request.path.startswith("/computeMetadata/") or request.path == "/":
            await self._metadata(request, answer)
        elif request.path in ("/token", "/sts"):
            await self._token(request, answer)
        elif request.path.endswith(":generateAccessToken"):
            await self._impersonated(request, answer)
        else:
            await self._model(request, answer)

    def token(self) -> Json:
        self.issued.append(f"ya29.token-{len(self.issued) + 1}")
        return {
            "access_token": self.issued[-1],
            "expires_in": self.lifetime_s,
            "token_type": "Bearer",
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }

    async def _token(self, request: Received, answer: Answer) -> None:
        self.grants.append(
            {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        )
        if self.down:
            status, body, headers = self.down.pop(0)
            await answer.json(body, status, headers)
            return
        await answer.json(self.token())

    async def _impersonated(self, request: Received, answer: Answer) -> None:
        """Exchange the caller's token for one of the service account that it may impersonate."""
        sent = request.headers["authorization"].removeprefix("Bearer ")
        if sent not in self.issued:
            await answer.json(UNAUTHENTICATED, 401)
            return
        until = datetime.now(UTC) + timedelta(seconds=self.lifetime_s)
        token = str(self.token()["access_token"])
        await answer.json({"accessToken": token, "expireTime": f"{until:%Y-%m-%dT%H:%M:%SZ}"})

    async def _metadata(self, request: Received, answer: Answer) -> None:
        flavour = {"metadata-flavor": "Google"}
        if request.headers.get("metadata-flavor") != "Google":
            await answer.json({}, 403)
        elif request.path == "/":
            await answer.body(b"computeMetadata/", "application/text", 200, flavour)
        elif "/project/project-id" in request.path:
            await answer.body(b"my-project", "application/text", 200, flavour)
        elif "/token" in request.path:
            await answer.json(self.token(), 200, flavour)
        elif "/service-accounts/" in request.path:
            await answer.json(
                {"email": ACCOUNT, "aliases": ["default"], "scopes": [SCOPE]}, 200, flavour
            )
        else:
            await answer.body(b"googleapis.com", "application/text", 404, flavour)

    async def _model(self, request: Received, answer: Answer) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        self.projects.append(request.headers.get("x-goog-user-project"))
        if token not in self.issued or token in self.revoked:
            await answer.json(UNAUTHENTICATED, 401)
            return
        await gemini(request, answer)


@cache
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def service_account(folder: Path, server: Provider) -> Path:
    """Return a service account key in Google's format, with the server as token endpoint."""
    pem = private_key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return written(
        folder,
        {
            "type": "service_account",
            "project_id": "my-project",
            "private_key_id": "key-1",
            "private_key": pem.decode(),
            "client_email": ACCOUNT,
            "client_id": "1",
            "token_uri": f"{server.origin}/token",
        },
    )


def written(folder: Path, info: Json) -> Path:
    file = folder / "credentials.json"
    file.write_text(json.dumps(info))
    return file


def claims_of(assertion: str) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Return a JWT's header and claims; raises if it is not signed with the test key."""
    head, claims, signature = (_decoded(part) for part in assertion.split("."))
    private_key().public_key().verify(
        signature,
        assertion.rpartition(".")[0].encode(),
        padding.PKCS1v15(),
        hashes.SHA256(),
    )
    return cast("Json", json.loads(head)), cast("Json", json.loads(claims))


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
