"""Query what a report is computed from besides `unit_pages`, in pages from one snapshot."""

from collections.abc import Generator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Session
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN
from strowger_gateway.gateway.storage.sql.experiments.pause_epochs import PAUSED
from strowger_gateway.gateway.storage.sql.experiments.unit_pages import PAGE

_EPOCHS: Final = """SELECT number, began, fingerprint, shares FROM experiment_epochs
    WHERE experiment = ? ORDER BY number"""
_PAUSE: Final = "SELECT at FROM experiment_pauses WHERE experiment = ?"
_REQUESTS: Final = """SELECT epoch, variant, requests, errors, fallbacks, last
    FROM experiment_requests WHERE experiment = ?"""
_KEYS: Final = f"""SELECT key, unit, variant, requests, CASE WHEN {IN.format("k")} THEN 0 ELSE 1 END
    FROM experiment_unit_keys k WHERE experiment = ? AND (key, unit, variant) > (?, ?, ?)
    ORDER BY key, unit, variant LIMIT ?"""
_VOTES: Final = f"""SELECT metric, unit, request_id, key, epoch, variant, value, first_time,
    changed_time, CASE WHEN {IN.format("f")} THEN 0 ELSE 1 END FROM feedback f
    WHERE experiment = ? AND joined = 1 AND unit <> '' AND value IS NOT NULL
    AND (metric, unit, request_id, key) > (?, ?, ?, ?)
    ORDER BY metric, unit, request_id, key LIMIT ?"""
_shares: msgspec.json.Decoder[dict[str, float]] = msgspec.json.Decoder(dict[str, float])


class EpochVariant(Struct, frozen=True, kw_only=True):
    """A variant in one epoch; "" has the requests that were not enrolled.

    began: Unix seconds. paused: 1 if the epoch is a pause, else 0. last: its last request.
    requests, errors, fallbacks: of all units, also of excluded ones.
    """

    epoch: int
    began: float
    paused: int
    variant: str
    weight: float
    requests: int
    errors: int
    fallbacks: int
    last: float


class KeyUnit(Struct, frozen=True, kw_only=True):
    """What an API key sent for a unit of a variant. key: "" for none. excluded: 0 or 1."""

    key: str
    unit: str
    variant: str
    requests: int
    excluded: int


class ExportedVote(Struct, frozen=True, kw_only=True):
    """A vote. value: that counts, after a cap. first: when it came; changed: last, 0.0 for never.

    Times are Unix seconds.
    """

    metric: str
    unit: str
    request_id: str
    key: str
    epoch: int
    variant: str
    value: float
    first: float
    changed: float
    excluded: int


def epoch_rows(session: Session, experiment: str) -> Sequence[EpochVariant]:
    """Return a row for each epoch and variant with a weight or a request, sorted by both.

    A pause whose epoch no process has begun yet has one already, with the next number.
    """
    sent = {
        (epoch, variant): counts
        for epoch, variant, *counts in session.rows(
            tuple[int, str, int, int, int, float], _REQUESTS, experiment
        )
    }
    found: list[EpochVariant] = []
    epochs = session.rows(tuple[int, float, str, str], _EPOCHS, experiment)
    if epochs and not epochs[-1][2].endswith(PAUSED):
        for (at,) in session.rows(tuple[float], _PAUSE, experiment):
            epochs.append((epochs[-1][0] + 1, at, PAUSED, epochs[-1][3]))
    for number, began, fingerprint, shares in epochs:
        weights = _shares.decode(shares)
        for variant in sorted({*weights, *(name for epoch, name in sent if epoch == number)}):
            requests, errors, fallbacks, last = sent.get((number, variant), (0, 0, 0, 0.0))
            found.append(
                EpochVariant(
                    epoch=number,
                    began=began,
                    paused=int(fingerprint.endswith(PAUSED)),
                    variant=variant,
                    weight=weights.get(variant, 0.0),
                    requests=int(requests),
                    errors=int(errors),
                    fallbacks=int(fallbacks),
                    last=last,
                )
            )
    return found


def key_pages(session: Session, experiment: str) -> Generator[Sequence[KeyUnit]]:
    """Yield the rows by key, unit and variant, `PAGE` at a time."""
    last = ("", "", "")
    while True:
        kind = tuple[str, str, str, int, int]
        rows = session.rows(kind, _KEYS, experiment, *last, PAGE)
        if rows:
            yield [
                KeyUnit(key=row[0], unit=row[1], variant=row[2], requests=row[3], excluded=row[4])
                for row in rows
            ]
            last = rows[-1][:3]
        if len(rows) < PAGE:
            return


def vote_pages(session: Session, experiment: str) -> Generator[Sequence[ExportedVote]]:
    """Yield the votes by metric, unit, request and key, `PAGE` at a time."""
    last = ("", "", "", "")
    while True:
        kind = tuple[str, str, str, str, int, str, float, float, float | None, int]
        rows = session.rows(kind, _VOTES, experiment, *last, PAGE)
        if rows:
            yield [
                ExportedVote(
                    metric=row[0],
                    unit=row[1],
                    request_id=row[2],
                    key=row[3],
                    epoch=row[4],
                    variant=row[5],
                    value=row[6],
                    first=row[7],
                    changed=row[8] or 0.0,
                    excluded=row[9],
                )
                for row in rows
            ]
            last = rows[-1][:4]
        if len(rows) < PAGE:
            return
