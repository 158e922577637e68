"""What the page says of a gateway, as HTML: the words, and that nothing of a client's is markup."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.page.crowd import KEY, ask, crowded
from tests.gateway.serving import one_model, serving

asynchronous = pytest.mark.anyio
BEARER = {"authorization": f"Bearer {KEY}"}


@asynchronous
async def test_what_decided_a_request_is_told_in_words(tmp_path: Path) -> None:
    async with crowded(tmp_path) as up:
        await ask(up, 16)
        async with httpx.AsyncClient(base_url=up.url, headers=BEARER) as client:
            page = (await client.get("/admin/live")).text

    assert "north/large answered after south/large did not." in page
    assert "First in line was south/large." in page
    assert "Not needed: cellar/small." in page
    assert "No backend was asked:" in page


@asynchronous
async def test_what_clients_and_operators_wrote_is_text(tmp_path: Path) -> None:
    config = one_model("http://127.0.0.1:9/v1", f"auth: {{admin_key: {KEY}}}")
    config = config.replace("model: m-1", "model: 'm<s>\"'")
    async with serving(config, tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, headers=BEARER) as client:
            await client.post(
                "/v1/chat/completions",
                json={
                    "model": "<script>alert(1)</script>",
                    "messages": [{"role": "user", "content": "hi"}],
                },
            )
            page = (await client.get("/admin")).text

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert" not in page
    assert "m&lt;s&gt;&#34;" in page
    assert "<s>" not in page


@asynchronous
async def test_a_gateway_without_a_request_says_so(tmp_path: Path) -> None:
    config = one_model("http://127.0.0.1:9/v1", f"auth: {{admin_key: {KEY}}}")
    async with serving(config, tmp_path) as up:
        async with httpx.AsyncClient(base_url=up.url, headers=BEARER) as client:
            page = (await client.get("/admin")).text

    assert page.count("Nothing in this time.") == 4
    assert "No request yet." in page
    assert "no answers yet" in page
