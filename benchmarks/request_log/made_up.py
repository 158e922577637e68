"""A store full of requests, with frequent and rare values, of now and of the past."""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec

from strowger_gateway.gateway.storage.sql.database import Insert, Session, Value
from strowger_gateway.gateway.storage.sql.rows import (
    ATTEMPT_COLUMNS,
    REQUEST_COLUMNS,
    AttemptRow,
    RequestRow,
)
from strowger_gateway.gateway.storage.sql.sql import SqlStore

DAY_S: Final = 86_400.0
DAYS: Final = 14
NEWEST: Final = 1_800_000_000.0
"""The end of the newest request, Unix seconds."""

_FAILURES: Final = (
    (429, "limit_exceeded"),
    (429, "upstream_busy"),
    (502, "upstream_failed"),
    (503, "no_backend"),
    (400, "invalid_request"),
    (499, ""),
    (200, "upstream_broken"),
)
_TAGS: Final = Insert(table="tagged_requests", columns=("tag", "time", "request_id"))
_PROGRAMS: Final = ("openai-python", "claude-code", "curl", "langchain", "cursor", "n8n")
_SURFACES: Final = ("openai", "anthropic", "responses", "gemini")


def _zipf(rng: random.Random, many: int) -> int:
    """Return a number below `many`; the first ones are the most frequent."""
    return min(int(rng.paretovariate(0.9)) - 1, many - 1)


def rows(count: int, seed: int = 1) -> Iterator[tuple[RequestRow, Sequence[AttemptRow]]]:
    """Yield requests in the order of their end, each with its attempts.

    One in 50,000 has the rare value of a field. `team-old` and its key stopped after two days.
    """
    rng = random.Random(seed)
    step = DAYS * DAY_S / count
    for place in range(count):
        time = NEWEST - (count - 1 - place) * step + rng.random() * step / 2
        rare = place % 50_000 == 49_000
        old = time < NEWEST - (DAYS - 2) * DAY_S and rng.random() < 0.05
        team = "team-rare" if rare else "team-old" if old else f"team-{_zipf(rng, 40)}"
        key = f"{team}-key-{_zipf(rng, 20)}"
        model = "model-rare" if rare else f"model-{_zipf(rng, 15)}"
        backend = "vendor/rare" if rare else f"vendor-{_zipf(rng, 4)}/{model}"
        status, error = 200, ""
        if rare:
            status, error = 418, "teapot"
        elif rng.random() < 0.04:
            status, error = rng.choice(_FAILURES)
        request_id = (
            f"{int(time * 1000):012x}-7{rng.getrandbits(12):03x}-{rng.getrandbits(64):016x}"
        )
        retried = rng.random() < 0.03
        cost = rng.random() / 100
        trial = rng.random() < 0.2
        yield (
            RequestRow(
                time=time,
                request_id=request_id,
                surface="kserve" if rare else _SURFACES[_zipf(rng, len(_SURFACES))],
                status=status,
                ms=rng.expovariate(1 / 900),
                key=key,
                team=team,
                user=f"user-{_zipf(rng, 200)}",
                end_user=f"{rng.randrange(5_000):08x}" if rng.random() < 0.1 else "",
                task="chat",
                model="an-alias" if rng.random() < 0.01 else model,
                route=model,
                backend=backend,
                experiment="trial-rare" if rare else "trial" if trial else "",
                variant=rng.choice(("control", "treatment")) if trial or rare else "",
                stream=rng.random() < 0.6,
                error=error,
                ttft_ms=rng.expovariate(1 / 300),
                prompt_tokens=rng.randrange(4_000),
                completion_tokens=rng.randrange(800),
                cost_usd=cost,
                client="rare" if rare else _PROGRAMS[_zipf(rng, len(_PROGRAMS))],
                request_tags=("rare",) if rare else ("nightly",) if rng.random() < 0.05 else (),
                client_request_id=f"client-{place}" if rng.random() < 0.2 else "",
                message="vendor: the sentence of an error" if error else "",
                total_cost_usd=cost,
            ),
            tuple(
                AttemptRow(
                    request_id=request_id,
                    number=number,
                    time=time,
                    backend=backend if number == retried + 1 else "vendor-9/broken",
                    role="served" if number == retried + 1 else "failed",
                    outcome=(error or "ok") if number == retried + 1 else "upstream_failed",
                    ms=100.0,
                    usage_source="reported",
                    prompt_tokens=10,
                    completion_tokens=10,
                    cost_usd=cost,
                )
                for number in range(1, retried + 2)
            ),
        )


def _stored(value: object) -> Value:
    if isinstance(value, tuple):
        return msgspec.json.encode(value).decode()
    assert value is None or isinstance(value, (str, int, float))
    return int(value) if isinstance(value, bool) else value


def fill(store: SqlStore, count: int, seed: int = 1) -> None:
    """Insert requests and attempts, without what an import does besides."""
    tables = (
        Insert(
            table="requests", columns=(*(one.name for one in REQUEST_COLUMNS), "ended", "batch")
        ),
        Insert(table="attempts", columns=(*(one.name for one in ATTEMPT_COLUMNS), "batch")),
    )
    made, batch = rows(count, seed), 0
    while some := list(islice(made, 5_000)):
        batch += 1
        with store.database.writing() as session:
            _insert(session, tables[0], [one for one, _ in some], batch)
            _insert(session, tables[1], [one for _, tried in some for one in tried], batch)
            session.insert(
                _TAGS,
                [(tag, one.time, one.request_id) for one, _ in some for tag in one.request_tags],
            )
            session.run("UPDATE import_batch SET number = ?", batch)


def _insert(
    session: Session, into: Insert, found: Sequence[RequestRow | AttemptRow], batch: int
) -> None:
    values: list[list[Value]] = []
    for one in found:
        names = ["time" if name == "ended" else name for name in into.columns[:-1]]
        row = [getattr(one, name) for name in names]
        values.append([_stored(value) for value in row] + [batch])
    session.insert(into, values)
