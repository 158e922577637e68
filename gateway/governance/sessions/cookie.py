"""The cookie of a session, in requests and in answers.

Over TLS its name has a prefix with which browsers accept it only from this host, over TLS and for
all paths, so that neither another host of the domain nor an attacker on the network plants a
session.
https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/Set-Cookie#cookie_prefixes
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from litestar.datastructures import Cookie

COOKIE: Final = "strowger_admin"
"""Its name without TLS."""

SECURE_COOKIE: Final = f"__Host-{COOKIE}"
_MOST: Final = 4
"""Values that are looked at; a browser sends one."""


def session_cookies(value: str, *, secure: bool, lasts_s: int) -> list[Cookie]:
    """Return the cookies that start a session; an empty value with `lasts_s` 0 removes it.

    Scripts cannot read them, and requests from other sites do not carry them. secure: over TLS;
    then a cookie with the other name, from a version before the prefix, is removed.
    """
    if not secure:
        return [_cookie(COOKIE, value, lasts_s, "/admin", secure=False)]
    return [
        _cookie(SECURE_COOKIE, value, lasts_s, "/", secure=True),
        _cookie(COOKIE, "", 0, "/admin", secure=True),
    ]


def session_values(headers: Iterable[tuple[bytes, bytes]], *, secure: bool) -> Iterator[str]:
    """Return what may be sessions in the cookies of a request. secure: over TLS."""
    headers = tuple(headers)
    yield from cookies(headers, SECURE_COOKIE)
    if not secure:
        yield from cookies(headers, COOKIE)


def cookies(headers: Iterable[tuple[bytes, bytes]], name: str) -> Iterable[str]:
    """Return the values of the cookies of this name."""
    return islice(_values(headers, name), _MOST)


def _cookie(name: str, value: str, lasts_s: int, path: str, *, secure: bool) -> Cookie:
    return Cookie(
        name,
        path=path,
        value=value,
        max_age=lasts_s,
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def _values(headers: Iterable[tuple[bytes, bytes]], wanted: str) -> Iterator[str]:
    for header, text in headers:
        if header == b"cookie":
            for pair in text.decode("latin-1").split(";"):
                name, _, value = pair.strip().partition("=")
                if name == wanted:
                    yield value
