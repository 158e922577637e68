"""A base URL is parsed once, when the configuration is read, or rejected with the reason."""

import pytest

from strowger_gateway.gateway.backends.upstream.origin import Origin, origin_of
from strowger_gateway.schemas.errors import InvalidConfig


@pytest.mark.parametrize(
    ("url", "host", "port", "authority"),
    [
        ("https://api.example/v1", "api.example", 443, "api.example"),
        ("http://api.example", "api.example", 80, "api.example"),
        ("https://api.example:443", "api.example", 443, "api.example"),
        ("http://API.example:8000/", "api.example", 8000, "api.example:8000"),
        ("http://[::1]:8000/v1", "::1", 8000, "[::1]:8000"),
        ("http://[fe80::1%25eth0]:8000/v1", "fe80::1%eth0", 8000, "[fe80::1]:8000"),
        ("http://127.0.0.1:8000", "127.0.0.1", 8000, "127.0.0.1:8000"),
        ("https://api.example./v1", "api.example.", 443, "api.example"),
        ("https://api.example.:8443", "api.example.", 8443, "api.example:8443"),
        ("http://a_b.example", "a_b.example", 80, "a_b.example"),
        ("https://b\u00fccher.example", "xn--bcher-kva.example", 443, "xn--bcher-kva.example"),
    ],
)
def test_scheme_host_and_port_are_taken_from_the_url(
    url: str, host: str, port: int, authority: str
) -> None:
    scheme = "https" if url.startswith("https") else "http"

    origin = origin_of(url, upstream="up")

    assert origin == Origin(scheme=scheme, host=host, port=port, authority=authority)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example",
        "ftp://api.example",
        "https://",
        "https://:8000",
        "https://api.example:port",
        "https://api.example:99999",
        "https://api example",
        "https://user:hunter2@api.example",
        "https://api.example\r\nx-evil:1",
        "https://[::1",
        "https://api%25.example",
        "https://[fe80::1%25]",
        "https://.",
        "https://.api.example",
        "https://api..example",
        "https://api.example..",
        f"https://{'a' * 64}.example",
    ],
)
def test_an_invalid_base_url_is_refused_without_repeating_a_password(url: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^up: base_url") as caught:
        origin_of(url, upstream="up")

    assert "hunter2" not in str(caught.value)
