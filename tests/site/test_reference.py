"""The reference pages say what the code does, and tests produce what they list."""

import re
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.parts.columns import Column
from strowger_gateway.gateway.parts.part import Part
from tests.gateway.serving import serving
from tools.reference.error_codes import raised
from tools.reference.errors import meanings
from tools.reference.http_api import MINIMAL, attributes_of, page_of
from tools.reference.pages import PAGES
from tools.reference.python_api import MODULES

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
NO_WIRE = ("tests/gateway/config", "tests/adapters", "tests/local_engine", "tests/site")
"""Folders whose tests name codes, but get no answers of a gateway."""


@pytest.mark.parametrize("place", PAGES)
def test_a_reference_page_is_as_the_code_has_it(place: str) -> None:
    assert (ROOT / place).read_text("utf-8") == PAGES[place](), "run `make reference`"


def test_every_code_that_clients_can_get_is_in_the_answers_of_some_test() -> None:
    tests = [
        path.read_text("utf-8")
        for path in (ROOT / "tests").rglob("*.py")
        if not path.relative_to(ROOT).as_posix().startswith(NO_WIRE)
    ]
    sent = [
        code
        for section in meanings().values()
        for code, meaning in section.items()
        if not meaning.where
    ]

    assert len(raised()) > 60
    assert [code for code in sent if not any(f'"{code}"' in text for text in tests)] == []


def test_the_public_modules_of_the_guides_are_in_the_python_reference() -> None:
    listed = {name for names in MODULES.values() for name in names}
    pages = [ROOT / "docs" / name for name in ("add-a-provider.md", "write-a-hook.md")]
    tables = [
        page.read_text("utf-8").partition("## Public API")[2].partition("\n## ")[0]
        for page in pages
    ]
    promised = {
        name
        for table in tables
        for name in re.findall(r"`(strowger_gateway\.(?:adapters|gateway)\.[a-z_.]+)`", table)
    }

    assert len(promised) >= 9
    assert promised <= listed


async def test_the_http_reference_is_of_what_a_gateway_serves(tmp_path: Path) -> None:
    async with (
        serving(MINIMAL, tmp_path) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as client,
    ):
        served = (await client.get("/openapi.json")).json()

    assert page_of(served) == (ROOT / "docs/reference/http-api.md").read_text("utf-8")


class Saving(Part):
    """A part that records something."""

    name = "saving"
    columns = (Column(name="saved_usd", kind=float, about="What the cheaper model has saved."),)


def test_what_parts_record_is_in_the_http_reference() -> None:
    described = attributes_of((Saving(),))

    assert "\n## Attributes of requests\n" in described
    assert described.endswith("\n| `saved_usd` | number | What the cheaper model has saved. |\n")
    assert attributes_of(()) == ""
