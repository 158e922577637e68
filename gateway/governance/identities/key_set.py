"""The public keys of an identity provider, and signatures by them.

The only module that uses joserfc, which is loaded when the configuration has an identity provider:
it and `cryptography` take 24 MB.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec
from joserfc import jwk
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry
from msgspec import Struct

from strowger_gateway.gateway.governance.identities.compact_token import decoded

MOST_KEYS: Final = 100
_RSA_BYTES: Final = range(2048 // 8, 16384 // 8 + 1)
"""Sizes of an RSA key; https://www.rfc-editor.org/rfc/rfc7518#section-3.3 has the smallest."""

_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519"}


class _Jwk(Struct, frozen=True, kw_only=True):
    """What decides where a key is used. https://www.rfc-editor.org/rfc/rfc7517#section-4"""

    kty: str
    kid: str | None = None
    use: str | None = None
    alg: str | None = None
    crv: str | None = None


class _Jwks(Struct, frozen=True, kw_only=True):
    keys: tuple[msgspec.Raw, ...]


class VerificationKey(Struct, frozen=True, kw_only=True):
    """alg: the only algorithm that it is for, if its issuer says so."""

    kid: str | None
    kty: str
    crv: str | None
    alg: str | None
    key: jwk.Key

    def fits(self, alg: str) -> bool:
        """Return whether a signature of this algorithm can be by this key."""
        if self.alg is not None and self.alg != alg and (self.alg, alg) != ("Ed25519", "EdDSA"):
            return False
        curve = _CURVES.get(alg)
        return self.kty == "RSA" if curve is None else self.crv == curve


class KeySet(Struct, frozen=True, kw_only=True, eq=False):
    """source: as it was read. Symmetric keys, keys for encryption and weak ones are left out."""

    source: bytes
    keys: tuple[VerificationKey, ...]

    def find(self, kid: str | None, alg: str) -> VerificationKey | None:
        """Return the key of this id; without an id, the only key that fits."""
        fitting = [one for one in self.keys if one.fits(alg)]
        if kid is not None:
            return next((one for one in fitting if one.kid == kid), None)
        return fitting[0] if len(fitting) == 1 else None


_jwks = msgspec.json.Decoder(_Jwks)
_jwk = msgspec.json.Decoder(_Jwk)
_plain: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


def read_key_set(source: bytes) -> KeySet:
    """Raises ValueError if it is not a set of keys, or no key of it can be used."""
    try:
        entries = _jwks.decode(source).keys
    except msgspec.DecodeError as exc:
        raise ValueError(f"the keys are not a JSON Web Key Set: {exc}") from exc
    found = tuple(one for one in map(_read, entries[:MOST_KEYS]) if one is not None)
    if not found:
        raise ValueError("the JSON Web Key Set has no public key for signatures")
    return KeySet(source=source, keys=found)


def signed(token: bytes, key: VerificationKey, alg: str) -> bool:
    """Return whether the token has a valid signature by this key."""
    payload, _, signature = token.rpartition(b".")
    try:
        data = decoded(signature)
        return JWSRegistry.algorithms[alg].verify(payload, data, key.key)
    except (JoseError, ValueError):
        return False


def _read(entry: msgspec.Raw) -> VerificationKey | None:
    """Return `None` for a key that cannot be used: issuers publish keys for other purposes too."""
    try:
        facts = _jwk.decode(entry)
        if facts.kty not in ("RSA", "EC", "OKP") or facts.use not in (None, "sig"):
            return None
        fields = _public(_plain.decode(entry))
        if facts.kty == "RSA" and len(decoded(str(fields["n"]).encode())) not in _RSA_BYTES:
            return None
        key = jwk.import_key(cast("dict[str, str | list[str]]", fields))
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return VerificationKey(kid=facts.kid, kty=facts.kty, crv=facts.crv, alg=facts.alg, key=key)


_PUBLIC: Final[Mapping[str, Sequence[str]]] = {
    "RSA": ("kty", "n", "e"),
    "EC": ("kty", "crv", "x", "y"),
    "OKP": ("kty", "crv", "x"),
}


def _public(fields: Mapping[str, object]) -> dict[str, object]:
    """Keep the public numbers: nothing else of an entry takes part in a verification."""
    return {name: fields[name] for name in _PUBLIC[str(fields["kty"])]}
