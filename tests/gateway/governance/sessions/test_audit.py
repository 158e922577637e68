"""The audit log has every sign-in, failure, sign-out and ended session, and no secret of any."""

from pathlib import Path

import msgspec
import pytest

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.governance.sessions.cookie import COOKIE
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from tests.gateway.governance.sign_in.provider_stand_in import SECRET, sign_in_stand_in
from tests.gateway.governance.sign_in.signing_in import ADMIN_KEY, CALLBACK, door

pytestmark = pytest.mark.anyio
OWN_PAGE = {"sec-fetch-site": "same-origin"}


class Recorded:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


async def test_who_came_who_went_and_who_was_turned_away_is_recorded(tmp_path: Path) -> None:
    log = Recorded()
    async with sign_in_stand_in() as provider, door(provider, tmp_path) as at:
        at.gateway.state.side(AuditSide).log = log
        async with at.browser() as ann, at.browser() as boss, at.browser() as stranger:
            provider.claims = {"sub": "ann"}
            await at.sign_in(ann, "staff")
            await at.sign_in(stranger, "marketing")
            await stranger.get(CALLBACK)
            await stranger.post("/admin/sign-in", data={"key": "a wrong key"})
            await boss.post("/admin/sign-in", data={"key": ADMIN_KEY})
            listed = (await boss.get("/admin/sessions")).json()["sessions"]
            (id,) = [one["id"] for one in listed if one["who"] == "ann"]
            await ann.delete("/admin/keys/x", headers=OWN_PAGE)
            await boss.delete(f"/admin/sessions/{id}", headers=OWN_PAGE)
            cookies = (ann.cookies[COOKIE], boss.cookies[COOKIE])
            await boss.post("/admin/sign-out", headers=OWN_PAGE)
    found = [(one.action, one.outcome, one.actor_kind, one.actor, one.target) for one in log.events]
    reasons = [one.reason for one in log.events if one.outcome == "refused"]
    text = msgspec.json.encode(log.events).decode()

    assert found == [
        ("session.sign_in", "done", "session", "ann", ""),
        ("session.sign_in", "refused", "unknown", "", ""),
        ("session.sign_in", "refused", "unknown", "", ""),
        ("session.sign_in", "refused", "unknown", "", ""),
        ("session.sign_in", "done", "admin_key", "", ""),
        ("admin.access", "refused", "session", "ann", "DELETE /admin/keys/x"),
        ("session.end", "done", "admin_key", "", "ann"),
        ("session.sign_out", "done", "admin_key", "", ""),
    ]
    assert "ann has no role here" in reasons[0]
    assert "no sign-in was started in this browser" in reasons[1]
    assert reasons[2] == "wrong operator key"
    assert {one.address for one in log.events} == {"127.0.0.1"}
    assert log.events[0].session == id
    for secret in (*cookies, SECRET, ADMIN_KEY, "a wrong key", "code-0"):
        assert secret not in text
