"""Fetching images for providers that need the bytes: allowed addresses, sizes and times."""

import ssl
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from strowger_gateway.gateway.backends.upstream.image_fetching.byte_meter import ByteMeter
from strowger_gateway.gateway.backends.upstream.image_fetching.fetcher import ImageFetcher
from strowger_gateway.gateway.config.schema.connection import Fetch
from strowger_gateway.schemas.errors import InvalidConfig, InvalidRequest
from tests.stand_ins.doubles import Peer, RawServer, Script, answering, raw_server, sized

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
LOOPBACK = ("127.0.0.0/8",)
WHERE = "messages[0].content[0].image_url.url"


class Site:
    """An https site that answers for `images.test`, and the CA that vouches for it."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.ca_file = str(folder / "ca.pem")
        authority.cert_pem.write_to_path(self.ca_file)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("images.test", "xn--bcher-kva.test").configure_cert(self.context)  # pyright: ignore[reportUnknownMemberType] - pyOpenSSL is not here
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        here = ["127.0.0.1"]
        known = {"images.test": here, "other.test": here, "inside.test": ["10.0.0.9"]}
        known["xn--bcher-kva.test"] = here
        if host not in known:
            raise OSError("no such host")
        return known[host]

    @asynccontextmanager
    async def serving(
        self, script: Script, allow: tuple[str, ...] = LOOPBACK, **limits: float
    ) -> AsyncGenerator[tuple[RawServer, ImageFetcher]]:
        timeout_s = limits.get("timeout_s", 5.0)
        config = Fetch(allow=allow, ca_file=self.ca_file, timeout_s=timeout_s)
        fetcher = ImageFetcher(config, self.resolve)
        async with raw_server(script, tls=self.context, host="images.test") as server:
            try:
                yield server, fetcher
            finally:
                await fetcher.aclose()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def image(body: bytes = PNG, kind: str = "image/png") -> bytes:
    return sized(body, "200 OK", f"content-type: {kind}")


def redirect(to: str, status: str = "302 Found") -> bytes:
    return sized(b"", status, f"location: {to}")


async def refused(asking: Awaitable[object]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        await asking
    assert caught.value.param == WHERE
    assert str(caught.value).startswith(WHERE)
    return caught.value


async def test_an_image_comes_with_its_type(site: Site) -> None:
    async with site.serving(answering(image())) as (server, fetcher):
        got = await fetcher.image(f"{server.base_url}/cat.png?size=1&q=%20", WHERE, ByteMeter(1000))

    assert (got.media_type, got.data) == ("image/png", PNG)
    (request,) = server.requests
    assert request.path == "/cat.png?size=1&q=%20"
    assert request.headers["host"] == f"images.test:{server.port}"
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("images.test.", "images.test"),
        ("IMAGES.test", "images.test"),
        ("b\u00fccher.test", "xn--bcher-kva.test"),
    ],
)
async def test_names_are_written_as_servers_and_certificates_have_them(
    name: str, host: str, site: Site
) -> None:
    async with site.serving(answering(image())) as (server, fetcher):
        await fetcher.image(f"https://{name}:{server.port}/cat.png", WHERE, ByteMeter(1000))

    (request,) = server.requests
    assert request.headers["host"] == f"{host}:{server.port}"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_an_image_without_a_type_is_recognised_by_how_it_begins(
    site: Site, body: bytes, kind: str
) -> None:
    script = answering(image(body, "application/octet-stream"))
    async with site.serving(script) as (server, fetcher):
        assert (
            await fetcher.image(f"{server.base_url}/x", WHERE, ByteMeter(1000))
        ).media_type == kind


async def test_what_is_not_an_image_is_refused(site: Site) -> None:
    async with site.serving(answering(image(b"<html>", "text/html"))) as (server, fetcher):
        error = await refused(fetcher.image(f"{server.base_url}/x", WHERE, ByteMeter(1000)))

    assert "is not an image: its server sends text/html" in str(error)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://images.test/x.png", "must be https"),
        ("ftp://images.test/x.png", "must be https"),
        ("https:///x.png", "must name a host"),
        ("https://user:secret@images.test/x.png", "without a user name"),
        ("https://images.test:99999/x.png", "is not a valid URL"),
        ("https://nowhere.test/x.png", "names nowhere.test, which is unknown or not public"),
        ("https://inside.test/x.png", "names inside.test, which is unknown or not public"),
    ],
)
async def test_a_url_that_may_not_be_fetched_is_refused(site: Site, url: str, why: str) -> None:
    async with site.serving(answering(image())) as (server, fetcher):
        error = await refused(fetcher.image(url, WHERE, ByteMeter(1000)))

    assert why in str(error)
    assert "secret" not in str(error)
    assert server.connections == []


async def test_loopback_is_not_public(site: Site) -> None:
    async with site.serving(answering(image()), allow=()) as (server, fetcher):
        await refused(fetcher.image(f"{server.base_url}/x.png", WHERE, ByteMeter(1000)))

    assert server.connections == []


async def test_a_host_that_cannot_be_looked_up_is_unknown() -> None:
    fetcher = ImageFetcher(Fetch())

    error = await refused(fetcher.image(f"https://{'x' * 64}.test/x.png", WHERE, ByteMeter(1000)))
    await fetcher.aclose()

    assert "which is unknown or not public" in str(error)


async def test_redirects_are_followed_and_each_is_checked(site: Site) -> None:
    async def script(peer: Peer) -> None:
        asked = await peer.request()
        await peer.send(redirect("/second") if asked.path == "/first" else image())

    async with site.serving(script) as (server, fetcher):
        got = await fetcher.image(f"{server.base_url}/first", WHERE, ByteMeter(1000))

    assert got.data == PNG
    assert [request.path for request in server.requests] == ["/first", "/second"]
    assert site.asked == ["images.test", "images.test"]


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("https://inside.test/x.png", "not public"),
        ("http://images.test/x.png", "must be https"),
        ("https://169.254.169.254/latest/meta-data", "unknown or not public"),
    ],
)
async def test_a_redirect_into_the_inside_is_refused(site: Site, to: str, why: str) -> None:
    async with site.serving(answering(redirect(to))) as (server, fetcher):
        error = await refused(fetcher.image(f"{server.base_url}/x", WHERE, ByteMeter(1000)))

    assert why in str(error)
    assert len(server.requests) == 1


async def test_redirects_in_a_circle_end(site: Site) -> None:
    async with site.serving(answering(redirect("/again"))) as (server, fetcher):
        error = await refused(fetcher.image(f"{server.base_url}/x", WHERE, ByteMeter(1000)))

    assert "more than 5 redirects" in str(error)
    assert len(server.requests) == 6


async def test_a_certificate_must_name_the_host_and_not_its_address(site: Site) -> None:
    async with site.serving(answering(image())) as (server, fetcher):
        url = f"https://other.test:{server.port}/x.png"
        error = await refused(fetcher.image(url, WHERE, ByteMeter(1000)))

    assert "could not be fetched" in str(error)
    assert server.requests == []


async def test_an_image_over_the_limit_is_left_half_way(site: Site) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n")
        while True:
            await peer.send(bytes(4096))

    async with site.serving(endless) as (server, fetcher):
        error = await refused(fetcher.image(f"{server.base_url}/x.png", WHERE, ByteMeter(100_000)))

    assert "too large" in str(error)
    assert server.connections[0].sent < 20_000_000


async def test_an_image_that_never_comes_is_given_up(site: Site) -> None:
    async def silent(peer: Peer) -> None:
        await peer.request()
        await peer.stay()

    async with site.serving(silent, timeout_s=0.3) as (server, fetcher):
        error = await refused(fetcher.image(f"{server.base_url}/x.png", WHERE, ByteMeter(1000)))
        await server.connections[0].gone()

    assert "within 0.3 s" in str(error)


@pytest.mark.parametrize("status", ["404 Not Found", "500 Oops", "304 Not Modified"])
async def test_a_status_without_an_image_is_reported(site: Site, status: str) -> None:
    async with site.serving(answering(sized(b"", status))) as (server, fetcher):
        error = await refused(fetcher.image(f"{server.base_url}/x.png", WHERE, ByteMeter(1000)))

    assert f"status {status[:3]}" in str(error)


def test_unreadable_certificates_are_reported_at_the_start() -> None:
    with pytest.raises(InvalidConfig, match=r"server\.fetch\.ca_file"):
        ImageFetcher(Fetch(ca_file="/no/such.pem"))
