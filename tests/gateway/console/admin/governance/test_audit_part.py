"""`/admin/view/audit`: the audit log in a browser."""

import re
from pathlib import Path

import pytest

from strowger_gateway.gateway.audit.event import Actor, AuditEvent, Change
from tests.gateway.console.admin.governance.governed import governed
from tests.gateway.console.admin.governance.pages import text_of

pytestmark = pytest.mark.anyio
EVIL = "<script>alert('1')</script>\" onload=\"x"


def event(action: str, name: str, target: str = "", **more: object) -> AuditEvent:
    by = Actor(kind="session", name=name, address="10.0.0.7", label=name)
    return AuditEvent.by(by, action, target=target, **more)  # pyright: ignore[reportArgumentType]


async def test_entries_are_shown_newest_first_with_what_they_changed(tmp_path: Path) -> None:
    changes = (Change(field="models", old='["*"]', new='["chat"]'), Change(field="team", new="a"))
    async with governed(tmp_path) as up:
        empty = text_of((await up.client.get("/admin/view/audit")).text)
        up.store.audit.append([
            event("key.create", "ann", "ci"),
            event("key.change", "bob", "ci", changes=changes, reason="on request"),
        ])  # fmt: skip
        answer = await up.client.get("/admin/view/audit")
        text = text_of(answer.text)

    assert "No entry matches." in empty
    assert text.index("bob 10.0.0.7 ci") < text.index("ann 10.0.0.7 ci")
    assert 'models: ["*"] → ["chat"]' in text
    assert "team: (none) → a" in text
    assert "on request" in text


async def test_filters_by_action_person_and_date_and_older_pages(tmp_path: Path) -> None:
    async with governed(tmp_path) as up:
        up.store.audit.append([
            *(event("key.create", "ann", f"k{number:03}") for number in range(120)),
            event("experiment.pause", "bob", "trial"),
        ])  # fmt: skip

        async def shown(query: str) -> list[str]:
            page = (await up.client.get(f"/admin/view/audit{query}")).text
            older = re.findall(r'href="(/admin/view/audit\?[^"]*)">Older', page)
            return [*re.findall(r'data-label="What"><span>(\w+)', page), *older]

        group, person = await shown("?action=experiment"), await shown("?actor=bob")
        first = await shown("?action=key.create&actor=ann")
        second = await shown(first[-1].replace("&amp;", "&").removeprefix("/admin/view/audit"))
        future = await shown("?since=2096-01-01")
        wrong = await up.client.get("/admin/view/audit?since=yesterday")

    assert group == person == ["trial"]
    assert (first[0], len(first)) == ("k119", 101)
    assert "action=key.create" in first[-1]
    assert (second[0], second[-1], len(second)) == ("k019", "k000", 20)
    assert future == []
    assert (wrong.status_code, "Since: expected a time" in wrong.text) == (400, True)


async def test_names_in_the_log_are_text(tmp_path: Path) -> None:
    async with governed(tmp_path) as up:
        up.store.audit.append([
            event("key.change", EVIL, EVIL, reason=EVIL, facts={EVIL: EVIL},
                  changes=(Change(field=EVIL, old=EVIL, new=EVIL),)),
        ])  # fmt: skip
        page = (await up.client.get("/admin/view/audit", params={"actor": EVIL})).text
        page += (await up.client.get("/admin/view/audit")).text

    assert "<script>alert" not in page
    assert 'onload="' not in page
    assert page.count("&lt;script&gt;") >= 7
