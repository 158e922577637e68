"""People's votes on pairs, blind: one of each person and pair, and the mean of a pair's counts."""

from collections.abc import Mapping
from typing import Literal

from strowger_gateway.gateway.experiments.replay.prompts import digest
from strowger_gateway.gateway.experiments.replay.rows import ReplayRun
from strowger_gateway.gateway.storage.sql.database import Database

Side = Literal["left", "right", "tie"]


class VoteRows:
    """The votes in one database. Every method blocks, and raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run: str, place: int, voter: str, score: float, now: float) -> bool:
        """Store a vote; false if this person has voted on the pair, which the first vote decides.

        score: of treatment. now: Unix seconds.
        """
        with self._database.writing() as session:
            return (
                session.run(
                    "INSERT INTO replay_votes (run, place, voter, score, time)"
                    " VALUES (?, ?, ?, ?, ?) ON CONFLICT (run, place, voter) DO NOTHING",
                    run,
                    place,
                    voter,
                    score,
                    now,
                )
                > 0
            )

    def scores(self, run: str) -> Mapping[int, float]:
        """Return the mean of people's scores by place."""
        sql = "SELECT place, AVG(score) FROM replay_votes WHERE run = ? GROUP BY place"
        with self._database.reading() as session:
            return dict(session.rows(tuple[int, float], sql, run))

    def last(self, voter: str) -> tuple[str, int, float] | None:
        """Return run, place and score of a person's last vote."""
        sql = "SELECT run, place, score FROM replay_votes WHERE voter = ?"
        with self._database.reading() as session:
            order = " ORDER BY time DESC, place LIMIT 1"
            found = session.rows(tuple[str, int, float], sql + order, voter)
        return found[0] if found else None

    def next_place(self, run: str, voter: str, after: int = -1) -> int | None:
        """Return the first pair with two answers that this person has not voted on.

        after: a place.
        """
        sql = """SELECT MIN(place) FROM replay_pairs WHERE run = ? AND how NOT IN ('', 'failed')
            AND prompt <> '' AND place > ? AND place NOT IN
                (SELECT place FROM replay_votes WHERE run = ? AND voter = ?)"""
        with self._database.reading() as session:
            ((place,),) = session.rows(tuple[int | None], sql, run, after, run, voter)
        return place


def treatment_left(run: ReplayRun, place: int) -> bool:
    """Whether treatment's answer is shown on the left: by the run's salt, which no page shows."""
    return int(digest(run.salt, run.name, str(place)), 16) % 2 == 1


def score_of(side: Side, *, treatment_on_left: bool) -> float:
    """Return the score of treatment."""
    if side == "tie":
        return 0.5
    return float((side == "left") == treatment_on_left)
