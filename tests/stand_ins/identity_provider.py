"""An identity provider on loopback: its documents, and tokens that PyJWT signs for it."""

import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Literal, cast

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.stand_ins.provider import Answer, Provider, Received, provider

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
DISCOVERY = "/.well-known/openid-configuration"
AUDIENCE = "strowger"


@cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """number: of several keys, each the same in the whole process."""
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def public_jwk(key: PrivateKey, kid: str | None, **more: object) -> dict[str, object]:
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        fields = RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(public, ec.EllipticCurvePublicKey):
        fields = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        fields = OKPAlgorithm.to_jwk(public, as_dict=True)
    named = {} if kid is None else {"kid": kid}
    return {**cast("dict[str, object]", fields), **named, **more}


def pem(key: PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


class IdentityProvider:
    """keys: its entries. issuer: what its discovery document says. mode: how it behaves.

    fetches: how often the keys were read.
    """

    def __init__(self) -> None:
        self.keys: list[dict[str, object]] = [public_jwk(rsa_key(), "first")]
        self.mode: Literal["well", "broken", "garbage", "silent"] = "well"
        self.issuer = ""
        self.fetches = 0
        self.server: Provider

    @property
    def url(self) -> str:
        return f"{self.server.origin}/realms/a"

    def token(
        self,
        key: PrivateKey | None = None,
        algorithm: str = "RS256",
        headers: Mapping[str, object] | None = None,
        more: Mapping[str, object] | None = None,
        **claims: object,
    ) -> str:
        """A valid token, except for the claims that are given; `None` leaves one out."""
        at = int(time.time())
        standard = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": at,
            "nbf": at,
            "exp": at + 600,
        }
        given = {**standard, **claims, **(more or {})}
        whole = {name: value for name, value in given.items() if value is not None}
        head = {"kid": "first", **(headers or {})}
        used = {name: value for name, value in head.items() if value is not None}
        return jwt.encode(whole, key or rsa_key(), algorithm=algorithm, headers=used)

    async def behave(self, request: Received, answer: Answer) -> None:
        if self.mode == "silent":
            await answer.gone.wait()
        elif self.mode == "broken":
            await answer.json({"error": "overloaded"}, status=500)
        elif self.mode == "garbage":
            await answer.body(b"<html>maintenance</html>", "text/html")
        elif request.path == f"/realms/a{DISCOVERY}":
            await answer.json({"issuer": self.issuer or self.url, "jwks_uri": f"{self.url}/keys"})
        else:
            assert request.path == "/realms/a/keys"
            self.fetches += 1
            await answer.body(json.dumps({"keys": self.keys}).encode(), "application/json")


@asynccontextmanager
async def identity_provider() -> AsyncGenerator[IdentityProvider, None]:
    found = IdentityProvider()
    async with provider(found.behave) as server:
        found.server = server
        yield found
