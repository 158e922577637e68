"""`/admin/view/keys`: keys in a browser, with forms that work without a script."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from markupsafe import Markup

from strowger_gateway.gateway.console.admin.governance.key_details import KeyPart, key_section
from strowger_gateway.gateway.console.admin.governance.key_list import (
    MOST_SHOWN,
    KeyPage,
    key_list_section,
)
from strowger_gateway.gateway.governance.issued_keys.view import KeyView
from strowger_gateway.gateway.governance.sessions.principal import KEY_HOLDER, Principal
from tests.gateway.console.admin.governance.governed import ANN, CONFIG, KEY, Governed, governed
from tests.gateway.console.admin.governance.pages import NOW, fields_of, secret_in, text_of

pytestmark = pytest.mark.anyio
HERE = {"sec-fetch-site": "same-origin"}
VIEWER = Principal(kind="provider", name="vera", role="viewer", subject="1")
OPERATOR = Principal(kind="provider", name="otto", role="operator", subject="2", teams=("search",))
EVIL = "<script>alert('1')</script>\" onload=\"x"


@asynccontextmanager
async def signed_in(up: Governed) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser with the session of the operator's key, which sends what browsers send."""
    async with httpx.AsyncClient(base_url=up.up.url, headers=HERE, timeout=60) as browser:
        answer = await browser.post("/admin/sign-in", data={"key": KEY})
        assert answer.status_code == 303
        yield browser


async def opens(up: Governed, secret: str) -> int:
    headers = {"authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(base_url=up.up.url, headers=headers, timeout=60) as client:
        return (await client.get("/v1/models")).status_code


async def test_a_key_is_issued_with_a_form_and_its_secret_is_shown_once(tmp_path: Path) -> None:
    async with governed(tmp_path) as up, signed_in(up) as browser:
        form = (await browser.get("/admin/view/keys")).text
        sent = {
            **fields_of(form, "/admin/view/keys"),
            "name": "ci",
            "team": "search",
            "models": "chat, sm*",
            "tags": "prod, cc-1",
            "allowed_networks": "127.0.0.0/8",
            "expires": "2096-01-31",
        }
        made = await browser.post("/admin/view/keys", data=sent)
        secret = secret_in(made.text)
        later = (await browser.get("/admin/view/keys/ci")).text
        listed = (await browser.get("/admin/view/keys")).text
        shown = (await up.client.get("/admin/keys/ci")).json()["key"]
        opened = await opens(up, secret)

    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    assert opened == 200
    assert secret not in later
    assert secret not in listed
    assert (shown["team"], shown["models"], shown["tags"]) == (
        "search",
        ["chat", "sm*"],
        ["prod", "cc-1"],
    )
    assert shown["expires"] == "2096-01-31T00:00:00Z"
    assert shown["allowed_networks"] == ["127.0.0.0/8"]
    assert shown["created_by"].startswith("admin key")
    assert "ci active search" in text_of(listed)


async def test_a_wrong_form_shows_why_and_keeps_what_was_entered(tmp_path: Path) -> None:
    async with governed(tmp_path) as up, signed_in(up) as browser:
        for sent, status, why in (
            ({"name": "<b>x"}, 400, "Name: expected 1 to 128 letters"),
            ({"name": "ok", "models.0": "chatt"}, 400, 'did you mean "chat"'),
            ({"name": "ok", "allowed_networks": "here"}, 400, "write a network as"),
            ({"name": "ok", "expires": "soon"}, 400, "expected a day"),
            ({"name": "ok", "expires": "2001-01-01"}, 400, "in the past"),
            ({"name": "ok", "max_priority": "9"}, 400, "Expected `int` <= 5"),
            ({"name": "ok", "max_priority": "many"}, 400, "whole number"),
            ({"name": "ok", "team": "nobody"}, 400, "no team is named"),
            ({"name": "of-the-file"}, 409, "is in the configuration file"),
        ):
            answer = await browser.post("/admin/view/keys", data=sent)

            assert (answer.status_code, why in unescape(answer.text)) == (status, True), sent
            assert 'role="alert"' in answer.text
            kept = fields_of(answer.text, "/admin/view/keys")
            assert {name: kept[name] for name in sent if name not in ("max_priority", "team")} == {
                name: value for name, value in sent.items() if name not in ("max_priority", "team")
            }
        none = (await up.client.get("/admin/keys")).json()["keys"]

    assert [key["name"] for key in none] == ["of-the-file"]


async def test_a_rotated_key_has_two_secrets_until_the_old_one_ends(tmp_path: Path) -> None:
    async with governed(tmp_path) as up, signed_in(up) as browser:
        old = up.issue("ci")
        page = await browser.post(
            "/admin/view/keys/ci/rotate", data={"confirm": "yes", "overlap_s": "3600"}
        )
        new = secret_in(page.text)
        both = [await opens(up, old), await opens(up, new)]
        page = await browser.post(
            "/admin/view/keys/ci/rotate", data={"confirm": "yes", "overlap_s": "0"}
        )
        last = [await opens(up, secret) for secret in (old, new, secret_in(page.text))]

    assert both == [200, 200]
    assert last == [401, 401, 200]


async def test_a_key_is_disabled_enabled_and_revoked(tmp_path: Path) -> None:
    async with governed(tmp_path) as up, signed_in(up) as browser:
        secret, seen = up.issue("ci/+@x".replace("/", ":")), list[tuple[int, str]]()
        path = f"/admin/view/keys/{quote('ci:+@x', safe='')}"
        for act in ("disable", "enable", "revoke"):
            answer = await browser.post(f"{path}/{act}", data={"confirm": "yes"})
            assert answer.status_code == 303
            page = text_of((await browser.get(answer.headers["location"])).text)
            seen.append((await opens(up, secret), page))
        again = await browser.post(f"{path}/rotate", data={"confirm": "yes"})

    assert [status for status, _ in seen] == [401, 200, 401]
    for (_, page), sentence in zip(
        seen,
        ("The key is disabled.", "The key is enabled.", "The key is revoked."),
        strict=True,
    ):
        assert sentence in page
    assert "was revoked, which is final" in seen[2][1]
    assert again.status_code == 409
    assert "was revoked" in text_of(again.text)


@pytest.mark.parametrize("act", ["rotate", "disable", "revoke"])
async def test_nothing_changes_without_a_confirmation(act: str, tmp_path: Path) -> None:
    async with governed(tmp_path) as up, signed_in(up) as browser:
        secret = up.issue("ci")
        answer = await browser.post(f"/admin/view/keys/ci/{act}")
        opened = await opens(up, secret)

    assert answer.status_code == 400
    assert "Confirm the change" in text_of(answer.text)
    assert opened == 200


async def test_another_site_cannot_send_the_forms(tmp_path: Path) -> None:
    async with governed(tmp_path) as up, signed_in(up) as browser:
        secret, answers = up.issue("ci"), list[httpx.Response]()
        for headers in ({"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
            for path in ("/admin/view/keys", "/admin/view/keys/ci/revoke"):
                data = {"name": "theirs", "confirm": "yes"}
                answers.append(await browser.post(path, data=data, headers=headers))
        opened = await opens(up, secret)
        names = [key["name"] for key in (await up.client.get("/admin/keys")).json()["keys"]]

    assert {answer.status_code for answer in answers} == {403}
    assert "Cross-site requests are not allowed" in answers[0].text
    assert (opened, names) == (200, ["of-the-file", "ci"])


async def test_without_a_session_the_way_leads_to_sign_in_and_back(tmp_path: Path) -> None:
    async with (
        governed(tmp_path) as up,
        httpx.AsyncClient(base_url=up.up.url, timeout=60) as browser,
    ):
        read = await browser.get("/admin/view/keys?q=a")
        sent = await browser.post("/admin/view/keys", data={"name": "x"}, headers=HERE)
        wrong = await browser.get(
            "/admin/view/keys", headers={"authorization": "Bearer wrong-key-of-somebody"}
        )

    assert read.status_code == 303
    assert read.headers["location"] == ("/admin/sign-in?return_to=%2Fadmin%2Fview%2Fkeys%3Fq%3Da")
    assert (sent.status_code, sent.headers["location"]) == (303, "/admin/sign-in")
    assert wrong.status_code == 303


async def test_an_unknown_key_and_an_unknown_change_are_errors_in_the_page(tmp_path: Path) -> None:
    async with governed(tmp_path) as up, signed_in(up) as browser:
        up.issue("ci")
        unknown = await browser.get("/admin/view/keys/c1")
        change = await browser.post("/admin/view/keys/ci/delete", data={"confirm": "yes"})
        large = await browser.post("/admin/view/keys", data={"name": "x" * 70_000})

    assert (unknown.status_code, change.status_code, large.status_code) == (404, 404, 413)
    assert "No issued key is named 'c1'" in unescape(unknown.text)
    assert unknown.headers["content-type"].startswith("text/html")


async def test_keys_are_found_by_name_team_user_and_tag(tmp_path: Path) -> None:
    async with governed(tmp_path) as up, signed_in(up) as browser:
        up.issue("crawler", team="search", tags=("prod",))
        up.issue("notebook", user="Ann@x")
        up.issue("gone")
        up.keys().revoke("gone", ANN)
        found = {
            q: re.findall(r'scope="row"><a href="/admin/view/keys/([^"]+)', page)
            for q in ("", "SEARCH", "ann", "prod", "nothing")
            for page in [(await browser.get("/admin/view/keys", params={"q": q})).text]
        }
        everything = (await browser.get("/admin/view/keys?all=on")).text

    assert found == {
        "": ["of-the-file", "crawler", "notebook"],
        "SEARCH": ["of-the-file", "crawler"],
        "ann": ["notebook"],
        "prod": ["of-the-file", "crawler"],
        "nothing": [],
    }
    assert "gone revoked" in text_of(everything)


async def test_without_the_store_the_keys_of_the_file_are_shown_with_the_reason(
    tmp_path: Path,
) -> None:
    async with governed(tmp_path) as up, signed_in(up) as browser:
        up.store.close()
        (tmp_path / "strowger.db").unlink()
        (tmp_path / "strowger.db").mkdir()
        page = await browser.get("/admin/view/keys")

    assert page.status_code == 200
    assert "Only keys of the configuration file are shown" in page.text
    assert "of-the-file" in page.text
    assert "Issue a key" not in page.text


def key(name: str = "ci", **fields: object) -> KeyView:
    usual: dict[str, object] = {"source": "issued", "state": "active", "models": ("*",)}
    return KeyView(name=name, max_priority=1, **{**usual, **fields})  # pyright: ignore[reportArgumentType]


def shown_key(who: Principal, one: KeyView) -> Markup:
    return key_section(KeyPart(key=one, details=None, who=who, now=NOW))


def shown_list(who: Principal, *keys: KeyView, **more: object) -> Markup:
    teams = ["search", "support"]
    return key_list_section(KeyPage(keys=keys, who=who, teams=teams, now=NOW, **more))  # pyright: ignore[reportArgumentType]


def test_controls_that_a_role_may_not_use_are_not_there() -> None:
    own, foreign, bare = key(team="search"), key(team="support"), key()

    assert "<form" not in shown_key(VIEWER, own)
    assert "Your role may not change this key." in shown_key(VIEWER, own)
    assert shown_key(OPERATOR, own).count("<form") == 4
    assert "<form" not in shown_key(OPERATOR, foreign)
    assert "<form" not in shown_key(OPERATOR, bare)
    assert shown_key(KEY_HOLDER, bare).count("<form") == 4
    assert "<form" not in shown_key(KEY_HOLDER, key(source="file"))
    assert "Issue a key" not in shown_list(VIEWER, own)
    offered = re.findall(r'<option value="(\w*)"[^>]*>', shown_list(OPERATOR, own))
    assert offered[:1] == ["search"]
    assert "support" not in offered
    assert '<option value="">(none)' in shown_list(KEY_HOLDER, own).replace(" selected", "")


def test_names_of_keys_teams_and_people_are_text() -> None:
    evil = key(EVIL, team=EVIL, user=EVIL, tags=(EVIL,), models=(EVIL,), created_by=EVIL)
    someone = Principal(kind="provider", name=EVIL, role="admin", subject=EVIL)

    pages = shown_list(someone, evil, q=EVIL, refused=EVIL, fields={"name": EVIL, "user": EVIL})
    pages = shown_list(someone, evil) + pages + shown_key(someone, evil)

    assert "<script" not in pages
    assert 'onload="' not in pages
    assert pages.count("&lt;script&gt;") >= 12


def test_a_long_list_says_that_it_is_not_all() -> None:
    page = shown_list(VIEWER, *(key(f"k{number}") for number in range(MOST_SHOWN + 1)))

    assert page.count("<tr>") == MOST_SHOWN + 1
    assert "500 of 501 keys are shown" in page


async def test_a_key_of_the_file_has_a_view_whatever_its_name(tmp_path: Path) -> None:
    name = "prod/eu?a=1#b <i>"
    config = CONFIG.replace("name: of-the-file", f"name: '{name}'")
    async with governed(tmp_path, config) as up:
        listed = await up.client.get("/admin/view/keys")
        (link,) = re.findall(r'href="(/admin/view/keys/[^"]+)"', listed.text)
        page = await up.client.get(unescape(link))

    assert page.status_code == 200
    assert name in text_of(page.text)
