"""Failures of a MindIE server: errors that clients see, and failover to the next backend."""

import ssl
from pathlib import Path

import pytest
import trustme

from tests.gateway.backends.end_to_end.mindie_backend import Pair, chunks, configured, pair
from tests.gateway.serving import serving
from tests.stand_ins.mindie_model import says, text_of
from tests.stand_ins.mindie_server import (
    Abort,
    Answered,
    Bare,
    Cut,
    Fault,
    Hang,
    MindIEServer,
    Refuse,
    mindie_server,
)

pytestmark = pytest.mark.anyio

TEXT = text_of(says([5, 6, 7]))

BEFORE_CONTENT: list[Fault] = [
    Refuse(),
    Answered(500),
    Answered(503),
    Answered(424, "Failed to enqueue inferRequest."),
    Answered(500, field="type"),
    Abort(after=0),
    Abort(after=1, word="invalid flag"),
    Bare(after=0),
    Bare(after=0, body="Engine callback timeout: first token"),
    Cut(after=0),
    Cut(after=0, orderly=True),
    Cut(after=0, reset=True),
]


@pytest.mark.parametrize("fault", BEFORE_CONTENT, ids=str)
async def test_a_failure_before_content_is_tried_again_and_never_shown(
    fault: Fault, tmp_path: Path
) -> None:
    async with pair(tmp_path, faults=[fault]) as here:
        answer = await here.tokens(stream=True)

        assert answer.status_code == 200
        assert answer.headers["x-gateway-attempts"] == "2"
        assert chunks(answer)[-1]["generated_text"] == TEXT


@pytest.mark.parametrize(
    "fault", [Bare(after=3), Abort(after=3), Cut(after=3, reset=True), Cut(after=3, orderly=True)]
)
async def test_an_answer_that_is_not_streamed_is_tried_again_up_to_its_end(
    fault: Fault, tmp_path: Path
) -> None:
    async with pair(tmp_path, faults=[fault]) as here:
        answer = await here.tokens()

        assert answer.json() == {"generated_text": TEXT}
        assert answer.headers["x-gateway-attempts"] == "2"


@pytest.mark.parametrize(
    ("fault", "reported"),
    [
        (Bare(after=3), "Failed to get engine response."),
        (Abort(after=3), "stop_sequence"),
        (Abort(after=3, word="invalid flag"), "invalid flag"),
        (Cut(after=3), "ascend"),
        (Cut(after=3, reset=True), "ascend"),
        (Cut(after=3, orderly=True), "stream ended early"),
    ],
    ids=str,
)
async def test_a_failure_in_the_middle_of_a_stream_is_an_error_and_never_an_end(
    fault: Fault, reported: str, tmp_path: Path
) -> None:
    async with pair(tmp_path, faults=[fault], gap_s=0.02) as here:
        answer = await here.text(stream=True)

        last = chunks(answer)[-1]
        assert reported in str(last["error"])
        assert 'finish_reason":"' not in answer.text
        assert "[DONE]" not in answer.text


async def test_a_requested_stop_string_does_not_hide_an_answer_without_tokens(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path, faults=[Abort(after=0)]) as here:
        answer = await here.text(stop=["nothing says this"])

        assert answer.headers["x-gateway-attempts"] == "2"


@pytest.mark.parametrize("status", [400, 422])
async def test_what_the_server_refuses_is_the_clients_to_change(
    status: int, tmp_path: Path
) -> None:
    async with pair(tmp_path, faults=[Answered(status, "top_k is wrong")]) as here:
        answer = await here.chat()

        assert answer.status_code == status
        assert answer.json()["error"]["message"] == "top_k is wrong"
        assert len(here.server.requests) == 1


async def test_a_model_that_the_server_does_not_have_is_the_operators_to_change(
    tmp_path: Path,
) -> None:
    async with mindie_server(model="another") as server:
        async with serving(configured(server.base_url), tmp_path) as gateway:
            answer = await Pair(gateway=gateway, server=server).chat()

            assert answer.status_code == 424
            assert answer.json()["error"]["code"] == "upstream_model_unknown"
            assert "Model not found." in answer.json()["error"]["message"]


async def test_a_busy_server_says_so(tmp_path: Path) -> None:
    async with pair(tmp_path, faults=[Answered(429)] * 5) as here:
        answer = await here.tokens()

        assert answer.status_code == 429


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/infer_token", {"input_id": [5]}),
        ("/v1/completions", {"model": "chat", "prompt": "x"}),
        ("/v1/chat/completions", {"model": "chat", "messages": [{"role": "user", "content": "x"}]}),
    ],
)
async def test_a_client_that_disconnects_closes_the_connection_to_the_server(
    path: str, asked: dict[str, object], tmp_path: Path
) -> None:
    async with pair(tmp_path, faults=[Hang(after=4)]) as here:
        await here.hang_up(path, {**asked, "stream": True}, after=b"data: ")

        await here.server.raw.until(lambda: here.server.left == 1)


def demanding(authority: trustme.CA) -> ssl.SSLContext:
    """A server that talks only to clients with a certificate of this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def names_of(server: MindIEServer) -> list[str]:
    return [str(peer.certificate) for peer in server.connections]


@pytest.mark.parametrize("path", ["/infer_token", "/v1/chat/completions"])
async def test_a_server_that_demands_a_certificate_gets_the_gateways(
    path: str, tmp_path: Path
) -> None:
    authority = trustme.CA()
    ca, client = tmp_path / "ca.pem", tmp_path / "client.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("gateway@example.com").private_key_and_cert_chain_pem.write_to_path(client)
    shown = f"    tls: {{ca_file: {ca}, client_cert: {client}}}"
    async with pair(tmp_path, tls=demanding(authority), provider_more=shown) as here:
        answer = await (here.tokens() if path == "/infer_token" else here.chat())

        assert answer.status_code == 200
        assert here.server.requests[0].path == path
        assert "gateway@example.com" in names_of(here.server)[0]


async def test_without_a_certificate_such_a_server_is_out_of_reach(tmp_path: Path) -> None:
    authority = trustme.CA()
    ca = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca)
    silent = f"    tls: {{ca_file: {ca}}}"
    async with pair(tmp_path, tls=demanding(authority), provider_more=silent) as here:
        answer = await here.tokens()

        assert answer.status_code == 502
        assert not here.server.requests
