"""Logged payloads in the store, with the units under which an experiment has counted them."""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.experiments.replay.prompts import ReplayedPrompt, Unusable
from strowger_gateway.gateway.experiments.replay.sources.logged import (
    prompt_of_payload,
    read_record,
)
from strowger_gateway.gateway.storage.sql.database import Database

_PAGE: Final = 100
_ROWS: Final = """SELECT payloads.request_id, payloads.record, COALESCE(requests.unit, '')
    FROM payloads LEFT JOIN requests
        ON requests.request_id = payloads.request_id AND requests.experiment = ?
    WHERE payloads.model = ? AND payloads.time >= ? AND payloads.time < ?
        AND payloads.request_id > ?
    ORDER BY payloads.request_id LIMIT ?"""


class Wanted(Struct, frozen=True, kw_only=True):
    """models: names that requests have used. since, until: Unix seconds of their ends.

    experiment: whose units are known; "" for none. replacements: of redaction.
    """

    models: tuple[str, ...]
    since: float
    until: float
    experiment: str = ""
    replacements: tuple[str, ...] = ()


def stored_prompts(database: Database, wanted: Wanted) -> Iterator[ReplayedPrompt | Unusable]:
    """Yield each payload as a prompt, or why it is none. Raises StoreUnavailable."""
    for model in wanted.models:
        last = ""
        while True:
            with database.reading() as session:
                rows = session.rows(
                    tuple[str, str, str],
                    _ROWS,
                    wanted.experiment,
                    model,
                    wanted.since,
                    wanted.until,
                    last,
                    _PAGE,
                )
            for _, record, unit in rows:
                yield _read(record, unit, wanted)
            if len(rows) < _PAGE:
                break
            last = rows[-1][0]


def _read(record: str, unit: str, wanted: Wanted) -> ReplayedPrompt | Unusable:
    try:
        return prompt_of_payload(read_record(record), unit, wanted.replacements)
    except Unusable as fault:
        return fault
    except (msgspec.DecodeError, RecursionError):
        return Unusable("record", "its record cannot be read")
