"""Roles are assumed, and those of containers and machines discovered, by AWS's own chain."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.backends.upstream.credentials.base import Credentials
from strowger_gateway.gateway.backends.upstream.credentials.botocore_keys import (
    KeyChain,
    Keys,
    Role,
)
from strowger_gateway.gateway.backends.upstream.credentials.factory import credentials_of
from strowger_gateway.gateway.config.schema.config import Provider as Configured
from strowger_gateway.gateway.config.schema.connection import Aws
from strowger_gateway.schemas.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from strowger_gateway.schemas.secret import Secret
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nowhere")]

ASK = Outbound(target="/model/m/converse", headers=(), body=b"{}")
ROLE = "arn:aws:iam::123456789012:role/gateway"
BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com"


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without keys of its own; clients of AWS try once."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")


class Amazon:
    """STS, a container's and a machine's metadata service.

    life_s: of the keys that it gives out, ASIA1, ASIA2, … refuse: STS's next answers.
    """

    def __init__(self) -> None:
        self.life_s = 3600
        self.issued = 0
        self.calls: list[tuple[Received, dict[str, str]]] = []
        self.refuse: list[tuple[int, str]] = []

    async def __call__(self, request: Received, answer: Answer) -> None:
        if request.method == "POST":
            await self._sts(request, answer)
        elif request.path == "/container":
            self.calls.append((request, {}))
            await answer.json(self._keys())
        elif request.path.endswith("/iam/security-credentials/"):
            await answer.body(b"machine-role", "text/plain")
        elif request.path.endswith("/machine-role"):
            await answer.json({"Code": "Success", "Type": "AWS-HMAC", **self._keys()})
        else:
            await answer.json({}, 404)

    def _keys(self) -> dict[str, str]:
        self.issued += 1
        ends = datetime.now(UTC) + timedelta(seconds=self.life_s)
        return {
            "AccessKeyId": f"ASIA{self.issued}",
            "SecretAccessKey": "secret",
            "Token": f"session-{self.issued}",
            "SessionToken": f"session-{self.issued}",
            "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    async def _sts(self, request: Received, answer: Answer) -> None:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.calls.append((request, form))
        if self.refuse:
            status, code = self.refuse.pop(0)
            error = f"<Error><Type>Sender</Type><Code>{code}</Code><Message>no</Message></Error>"
            text = f"<ErrorResponse>{error}<RequestId>r</RequestId></ErrorResponse>"
            await answer.body(text.encode(), "text/xml", status)
            return
        action, keys = form["Action"], self._keys()
        fields = "".join(
            f"<{name}>{keys[name]}</{name}>"
            for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
        )
        text = (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
            f"<Credentials>{fields}</Credentials></{action}Result></{action}Response>"
        )
        await answer.body(text.encode(), "text/xml")


@asynccontextmanager
async def signing(aws: Aws) -> AsyncGenerator[Credentials]:
    configured = Configured(name="aws", adapter="bedrock", aws=aws)
    credentials = credentials_of(configured, BEDROCK, Registry(()))
    assert credentials is not None
    try:
        yield credentials
    finally:
        await credentials.aclose()


async def key(of: Credentials) -> tuple[str, str]:
    """Whose key signs a request now, and the session that goes with it."""
    headers = dict(await of.headers(ASK, by=asyncio.get_running_loop().time() + 10))
    signer = headers["authorization"].partition("Credential=")[2].partition("/")[0]
    return signer, headers["x-amz-security-token"]


def expired(of: Credentials, signer: str) -> bool:
    """Whether another try helps when AWS does not know the key any more."""
    header = ("authorization", f"AWS4-HMAC-SHA256 Credential={signer}/20260101/r/bedrock/x")
    return of.rejected((header,), 403, b"The security token included in the request is expired")


async def test_a_role_is_assumed_once_with_the_keys_that_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    amazon = Amazon()
    aws = Aws(
        access_key_id="AKIDGIVEN",
        secret_access_key=Secret("s"),
        role_arn=ROLE,
        external_id="of-the-owner",
    )
    async with provider(amazon) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.origin)
        async with signing(aws) as of:
            found = await asyncio.gather(*(key(of) for _ in range(50)))

    assert set(found) == {("ASIA1", "session-1")}
    [(request, form)] = amazon.calls
    assert form["Action"] == "AssumeRole"
    assert (form["RoleArn"], form["ExternalId"]) == (ROLE, "of-the-owner")
    assert form["RoleSessionName"] == "strowger"
    assert "Credential=AKIDGIVEN/" in request.headers["authorization"]
    assert "/eu-west-1/sts/" in request.headers["authorization"]


async def test_a_role_that_a_profile_names_is_assumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(
        f"[profile work]\nrole_arn = {ROLE}\nsource_profile = home\n"
        "[profile home]\naws_access_key_id = AKIDHOME\naws_secret_access_key = s\n"
    )
    amazon = Amazon()
    async with provider(amazon) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.origin)
        async with signing(Aws(profile="work")) as of:
            found = await key(of)

    assert found == ("ASIA1", "session-1")
    assert "Credential=AKIDHOME/" in amazon.calls[0][0].headers["authorization"]


async def test_a_pod_shows_the_token_that_kubernetes_has_put_into_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("of-kubernetes-1")
    amazon = Amazon()
    async with provider(amazon) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.origin)
        monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(file))
        async with signing(Aws()) as of:
            first = await key(of)
            file.write_text("of-kubernetes-2")
            again = expired(of, "ASIA1")
            second = await key(of)

    assert (first[0], again, second[0]) == ("ASIA1", True, "ASIA2")
    assert [(form["Action"], form["WebIdentityToken"]) for _, form in amazon.calls] == [
        ("AssumeRoleWithWebIdentity", "of-kubernetes-1"),
        ("AssumeRoleWithWebIdentity", "of-kubernetes-2"),
    ]


async def test_a_containers_role_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    amazon = Amazon()
    async with provider(amazon) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.origin}/container")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of-the-agent")
        async with signing(Aws()) as of:
            found = await key(of)

    assert found == ("ASIA1", "session-1")
    assert amazon.calls[0][0].headers["authorization"] == "of-the-agent"


async def test_a_machines_role_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    amazon = Amazon()
    async with provider(amazon) as server:
        monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"{server.origin}/")
        async with signing(Aws()) as of:
            found = await key(of)

    assert found == ("ASIA1", "session-1")


async def test_keys_near_their_end_are_renewed_before_they_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is looked at again each minute is renewed by botocore in its last quarter of an hour."""
    amazon = Amazon()
    amazon.life_s = 14 * 60
    async with provider(amazon) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.origin)
        given = Keys(access_key_id="AKIDGIVEN", secret_access_key=Secret("s"))
        chain = KeyChain(None, region="eu-west-1", upstream="aws", keys=given, role=Role(arn=ROLE))
        first = await asyncio.to_thread(chain.keys)
        amazon.life_s = 3600
        second, third = [await asyncio.to_thread(chain.keys) for _ in range(2)]

    assert [one.access_key_id for one in (first, second, third)] == ["ASIA1", "ASIA2", "ASIA2"]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AccessDenied", UpstreamRefused),
        (400, "ExpiredTokenException", UpstreamRefused),
        (500, "InternalFailure", UpstreamUnreachable),
        (429, "Throttling", UpstreamUnreachable),
    ],
)
async def test_an_sts_that_refuses_is_called_once_and_its_reason_reported(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, kind: type[UpstreamError]
) -> None:
    amazon = Amazon()
    amazon.refuse = [(status, code)] * 9
    aws = Aws(access_key_id="AKIDGIVEN", secret_access_key=Secret("hunter2"), role_arn=ROLE)
    async with provider(amazon) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.origin)
        async with signing(aws) as of:
            outcomes = await asyncio.gather(*(key(of) for _ in range(9)), return_exceptions=True)

    assert len(amazon.calls) == 1
    for outcome in outcomes:
        assert isinstance(outcome, kind)
        assert outcome.logged.startswith("aws: no AWS credentials: An error occurred")
        assert code in outcome.logged
        assert "hunter2" not in outcome.logged


async def test_an_sts_that_is_not_there_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with provider(Amazon()) as gone:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", gone.origin)
    aws = Aws(access_key_id="AKIDGIVEN", secret_access_key=Secret("s"), role_arn=ROLE)

    async with signing(aws) as of:
        with pytest.raises(UpstreamUnreachable, match="aws: no AWS credentials: Could not connect"):
            await key(of)
