"""The cookie of a session, in requests and in answers."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from litestar.datastructures import Cookie

COOKIE: Final = "strowger_admin"
_MOST: Final = 4
"""Values that are looked at; a browser sends one."""


def session_cookie(value: str, *, secure: bool, lasts_s: int) -> Cookie:
    """Return the cookie that starts a session; an empty value with `lasts_s` 0 removes it.

    Scripts cannot read it, and requests from other sites do not carry it.
    """
    return Cookie(
        COOKIE,
        path="/admin",
        value=value,
        max_age=lasts_s,
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def cookies(headers: Iterable[tuple[bytes, bytes]], name: str = COOKIE) -> Iterable[str]:
    """Return the values of the cookies of this name."""
    return islice(_values(headers, name), _MOST)


def _values(headers: Iterable[tuple[bytes, bytes]], wanted: str) -> Iterator[str]:
    for header, text in headers:
        if header == b"cookie":
            for pair in text.decode("latin-1").split(";"):
                name, _, value = pair.strip().partition("=")
                if name == wanted:
                    yield value
