"""Values are stored exactly, to the last bit and letter, on both databases."""

import pytest
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.audit_rows import AuditQuery
from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.open import driver_of
from strowger_gateway.gateway.storage.sql.payload_rows import PayloadQuery
from strowger_gateway.gateway.storage.sql.schema import migration
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.schemas.secret import Secret
from tests.gateway.storage.sql.rows import attempt_row, request_row
from tests.gateway.storage.sql.used import used

TEXTS = ("", "plain", 'a "quoted" \\ back\nslash\t', "%s ? $1 {x}", "žluťoučký 🐎 \u2028", "\x01")
NUMBERS = (0.1 + 0.2, 1e-300, 1.7976931348623157e308, 5e-324, -0.0, 123456789.987654321)


@pytest.mark.parametrize("text", TEXTS)
def test_texts(text: str, store: SqlStore) -> None:
    row = replace(request_row("a"), model=text, backend=text, error=text)

    store.import_rows("f", 0, 1, [row])

    found = store.recorded_request("a")
    assert found is not None
    assert (found.model, found.backend, found.error) == (text, text, text)


def test_a_search_for_nul_finds_nothing(store: SqlStore) -> None:
    assert store.known_request("\0") is None
    assert store.recorded_request("\0") is None
    assert store.issued_keys.find("\0") is None
    assert store.payloads.find("\0") is None
    assert store.payloads.page(PayloadQuery(key="\0", model="\0")) == []
    assert store.audit.page(AuditQuery(actor="\0", action="\0")) == []


def test_numbers(url: Secret, store: SqlStore) -> None:
    rows = [replace(attempt_row(str(value)), ms=value, cost_usd=value) for value in NUMBERS]

    store.import_rows("f", 0, 1, [*rows, attempt_row("nothing", cost=None)])

    driver = driver_of(url)
    database = Database(driver, migration(driver))
    with database.reading() as session:
        kind = tuple[str, float, float | None]
        found = session.rows(kind, "SELECT request_id, ms, cost_usd FROM attempts")
    database.close()
    assert {(name, ms, cost) for name, ms, cost in found if name != "nothing"} == {
        (str(value), value, value) for value in NUMBERS
    }
    assert [cost for name, _, cost in found if name == "nothing"] == [None]


@pytest.mark.parametrize("tokens", [2**63, 2**64, 10**30])
def test_a_number_that_is_too_large_costs_no_other_row(tokens: int, store: SqlStore) -> None:
    good = [request_row("a"), attempt_row("a"), request_row("b"), attempt_row("b")]
    bad = [replace(attempt_row("a", number=2), prompt_tokens=tokens)]

    taken = store.import_rows("f", 0, 1, [*good[:2], *bad, *good[2:]])

    assert (taken.rows, taken.rejected) == (5, 1)
    assert [(row.requests, row.attempts) for row in used(store)] == [(2, 2)]
