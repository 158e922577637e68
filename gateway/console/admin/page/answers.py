"""Answers to a browser: HTML that runs only our own script, and redirects."""

from collections.abc import Iterable

from litestar import Request, Response
from litestar.datastructures import Cookie, State

_Request = Request[object, object, State]
_HTML = "text/html"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
GUARDED = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Only our own script runs, no other site can frame the page, and nothing is cached."""


def html(text: str, status: int = 200, cookies: Iterable[Cookie] = ()) -> Response[str]:
    """cookies: to be set."""
    answer = Response(str(text), status_code=status, media_type=_HTML, headers=GUARDED)
    return _with(answer, cookies)


def redirect(url: str, cookies: Iterable[Cookie] = ()) -> Response[str]:
    """cookies: to be set."""
    headers = {**GUARDED, "location": url}
    return _with(Response("", status_code=303, media_type=_HTML, headers=headers), cookies)


def _with(answer: Response[str], cookies: Iterable[Cookie]) -> Response[str]:
    for cookie in cookies:
        answer.set_cookie(cookie)
    return answer
