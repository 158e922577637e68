"""Fetched images have spans, and the headers of a trace leave AWS signatures valid."""

import ssl
from pathlib import Path

import httpx
import pytest
import trustme
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from strowger_gateway.gateway.observability.tracing.part import TracingSide
from tests.gateway.observability.otlp.fake_collector import otlp_collector, values
from tests.gateway.serving import serving
from tests.stand_ins.aws_signing import signed_by
from tests.stand_ins.bedrock_server import bedrock
from tests.stand_ins.doubles import answering, raw_server, sized
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def looks(request: Received, answer: Answer) -> None:
    message = {"role": "assistant", "content": "a cat"}
    await answer.json({"model": "llava", "message": message, "done": True, "done_reason": "stop"})


async def spans_of_images(
    folder: Path, status: str, *paths: str, max_bytes: int = 1000
) -> tuple[int, list[Span]]:
    """Ask about images at an HTTPS site that answers with this status; the spans of the request."""
    authority = trustme.CA()
    ca_file = str(folder / "ca.pem")
    authority.cert_pem.write_to_path(ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
    script = answering(sized(PNG, status, "content-type: image/png"))
    async with (
        provider(looks) as box,
        otlp_collector() as collector,
        raw_server(script, tls=context) as site,
    ):
        url = box.base_url.removesuffix("/v1")
        networks = "127.0.0.0/8, '::1/128'"
        config = f"""
server: {{fetch: {{allow: [{networks}], ca_file: {ca_file}, max_bytes: {max_bytes}}}}}
providers: [{{name: box, adapter: ollama, base_url: "{url}"}}]
models: [{{name: chat, backends: [{{provider: box, model: llava}}]}}]
telemetry: {{otlp: {{endpoint: "{collector.origin}", sample: 1}}}}
"""
        parts = [
            {"type": "image_url", "image_url": {"url": f"https://localhost:{site.port}{path}"}}
            for path in paths
        ]
        body = {"model": "chat", "messages": [{"role": "user", "content": parts}]}
        async with serving(config, folder) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                answer = await client.post("/v1/chat/completions", json=body)
            await gateway.state.side(TracingSide).close(20)
        assert not any("traceparent" in one.headers for one in site.requests)
        return answer.status_code, collector.spans()


async def test_each_fetched_image_is_a_child_of_its_attempt(tmp_path: Path) -> None:
    status, spans = await spans_of_images(tmp_path, "200 OK", "/cat.png", "/dog.png", "/cat.png")
    server, attempt, *fetches = spans

    assert status == 200
    assert [one.name for one in fetches] == ["fetch image"] * 2, "each address is fetched once"
    for one in fetches:
        assert one.parent_span_id == attempt.span_id
        assert one.trace_id == server.trace_id
        assert one.kind == Span.SPAN_KIND_CLIENT
        assert one.status.code == Status.STATUS_CODE_UNSET
        assert attempt.start_time_unix_nano <= one.start_time_unix_nano
        assert one.start_time_unix_nano < one.end_time_unix_nano <= attempt.end_time_unix_nano
        assert not values(one), "no address of a client's image is exported"
    assert len({one.span_id for one in spans}) == 4


async def test_an_image_that_cannot_be_fetched_has_a_failed_span(tmp_path: Path) -> None:
    status, spans = await spans_of_images(tmp_path, "404 Not Found", "/cat.png")
    server, attempt, fetch = spans

    assert status == 400
    assert fetch.parent_span_id == attempt.span_id
    assert fetch.status.code == Status.STATUS_CODE_ERROR
    assert values(fetch) == {"error.type": "invalid_image_url"}
    assert server.status.code == Status.STATUS_CODE_UNSET, "an error of the client"


@pytest.mark.parametrize("stream", [False, True])
async def test_the_headers_of_a_trace_leave_aws_signatures_valid(
    tmp_path: Path, stream: bool
) -> None:
    async with provider(bedrock) as server, otlp_collector() as collector:
        config = f"""
providers:
  - name: aws
    adapter: bedrock
    base_url: {server.origin}
    aws: {{region: eu-west-1, access_key_id: AKIDEXAMPLE, secret_access_key: of-the-operator}}
models:
  - {{name: chat, backends: [{{provider: aws, model: "eu.anthropic.claude-x-v1:0"}}]}}
telemetry: {{otlp: {{endpoint: "{collector.origin}"}}}}
"""
        body = {
            "model": "chat",
            "stream": stream,
            "messages": [{"role": "user", "content": "hello"}],
        }
        sent = {"traceparent": CALLER, "tracestate": "a=1"}
        async with serving(config, tmp_path) as gateway:
            async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
                answer = await client.post("/v1/chat/completions", json=body, headers=sent)
            await gateway.state.side(TracingSide).close(20)

    assert answer.status_code == 200, answer.text
    (request,) = server.requests
    _, attempt = collector.spans()
    assert request.headers["traceparent"] == f"{CALLER[:35]}-{attempt.span_id.hex()}-01"
    assert request.headers["tracestate"] == "a=1"
    assert signed_by(request, {"AKIDEXAMPLE": "of-the-operator"}) == ("AKIDEXAMPLE", "eu-west-1")
    # A proxy on the way may replace them, so they are not among the signed headers.
    signed = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    assert not {"traceparent", "tracestate"} & set(signed.split(";"))
