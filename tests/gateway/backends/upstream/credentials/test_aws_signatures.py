"""AWS request signatures that botocore verifies, with keys configured or discovered."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from strowger_gateway.adapters.base import Outbound
from strowger_gateway.gateway.backends.upstream.credentials.aws_signing import AwsSignatures
from strowger_gateway.gateway.backends.upstream.credentials.botocore_keys import KeyChain, Keys
from strowger_gateway.gateway.backends.upstream.credentials.transport import AuthorizedTransport
from strowger_gateway.gateway.backends.upstream.wire import WireTransport
from strowger_gateway.schemas.errors import UpstreamRefused, UpstreamUnreachable
from strowger_gateway.schemas.secret import Secret
from tests.gateway.backends.upstream.wire.exchanging import soon
from tests.stand_ins.aws_signing import signed_by
from tests.stand_ins.bedrock_client import runtime
from tests.stand_ins.bedrock_server import bedrock
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

SECRETS = {"AKIDEXAMPLE": "secret", "AKIDOLD": "old secret", "AKIDNEW": "new secret"}
KEYS = Keys(access_key_id="AKIDEXAMPLE", secret_access_key=Secret("secret"))
ASK = Outbound(
    target="/model/eu.anthropic.claude-x-v1%3A0/converse",
    headers=(("content-type", "application/json"), ("accept", "application/json")),
    body=b'{"messages":[]}',
)


def signatures(server: Provider, **changes: object) -> AwsSignatures:
    keys = changes.get("keys", KEYS)
    profile = changes.get("profile")
    return AwsSignatures(
        server.origin,
        "eu-west-1",
        upstream="aws",
        keys=keys if isinstance(keys, Keys) else None,
        chain=lambda: KeyChain(
            profile if isinstance(profile, str) else None, region="eu-west-1", upstream="aws"
        ),
    )


@asynccontextmanager
async def signing(server: Provider, **changes: object) -> AsyncGenerator[AuthorizedTransport]:
    transport = AuthorizedTransport(
        WireTransport(server.origin, name="aws", max_connections=10), signatures(server, **changes)
    )
    try:
        yield transport
    finally:
        await transport.aclose()


async def ask(transport: AuthorizedTransport, outbound: Outbound = ASK) -> tuple[int, bytes]:
    reply = await transport.exchange(outbound, connect_by=soon(2), head_by=soon())
    try:
        return reply.status, await reply.body(soon(), 10_000)
    finally:
        await reply.aclose()


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without keys: the file in which a profile's would stand."""
    file = tmp_path / "credentials"
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return file


def write(file: Path, text: str) -> None:
    file.write_text(text)


def profile(name: str, key: str) -> str:
    return f"[{name}]\naws_access_key_id = {key}\naws_secret_access_key = {SECRETS[key]}\n"


async def test_aws_own_client_signs_so_that_the_check_finds_it_right() -> None:
    async with provider(bedrock) as server:
        client = runtime(server.origin)
        messages = [{"role": "user", "content": [{"text": "hi"}]}]
        await asyncio.to_thread(client.converse, modelId="a:b/c", messages=messages)
        client.close()

    request = server.requests[-1]
    assert signed_by(request, SECRETS) == ("AKIDEXAMPLE", "eu-west-1")
    for changed in (
        msgspec.structs.replace(request, body=request.body + b" "),
        msgspec.structs.replace(request, path=request.path.replace("%3A", ":")),
    ):
        with pytest.raises(AssertionError, match="the signature is wrong"):
            signed_by(changed, SECRETS)


@pytest.mark.parametrize("target", [ASK.target, "/model/arn%3Aaws%3Ax%2Fy/converse-stream", "/a~b"])
async def test_requests_are_signed_as_they_arrive(target: str) -> None:
    async with provider(answer_all) as server, signing(server) as transport:
        await ask(transport, msgspec.structs.replace(ASK, target=target))

    assert signed_by(server.requests[-1], SECRETS) == ("AKIDEXAMPLE", "eu-west-1")


async def test_a_session_token_travels_and_is_signed() -> None:
    keys = msgspec.structs.replace(KEYS, session_token=Secret("token-of-the-session"))
    async with provider(answer_all) as server, signing(server, keys=keys) as transport:
        await ask(transport)

    request = server.requests[-1]
    assert request.headers["x-amz-security-token"] == "token-of-the-session"
    assert "x-amz-security-token" in request.headers["authorization"]
    signed_by(request, SECRETS)


async def test_keys_are_found_in_the_environment(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDNEW")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRETS["AKIDNEW"])

    async with provider(answer_all) as server, signing(server, keys=None) as transport:
        await ask(transport)

    assert signed_by(server.requests[-1], SECRETS)[0] == "AKIDNEW"


async def test_keys_are_found_under_a_profile(nowhere: Path) -> None:
    write(nowhere, profile("default", "AKIDOLD") + profile("team", "AKIDNEW"))

    async with (
        provider(answer_all) as server,
        signing(server, keys=None, profile="team") as transport,
    ):
        await ask(transport)

    assert signed_by(server.requests[-1], SECRETS)[0] == "AKIDNEW"


async def test_keys_that_were_replaced_are_looked_for_again_and_the_request_sent_again(
    nowhere: Path,
) -> None:
    write(nowhere, profile("default", "AKIDOLD"))

    async def expired(request: Received, answer: Answer) -> None:
        if "AKIDOLD" in request.headers["authorization"]:
            write(nowhere, profile("default", "AKIDNEW"))
            said = {"message": "The security token included in the request is expired"}
            await answer.json(said, 403)
            return
        await answer.json({})

    async with provider(expired) as server, signing(server, keys=None) as transport:
        status, _ = await ask(transport)

    assert status == 200
    assert [signed_by(one, SECRETS)[0] for one in server.requests] == ["AKIDOLD", "AKIDNEW"]


async def test_a_model_that_may_not_be_used_is_not_retried(nowhere: Path) -> None:
    write(nowhere, profile("default", "AKIDOLD"))

    async def forbidden(request: Received, answer: Answer) -> None:
        await answer.json({"message": "You don't have access to the model."}, 403)

    async with provider(forbidden) as server, signing(server, keys=None) as transport:
        status, _ = await ask(transport)

    assert (status, len(server.requests)) == (403, 1)


async def test_missing_keys_are_an_operators_error(nowhere: Path) -> None:
    async with provider(answer_all) as server, signing(server, keys=None) as transport:
        with pytest.raises(UpstreamRefused, match="aws: no AWS credentials: none in the env"):
            await ask(transport)

    assert not server.requests


async def test_a_missing_profile_is_reported_by_its_name(nowhere: Path) -> None:
    async with (
        provider(answer_all) as server,
        signing(server, keys=None, profile="missing-profile") as transport,
    ):
        with pytest.raises(UpstreamRefused, match="missing-profile"):
            await ask(transport)


async def test_a_program_that_gives_no_keys_may_give_some_later(nowhere: Path) -> None:
    write(nowhere, "[default]\ncredential_process = /bin/false\n")

    async with provider(answer_all) as server, signing(server, keys=None) as transport:
        with pytest.raises(UpstreamUnreachable, match="aws: no AWS credentials: "):
            await ask(transport)


async def test_keys_are_never_shown() -> None:
    async with provider(answer_all) as server:
        credentials = signatures(server)
        try:
            headers = await credentials.headers(ASK, by=soon())
        finally:
            await credentials.aclose()

    assert "secret" not in f"{credentials!r} {headers!r} {KEYS!r}".replace("secret_access_key", "")


async def answer_all(request: Received, answer: Answer) -> None:
    await answer.json({})
