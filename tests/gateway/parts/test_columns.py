"""What a part records of a request, wherever requests are shown."""

import io
import json
from collections.abc import Mapping
from enum import StrEnum
from math import inf, nan
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.observability.recording.frames import unpacked
from strowger_gateway.gateway.observability.recording.rows_from_request import (
    access_line,
    request_batch,
)
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLog, as_json
from strowger_gateway.gateway.parts.columns import LONGEST, Column
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.routing.planning.prices import Prices
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.gateway.storage.sql.rows import Attribute, RequestRow
from strowger_gateway.gateway.storage.store_access import StoreAccess
from strowger_gateway.schemas.secret import Secret
from tests.gateway.observability.recording.written import packed
from tests.gateway.serving import one_model, serving

TIER = Column(name="answer_tier", kind=str, about="The tier that answered.")
TURNS = Column(name="tool_turns", kind=int, about="Turns with tools so far.")
SAVED = Column(name="saved_usd", kind=float, about="What the cheaper model has saved.")
LOOPED = Column(name="looped", kind=bool, about="Whether the client repeats itself.")
SET: Mapping[str, Attribute] = {
    "answer_tier": "cheap",
    "tool_turns": 3,
    "saved_usd": 0.25,
    "looped": True,
}
OPERATOR = {"authorization": "Bearer key-of-the-operator"}


def ended(*, request_id: str = "r") -> RequestRecord:
    """A request that a backend has answered."""
    attempt = AttemptRecord(backend="a/m", outcome="ok", ms=3.0)
    return RequestRecord(
        request_id=request_id,
        started=now(),
        surface="openai",
        task="chat",
        model="chat",
        route="chat",
        backend="a/m",
        attempts=[attempt],
    )


def with_attributes(record: RequestRecord) -> RequestRecord:
    TIER.set(record, "cheap")
    TURNS.set(record, 3)
    SAVED.set(record, 0.25)
    LOOPED.set(record, True)
    return record


def test_a_request_without_values_has_none_anywhere() -> None:
    record = ended()

    line = access_line(record, 200, now(), 0.0, Prices(()))

    assert record.attributes is None
    assert b"attributes" not in as_json([line])


def test_values_are_in_the_row_of_the_spool() -> None:
    record = with_attributes(ended())
    line = access_line(record, 200, now(), 0.0, Prices(()))

    read = unpacked(packed([request_batch([record], as_json([line]), ())]), limit=9)

    request, _ = read.rows
    assert isinstance(request, RequestRow)
    assert request.attributes == SET


def test_the_last_value_of_a_column_counts() -> None:
    record = ended()

    TURNS.set(record, 1)
    TURNS.set(record, 2)

    assert record.attributes == {"tool_turns": 2}


class Tier(StrEnum):
    CHEAP = "cheap"


@pytest.mark.parametrize(
    ("column", "value", "recorded"),
    [
        (SAVED, nan, None),
        (SAVED, inf, None),
        (SAVED, 2, {"saved_usd": 2.0}),
        (TURNS, 1 << 80, None),
        (TURNS, -(1 << 63), {"tool_turns": -(1 << 63)}),
        (TIER, Tier.CHEAP, {"answer_tier": "cheap"}),
        (TIER, "x" * 9999, {"answer_tier": "x" * LONGEST}),
        (TIER, "half a \ud83d smile", {"answer_tier": "half a ? smile"}),
    ],
)
def test_no_value_breaks_a_line(
    column: Column[str] | Column[int] | Column[float],
    value: str | float,
    recorded: Mapping[str, Attribute] | None,
) -> None:
    record = ended()

    column.set(record, value)  # pyright: ignore[reportArgumentType]  pairs of the list above

    line = json.loads(as_json([access_line(record, 200, now(), 0.0, Prices(()))]))
    assert line.get("attributes") == recorded


def test_a_terminal_shows_them_after_the_answer_and_escapes_what_they_quote() -> None:
    record = with_attributes(ended())
    TIER.set(record, "red\x1b[31m")
    out = io.BytesIO()
    log = AccessLog(out, "console")

    log.add([access_line(record, 200, now(), 0.0, Prices(()))])
    log.close()

    text = out.getvalue().decode()
    assert " answer_tier=red\\x1b[31m tool_turns=3 saved_usd=0.25 looped=True r\n" in text


@pytest.mark.anyio
async def test_operators_see_them_in_the_log_the_api_and_the_page(tmp_path: Path) -> None:
    store = open_store(Secret(f"sqlite:///{tmp_path / 'store.db'}"))
    old = with_attributes(ended(request_id="old"))
    line = access_line(old, 200, now(), 0.0, Prices(()))
    batch = packed([request_batch([old], as_json([line]), ())])
    store.import_rows("file", 0, len(batch), unpacked(batch, limit=9).rows)

    def equip(state: Gateway) -> None:
        state.store = StoreAccess(store)

    text = one_model("http://127.0.0.1:9/v1", "auth: {admin_key: key-of-the-operator}")
    async with (
        serving(text, tmp_path, equip=equip) as up,
        httpx.AsyncClient(base_url=up.url, headers=OPERATOR, timeout=60) as client,
    ):
        record = with_attributes(ended(request_id="new"))
        TIER.set(record, "<script>")
        up.state.log.record_request(record, 200, now(), Prices(()))
        new = (await client.get("/admin/requests/new")).json()
        stored = (await client.get("/admin/requests/old")).json()
        listed = (await client.get("/admin/requests?before=9999999999")).json()
        page = (await client.get("/admin/live")).text
        (logged,) = [one for one in up.access_lines() if one.request_id == "new"]

    assert (new["source"], new["attributes"]) == ("memory", {**SET, "answer_tier": "<script>"})
    assert (stored["source"], stored["attributes"]) == ("store", SET)
    assert [one["source"] for one in listed["requests"]] == ["memory", "store"]
    assert listed["requests"][1]["attributes"] == SET
    assert logged.attributes == new["attributes"]
    assert "<dt>Saved usd</dt><dd>0.25</dd>" in page
    assert "<dt>Answer tier</dt><dd>&lt;script&gt;</dd>" in page
    store.close()
