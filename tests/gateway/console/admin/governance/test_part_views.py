"""Views of parts: in the page's navigation and document, and their faults stay in them."""

import re
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.assembly.parts import PARTS
from strowger_gateway.gateway.console.admin.page.answers import GUARDED
from strowger_gateway.gateway.console.admin.page.document import Frame, part_page
from strowger_gateway.gateway.governance.sessions.principal import Principal
from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.console.admin.governance.pages import fields_of, text_of
from tests.gateway.console.admin.visits import VisitPart
from tests.gateway.serving import Serving, one_model, serving

pytestmark = pytest.mark.anyio

AUTH = "auth: {mode: keys, admin_key: key-of-the-operator, keys: [{name: ada, key: key-of-ada-1}]}"
OPERATOR = {"authorization": "Bearer key-of-the-operator"}
SLOW_MS = 5000
OWN_PAGE = {"sec-fetch-site": "same-origin"}


@pytest.fixture
async def up(tmp_path: Path) -> AsyncGenerator[Serving]:
    text = one_model("http://127.0.0.1:9/v1", AUTH)
    async with serving(text, tmp_path, parts=(*PARTS, VisitPart())) as one:
        yield one


@pytest.fixture
async def browser(up: Serving) -> AsyncGenerator[httpx.AsyncClient]:
    """Signed in."""
    async with httpx.AsyncClient(base_url=up.url, timeout=60, headers=OWN_PAGE) as client:
        await client.post("/admin/sign-in", data={"key": "key-of-the-operator"})
        yield client


async def test_it_is_in_the_document_of_the_page_with_all_its_rules(
    browser: httpx.AsyncClient,
) -> None:
    answer = await browser.get("/admin/view/visits?name=ada")

    assert answer.status_code == 200
    assert "<title>Visits · Strowger</title>" in answer.text
    assert "<li>ada 3</li>" in answer.text
    assert "<li>ben" not in answer.text
    assert {name: answer.headers[name] for name in GUARDED} == GUARDED
    assert "<script>alert" not in answer.text
    assert "&lt;script&gt;alert(1)" in answer.text


async def test_the_navigation_of_every_view_has_it(browser: httpx.AsyncClient) -> None:
    pages = [(await browser.get(path)).text for path in ("/admin", "/admin/view/limits")]
    own = (await browser.get("/admin/view/visits")).text

    link = '<a href="/admin/view/visits">Visits</a>'
    assert [link in page for page in pages] == [True, True]
    assert '<a href="/admin/view/visits" aria-current="page">Visits</a>' in own
    assert own.count("aria-current") == 1


def test_the_navigation_has_what_a_role_may_see() -> None:
    views = VisitPart().views()

    pages = [
        part_page(
            Frame(
                who=Principal(kind="provider", name="ann", role=role),
                here="/admin",
                footer="",
                views=views,
            ),
            "Visits",
            (),
        )
        for role in ("viewer", "admin")
    ]

    assert [re.findall(r"/admin/view/(visits|plans)", page) for page in pages] == [
        ["visits"],
        ["visits", "plans"],
    ]


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ("name=away", 503, "Visits cannot be read"),
        ("limit=0", 400, "Limit: Expected `int` >= 1"),
        ("nam=ada", 400, "Nam: unknown query parameter; known: name, limit"),
    ],
)
async def test_what_it_refuses_is_shown_in_the_page(
    browser: httpx.AsyncClient, query: str, status: int, sentence: str
) -> None:
    answer = await browser.get(f"/admin/view/visits?{query}")

    assert answer.status_code == status
    assert sentence in text_of(answer.text)
    assert '<a href="/admin/view/limits">Limits</a>' in answer.text
    assert answer.headers.get("retry-after") == ("7" if status == 503 else None)


async def test_a_bug_in_it_is_logged_and_counted_and_the_page_goes_on(
    up: Serving, browser: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await browser.get("/admin/view/visits?name=broken")
    other = await browser.get("/admin/view/visits")
    metrics = (
        await browser.get("/metrics", headers={"authorization": "Bearer key-of-the-operator"})
    ).text

    request_id = answer.headers["x-gateway-request-id"]
    assert answer.status_code == 500
    assert f"has the request id {request_id}" in text_of(answer.text)
    assert "a bug of the part" not in answer.text
    assert other.status_code == 200
    (logged,) = [one for one in caplog.records if request_id in one.getMessage()]
    assert logged.exc_info is not None
    assert str(logged.exc_info[1]) == "a bug of the part"
    assert 'strowger_internal_errors_total{where="/admin/view/visits"} 1.0' in metrics


async def test_a_form_changes_something_and_returns_to_the_view(browser: httpx.AsyncClient) -> None:
    shown = await browser.get("/admin/view/visits")
    fields = fields_of(shown.text, "/admin/view/visits/forget")

    answer = await browser.post("/admin/view/visits/forget", data={**fields, "name": "ada"})

    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/view/visits")
    assert "<li>ada" not in (await browser.get(answer.headers["location"])).text


@pytest.mark.parametrize(
    ("form", "site", "status", "sentence"),
    [
        ({"name": "nobody"}, "same-origin", 503, "Nobody is never forgotten"),
        ({"naem": "ada"}, "same-origin", 400, "Object contains unknown field `naem`"),
        ({"name": "ada"}, "cross-site", 403, "Cross-site requests are not allowed"),
    ],
)
async def test_what_a_form_is_refused_is_shown_in_the_page(
    browser: httpx.AsyncClient, form: dict[str, str], site: str, status: int, sentence: str
) -> None:
    headers = {"sec-fetch-site": site}
    answer = await browser.post("/admin/view/visits/forget", data=form, headers=headers)

    assert answer.status_code == status
    assert sentence in text_of(answer.text)
    assert "<li>ada 3</li>" in (await browser.get("/admin/view/visits")).text


@pytest.mark.skipif(
    chromium() is None, reason="no Chromium: apt-get install chromium-headless-shell"
)
async def test_a_real_browser_uses_its_form_and_runs_no_script_in_it(up: Serving) -> None:
    async with browsing() as found:
        page = await found.new_page()
        page.set_default_timeout(SLOW_MS)
        await page.goto(f"{up.url}/admin/sign-in")
        await page.fill("input[name=key]", "key-of-the-operator")
        await page.click("button.primary")
        await page.click("nav >> text=Visits")
        before = await page.inner_text("main")
        await page.fill("main input[name=name]", "ada")
        await page.click("main >> text=Forget")
        after = await page.inner_text("main")
        await page.click("nav >> text=Plans")
        text, title = await page.inner_text("main"), await page.title()

    assert ("ada 3" in before, "ben 1" in before) == (True, True)
    assert ("ada 3" in after, "ben 1" in after) == (False, True)
    assert "for admins" in text
    assert title == "Plans · Strowger"


async def test_without_a_session_a_browser_signs_in_first(up: Serving) -> None:
    async with httpx.AsyncClient(base_url=up.url, timeout=60, headers=OWN_PAGE) as client:
        answer = await client.get("/admin/view/visits?name=ada")

    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/admin/sign-in?return_to=")
