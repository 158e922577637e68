"""Runs of replays in the database: every step is committed when it is done.

A call is committed before it is sent, at its worst case, and again with its outcome: after a crash,
what is between the two stays charged. Only the holder of a run's lease writes.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final, Literal

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.experiments.replay.definition import Definition
from strowger_gateway.gateway.experiments.replay.prompts import ReplayedPrompt
from strowger_gateway.gateway.experiments.replay.spending import Spent
from strowger_gateway.gateway.storage.sql.database import Database, Session

Step = Literal["control", "treatment", "first", "second"]
"""A call of a pair: the answer of an arm, or a judgement that shows treatment's answer first or
second."""

State = Literal["asked", "done", "failed"]
How = Literal["", "judge", "check", "failed", "tie"]
"""What decided about a pair: the judge, a check, an arm without an answer, or nothing that differs.

"": it is not decided yet.
"""

LEASE_S: Final = 30.0


class ReplayRun(Struct, frozen=True, kw_only=True):
    """left_out: prompts by reason. salt: orders answers on the page. holder: who works on it.

    created, held_until: Unix seconds. ended: why the last command stopped; "" while one works.
    redacted: the texts are deleted.
    """

    name: str
    definition: Definition
    created: float
    left_out: dict[str, int]
    salt: str
    holder: str
    held_until: float
    ended: str
    pairs: int
    redacted: bool


class Pair(Struct, frozen=True, kw_only=True):
    """place: from 0, in the fixed random order of units, and of each unit's pairs.

    score: of treatment, in [0, 1]; `None` while it is not decided. first, second: when treatment's
    answer was shown first or second; `None` if not judged so. length: logarithm of the length of
    treatment's answer over control's, in characters; `None` if one is empty.
    """

    place: int
    unit: str
    how: How
    score: float | None
    first: float | None
    second: float | None
    length: float | None


class StoredCall(Struct, frozen=True, kw_only=True):
    """One call of a pair, with all its attempts.

    nanos, tokens: charged for all attempts. text: an answer, or a judge's reason. cut: an answer
    ends at its limit of tokens, or the judge has not seen everything. passed: the checks of an
    answer. verdict: A, B, tie, or "" for none.
    """

    place: int
    step: Step
    state: State
    attempts: int
    nanos: int
    tokens: int
    prompt_tokens: int
    completion_tokens: int
    ms: float
    status: int
    backend: str
    text: str
    verdict: str
    passed: bool | None
    cut: bool
    error: str


class CallOutcome(Struct, frozen=True, kw_only=True):
    """How a call ended; see StoredCall."""

    state: State
    prompt_tokens: int = 0
    completion_tokens: int = 0
    ms: float = 0.0
    status: int = 0
    backend: str = ""
    text: str = ""
    verdict: str = ""
    passed: bool | None = None
    cut: bool = False
    error: str = ""


class LeaseLost(Exception):
    """Another command works on the run."""


_RUN: Final = (
    "SELECT name, definition, created, left_out, salt, holder, held_until, ended, pairs, redacted"
    " FROM replay_runs"
)
_RunRow = tuple[str, str, float, str, str, str, float, str, int, bool]
_CALL: Final = ", ".join(StoredCall.__struct_fields__)
_CallRow = tuple[
    int, Step, State, int, int, int, int, int, float, int, str, str, str, bool | None, bool, str
]
_PairRow = tuple[int, str, How, float | None, float | None, float | None, float | None]
_PAIR: Final = ", ".join(Pair.__struct_fields__)


class ReplayRows:
    """The runs in one database. Every method blocks, and raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, name: str) -> ReplayRun | None:
        with self._database.reading() as session:
            found = session.rows(_RunRow, f"{_RUN} WHERE name = ?", name)
        return _run(found[0]) if found else None

    def runs(self) -> list[ReplayRun]:
        """Return all runs, the newest first."""
        with self._database.reading() as session:
            return [_run(row) for row in session.rows(_RunRow, f"{_RUN} ORDER BY created DESC")]

    def create(
        self,
        name: str,
        definition: Definition,
        prompts: Sequence[ReplayedPrompt],
        *,
        left_out: dict[str, int],
        salt: str,
        now: float,
    ) -> None:
        """Store a new run with its prompts in their order. Raises StoreRejected if it exists."""
        with self._database.writing() as session:
            session.run(
                "INSERT INTO replay_runs (name, definition, created, left_out, salt, holder,"
                " held_until, ended, pairs, redacted) VALUES (?, ?, ?, ?, ?, '', 0, '', ?, 0)",
                name,
                msgspec.json.encode(definition).decode(),
                now,
                msgspec.json.encode(left_out).decode(),
                salt,
                len(prompts),
            )
            session.many(
                "INSERT INTO replay_pairs (run, place, unit, prompt, how) VALUES (?, ?, ?, ?, '')",
                [
                    (name, place, prompt.unit, msgspec.json.encode(prompt).decode())
                    for place, prompt in enumerate(prompts)
                ],
            )

    def remove(self, name: str) -> bool:
        """Delete a run with everything in it; return whether it was there."""
        with self._database.writing() as session:
            for table in ("replay_votes", "replay_calls", "replay_pairs"):
                session.run(f"DELETE FROM {table} WHERE run = ?", name)
            return session.run("DELETE FROM replay_runs WHERE name = ?", name) > 0

    def lease(self, name: str, holder: str, now: float, gone: Iterable[str] = ()) -> str:
        """Take or renew the lease of a run; return "", or who has it.

        gone: holders that have ended without giving theirs back. now: Unix seconds.
        """
        with self._database.writing() as session:
            sql = "SELECT holder, held_until FROM replay_runs WHERE name = ?"
            for other, until in session.rows(tuple[str, float], sql, name):
                if other not in ("", holder, *gone) and now < until:
                    return other
            session.run(
                "UPDATE replay_runs SET holder = ?, held_until = ?, ended = '' WHERE name = ?",
                holder,
                now + LEASE_S,
                name,
            )
        return ""

    def release(self, name: str, holder: str, ended: str) -> None:
        """Give the lease back. ended: why the work has stopped."""
        with self._database.writing() as session:
            session.run(
                "UPDATE replay_runs SET holder = '', held_until = 0, ended = ?"
                " WHERE name = ? AND holder = ?",
                ended,
                name,
                holder,
            )

    def charged(self, name: str) -> Spent:
        """Return what all calls have been charged."""
        sums = [f"CAST(COALESCE(SUM({name}), 0) AS BIGINT)" for name in ("nanos", "tokens")]
        sql = f"SELECT {', '.join(sums)} FROM replay_calls"
        with self._database.reading() as session:
            ((nanos, tokens),) = session.rows(tuple[int, int], f"{sql} WHERE run = ?", name)
        return Spent(nanos=nanos, tokens=tokens)

    def undecided(self, name: str) -> list[int]:
        """Return the places of pairs that are not decided, in order."""
        sql = "SELECT place FROM replay_pairs WHERE run = ? AND how = '' ORDER BY place"
        with self._database.reading() as session:
            return [place for (place,) in session.rows(tuple[int], sql, name)]

    def prompt(self, name: str, place: int) -> ReplayedPrompt:
        """Raises LookupError."""
        sql = "SELECT prompt FROM replay_pairs WHERE run = ? AND place = ?"
        with self._database.reading() as session:
            found = session.rows(tuple[str], sql, name, place)
        if not found or not found[0][0]:
            raise LookupError(f"{name} has no prompt at place {place}")
        return msgspec.json.decode(found[0][0], type=ReplayedPrompt)

    def pairs(self, name: str) -> list[Pair]:
        """Return all pairs in order, without texts."""
        sql = f"SELECT {_PAIR} FROM replay_pairs WHERE run = ? ORDER BY place"
        with self._database.reading() as session:
            rows = session.rows(_PairRow, sql, name)
        return [_pair(row) for row in rows]

    def pair(self, name: str, place: int) -> Pair:
        """Raises LookupError."""
        sql = f"SELECT {_PAIR} FROM replay_pairs WHERE run = ? AND place = ?"
        with self._database.reading() as session:
            found = session.rows(_PairRow, sql, name, place)
        if not found:
            raise LookupError(f"{name} has no pair at place {place}")
        return _pair(found[0])

    def calls(self, name: str, place: int) -> dict[Step, StoredCall]:
        """Return the calls of one pair."""
        sql = f"SELECT {_CALL} FROM replay_calls WHERE run = ? AND place = ?"
        with self._database.reading() as session:
            return {one.step: one for one in _calls(session, sql, name, place)}

    def all_calls(self, name: str) -> list[StoredCall]:
        """Return the calls of all pairs, without their texts."""
        columns = _CALL.replace("text,", "'' AS text,")
        sql = f"SELECT {columns} FROM replay_calls WHERE run = ? ORDER BY place, step"
        with self._database.reading() as session:
            return _calls(session, sql, name)

    def reserve(self, name: str, holder: str, place: int, step: Step, worst: Spent) -> None:
        """Charge a call that is about to be sent. Raises LeaseLost."""
        with self._held(name, holder) as session:
            session.run(
                "INSERT INTO replay_calls (run, place, step, state, attempts, nanos, tokens,"
                " prompt_tokens, completion_tokens, ms, status, backend, text, verdict, passed,"
                " cut, error) VALUES (?, ?, ?, 'asked', 1, ?, ?, 0, 0, 0, 0, '', '', '', NULL, 0,"
                " '') ON CONFLICT (run, place, step) DO UPDATE SET state = 'asked',"
                " attempts = replay_calls.attempts + 1,"
                " nanos = replay_calls.nanos + excluded.nanos,"
                " tokens = replay_calls.tokens + excluded.tokens",
                name,
                place,
                step,
                worst.nanos,
                worst.tokens,
            )

    def settle(
        self, name: str, holder: str, place: int, step: Step, change: Spent, outcome: CallOutcome
    ) -> None:
        """Store how a call ended. change: of what it was charged. Raises LeaseLost."""
        passed = None if outcome.passed is None else int(outcome.passed)
        with self._held(name, holder) as session:
            session.run(
                "UPDATE replay_calls SET state = ?, nanos = nanos + ?, tokens = tokens + ?,"
                " prompt_tokens = ?, completion_tokens = ?, ms = ?, status = ?, backend = ?,"
                " text = ?, verdict = ?, passed = ?, cut = ?, error = ?"
                " WHERE run = ? AND place = ? AND step = ?",
                outcome.state,
                change.nanos,
                change.tokens,
                outcome.prompt_tokens,
                outcome.completion_tokens,
                outcome.ms,
                outcome.status,
                outcome.backend,
                storable(outcome.text),
                outcome.verdict,
                passed,
                int(outcome.cut),
                storable(outcome.error),
                name,
                place,
                step,
            )

    def decide(self, name: str, holder: str, pair: Pair) -> None:
        """Store what a pair has come to. Raises LeaseLost."""
        with self._held(name, holder) as session:
            session.run(
                "UPDATE replay_pairs SET how = ?, score = ?, first = ?, second = ?, length = ?"
                " WHERE run = ? AND place = ?",
                pair.how,
                pair.score,
                pair.first,
                pair.second,
                pair.length,
                name,
                pair.place,
            )

    @contextmanager
    def _held(self, name: str, holder: str) -> Generator[Session]:
        """A write transaction of the run's holder. Raises LeaseLost."""
        with self._database.writing() as session:
            sql = "SELECT holder FROM replay_runs WHERE name = ?"
            if session.rows(tuple[str], sql, name) != [(holder,)]:
                raise LeaseLost(name)
            yield session


def storable(text: str) -> str:
    """A text without what PostgreSQL cannot store: NUL, and halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _run(row: _RunRow) -> ReplayRun:
    return ReplayRun(
        name=row[0],
        definition=msgspec.json.decode(row[1], type=Definition),
        created=row[2],
        left_out=msgspec.json.decode(row[3], type=dict[str, int]),
        salt=row[4],
        holder=row[5],
        held_until=row[6],
        ended=row[7],
        pairs=row[8],
        redacted=row[9],
    )


def _pair(row: _PairRow) -> Pair:
    return msgspec.convert(dict(zip(Pair.__struct_fields__, row, strict=True)), Pair)


def _calls(session: Session, sql: str, *values: str | int) -> list[StoredCall]:
    names = StoredCall.__struct_fields__
    return [
        msgspec.convert(dict(zip(names, row, strict=True)), StoredCall)
        for row in session.rows(_CallRow, sql, *values)
    ]
