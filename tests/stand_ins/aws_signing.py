"""Checks a request's AWS signature as AWS does: by computing it from the received request."""

import re
from collections.abc import Mapping
from typing import Protocol, cast

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.stand_ins.provider import Received

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/[0-9]{8}/([^/]+)/([^/]+)/aws4_request, "
    r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})"
)


class _Request(Protocol):
    context: dict[str, str]


class _Signer(Protocol):
    def canonical_request(self, request: _Request) -> str: ...
    def string_to_sign(self, request: _Request, canonical_request: str) -> str: ...
    def signature(self, string_to_sign: str, request: _Request) -> str: ...


class _Botocore(Protocol):
    def __call__(self, *parts: object, **named: object) -> object: ...


def signed_by(request: Received, secrets: Mapping[str, str]) -> tuple[str, str]:
    """Return the access key's id and the region of a correct signature.

    secrets: by access key id. Raises AssertionError for a signature that is wrong or missing.
    """
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    assert found, "the request is not signed"
    key, region, service, names, signature = found.groups()
    assert service == "bedrock", f"the signature is for {service}"
    assert "host" in names.split(";"), "the host is not signed"
    headers = {name: request.headers[name] for name in names.split(";")}
    again = cast("_Botocore", AWSRequest)(
        method=request.method,
        url=f"http://{request.headers['host']}{request.path}",
        data=request.body,
        headers=headers,
    )
    copy = cast("_Request", again)
    copy.context["timestamp"] = request.headers["x-amz-date"]
    credentials = cast("_Botocore", Credentials)(key, secrets[key])
    signer = cast("_Signer", cast("_Botocore", SigV4Auth)(credentials, service, region))
    text = signer.string_to_sign(copy, signer.canonical_request(copy))
    assert signature == signer.signature(text, copy), "the signature is wrong"
    return key, region
