"""Delete the texts of old replays: prompts and answers are kept no longer than logged payloads."""

from typing import Final

from strowger_gateway.gateway.storage.sql.database import Database

_OLD: Final = "(SELECT name FROM replay_runs WHERE created < ? AND redacted = 0)"
_STATEMENTS: Final = (
    f"UPDATE replay_pairs SET prompt = '' WHERE run IN {_OLD}",
    f"UPDATE replay_calls SET text = '', error = '' WHERE run IN {_OLD}",
    "UPDATE replay_runs SET redacted = 1 WHERE created < ? AND redacted = 0",
)


def drop_old_replay_texts(database: Database, before: float) -> None:
    """Delete those of runs that began before, Unix seconds. What a report is made of stays."""
    with database.writing() as session:
        for statement in _STATEMENTS:
            session.run(statement, before)
