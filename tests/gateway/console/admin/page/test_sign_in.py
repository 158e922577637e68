"""Access to the page at /admin with the operator's key, in a gateway without a store."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.governance.access.ended_sessions import EndedSessions
from strowger_gateway.gateway.governance.sessions.cookie import COOKIE, SECURE_COOKIE
from strowger_gateway.gateway.governance.sessions.desk import UNLISTED_S
from tests.gateway.serving import one_model, serving

KEY = "key-of-the-operator"
asynchronous = pytest.mark.anyio


@asynccontextmanager
async def visiting(
    run_dir: Path, auth: str = f"{{admin_key: {KEY}}}"
) -> AsyncGenerator[httpx.AsyncClient]:
    store = f"store: {{spool: {run_dir}/spool}}"
    config = one_model("http://127.0.0.1:9/v1", f"auth: {auth}\n{store}")
    async with serving(config, run_dir) as up:
        async with httpx.AsyncClient(base_url=up.url, timeout=60) as client:
            yield client


@asynchronous
async def test_the_key_opens_the_page_and_signing_out_closes_it(tmp_path: Path) -> None:
    async with visiting(tmp_path) as client:
        before = await client.get("/admin")
        entered = await client.post("/admin/sign-in", data={"key": KEY})
        inside = await client.get("/admin")
        left = await client.post("/admin/sign-out")
        after = await client.get("/admin")

    assert (before.status_code, before.headers["location"]) == (303, "/admin/sign-in")
    assert (entered.status_code, entered.headers["location"]) == (303, "/admin")
    assert inside.status_code == 200
    assert "Models and backends" in inside.text
    assert left.status_code == 303
    assert (after.status_code, after.headers["location"]) == (303, "/admin/sign-in")


async def seen(headers: dict[str, str], *clients: httpx.AsyncClient) -> list[int]:
    return [(await one.get("/admin/live", headers=headers)).status_code for one in clients]


@asynchronous
async def test_a_copy_of_the_cookie_opens_nothing_after_signing_out_in_any_process(
    tmp_path: Path,
) -> None:
    """Two gateways with one spool act like two workers, or like one before and after a restart."""
    async with visiting(tmp_path) as client, visiting(tmp_path) as other:
        copies: list[str] = []
        for _ in range(2):
            await client.post("/admin/sign-in", data={"key": KEY})
            copies.append(client.cookies[COOKIE])
            client.cookies.clear()
        ended, kept = ({"cookie": f"{COOKIE}={copy}"} for copy in copies)
        before = [
            (await one.get("/admin/live", headers=ended)).status_code for one in (client, other)
        ]
        await client.post("/admin/sign-out", headers=ended)
        after = [
            (await one.get("/admin/live", headers=ended)).status_code for one in (client, other)
        ]
        another = [
            (await one.get("/admin/live", headers=kept)).status_code for one in (client, other)
        ]
    async with visiting(tmp_path) as restarted:
        later = await restarted.get("/admin/live", headers=ended)

    assert (before, after, another) == ([200, 200], [401, 401], [200, 200])
    assert later.status_code == 401
    assert (tmp_path / "spool" / "ended-sessions").stat().st_mode & 0o077 == 0


@asynchronous
async def test_signing_out_fails_visibly_if_the_disk_cannot_record_it(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file where the folder would be")
    async with visiting(tmp_path) as client:
        await client.post("/admin/sign-in", data={"key": KEY})
        cookie = {"cookie": f"{COOKIE}={client.cookies[COOKIE]}"}
        client.cookies.clear()
        answer = await client.post("/admin/sign-out", headers=cookie)
        after = await client.get("/admin/live", headers=cookie)

    assert answer.status_code == 503
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert "change auth.admin_key" in answer.text
    assert after.status_code == 401


def test_what_would_be_over_by_now_is_dropped_from_the_list(tmp_path: Path) -> None:
    at = 1000.0
    ended = EndedSessions(tmp_path, lambda: at)
    ended.add(b"early", 1010)
    at = 1020.0
    ended.add(b"later", 1030)

    assert (tmp_path / "ended-sessions").read_text() == f"{b'later'.hex()} 1030\n"
    assert ended.has(b"later")
    assert not EndedSessions(tmp_path).has(b"early")


@asynchronous
async def test_another_key_opens_nothing_and_says_so(tmp_path: Path) -> None:
    async with visiting(tmp_path) as client:
        answer = await client.post("/admin/sign-in", data={"key": KEY + "x"})

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "Wrong operator key" in answer.text


@asynchronous
@pytest.mark.parametrize("proto", ["http", "https"])
async def test_the_cookie_stays_out_of_scripts_and_of_other_sites(
    proto: str, tmp_path: Path
) -> None:
    async with visiting(tmp_path) as client:
        answer = await client.post(
            "/admin/sign-in", data={"key": KEY}, headers={"x-forwarded-proto": proto}
        )

    cookie = answer.headers.get_list("set-cookie")[0]
    name, path = (SECURE_COOKIE, "/") if proto == "https" else (COOKIE, "/admin")
    assert cookie.startswith(f"{name}=")
    assert {f"Path={path}", "HttpOnly", "SameSite=strict", f"Max-Age={UNLISTED_S}"} <= set(
        cookie.split("; ")
    )
    assert ("Secure" in cookie) == (proto == "https")
    assert KEY not in cookie


@asynchronous
async def test_over_tls_a_cookie_that_another_host_could_have_planted_opens_nothing(
    tmp_path: Path,
) -> None:
    """One of an earlier version has that name, too: its browser signs in again, and it goes."""
    https = {"x-forwarded-proto": "https"}
    async with visiting(tmp_path) as client:
        opened = await client.post("/admin/sign-in", data={"key": KEY}, headers=https)
        own, removed = opened.headers.get_list("set-cookie")
        value = own.partition(";")[0].partition("=")[2]
        found = {
            (name, proto): await client.get(
                "/admin", headers={"cookie": f"{name}={value}", "x-forwarded-proto": proto}
            )
            for name in (COOKIE, SECURE_COOKIE)
            for proto in ("http", "https")
        }
        left = await client.post(
            "/admin/sign-out",
            headers={"cookie": f"{COOKIE}={value}", "sec-fetch-site": "same-origin", **https},
        )
        after = await client.get("/admin", headers={"cookie": f"{SECURE_COOKIE}={value}", **https})

    assert {what: answer.status_code for what, answer in found.items()} == {
        (COOKIE, "http"): 200,
        (COOKIE, "https"): 303,
        (SECURE_COOKIE, "http"): 200,
        (SECURE_COOKIE, "https"): 200,
    }
    assert removed.startswith(f'{COOKIE}=""; ')
    assert "Max-Age=0" in removed
    assert left.status_code == 303
    assert len(left.headers.get_list("set-cookie")) == 2
    assert after.status_code == 303, "signing out ends a session by either name"


@asynchronous
@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://elsewhere.test"},
        {"origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["/admin/sign-in", "/admin/sign-out"])
async def test_a_form_on_another_site_is_refused(
    path: str, headers: dict[str, str], tmp_path: Path
) -> None:
    async with visiting(tmp_path) as client:
        answer = await client.post(path, data={"key": KEY}, headers=headers)

    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


@asynchronous
async def test_a_session_reads_what_the_key_reads(tmp_path: Path) -> None:
    async with visiting(tmp_path) as client:
        nobody = await client.get("/admin/live")
        await client.post("/admin/sign-in", data={"key": KEY})
        live, series = await client.get("/admin/live"), await client.get("/admin/series")

    assert nobody.status_code == 401
    assert live.status_code == series.status_code == 200


@asynchronous
@pytest.mark.parametrize(
    "path", ["/admin", "/admin/sign-in", "/admin/live", "/admin/static/page.js"]
)
async def test_without_a_key_in_the_configuration_there_is_no_page(
    path: str, tmp_path: Path
) -> None:
    async with visiting(tmp_path, "{}") as client:
        answer = await client.get(path)

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "unknown_url"


@asynchronous
async def test_pages_are_not_kept_and_run_no_script_but_our_own(tmp_path: Path) -> None:
    async with visiting(tmp_path) as client:
        await client.post("/admin/sign-in", data={"key": KEY})
        pages = [await client.get(path) for path in ("/admin", "/admin/live", "/admin/sign-in")]

    for answer in pages:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "style=" not in answer.text
        assert "onclick" not in answer.text


@asynchronous
@pytest.mark.parametrize("name", ["page.js", "page.css", "icon.svg"])
async def test_our_files_are_sent_once_and_then_known(name: str, tmp_path: Path) -> None:
    async with visiting(tmp_path) as client:
        first = await client.get(f"/admin/static/{name}")
        again = await client.get(
            f"/admin/static/{name}", headers={"if-none-match": first.headers["etag"]}
        )
        other = await client.get(f"/admin/static/{name}", headers={"if-none-match": '"other"'})

    assert first.status_code == other.status_code == 200
    assert b"://" not in first.content.replace(b"http://www.w3.org/2000/svg", b"")
    assert again.status_code == 304
    assert again.content == b""


@asynchronous
async def test_nothing_but_our_files_is_read_from_the_disk(tmp_path: Path) -> None:
    async with visiting(tmp_path) as client:
        answers = [
            await client.get(f"/admin/static/{name}")
            for name in ("..%2froutes.py", "routes.py", "%2e%2e/files.py")
        ]

    assert [answer.status_code for answer in answers] == [404, 404, 404]
