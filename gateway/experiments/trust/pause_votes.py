"""Votes that came or changed after a pause: they can overturn a result that stopped the test."""

from collections.abc import Iterator, Sequence

from strowger_gateway.gateway.storage.sql.base import Epoch, Pause, Store
from strowger_gateway.gateway.storage.sql.experiments.late_votes import (
    VotesAfterPause,
    after_pauses,
)

NO_VOTES = VotesAfterPause(added=0, changed=0)


def votes_after_pauses(
    store: Store, experiment: str, epochs: Sequence[Epoch], pause: Pause | None
) -> VotesAfterPause:
    """Count votes on requests from before a pause that came or changed after it began.

    pause: the current one, whose epoch may not have begun. Blocks. Raises StoreUnavailable.
    """
    began = [(epoch.number, epoch.began) for epoch in epochs if epoch.paused]
    if pause is not None and epochs and not epochs[-1].paused:
        began.append((epochs[-1].number + 1, pause.at))
    if not began:
        return NO_VOTES
    with store.database.reading() as session:
        return after_pauses(session, experiment, began)


def pause_notes(votes: VotesAfterPause) -> Iterator[str]:
    """Yield a note if there are such votes."""
    if votes.changed or votes.added:
        yield (
            f"after a pause began, {_words(votes.changed, 'changed')} and "
            f"{_words(votes.added, 'added')} on requests from before it; `votes_until` limits how "
            "late votes count"
        )


def _words(votes: int, done: str) -> str:
    return f"1 vote was {done}" if votes == 1 else f"{votes:,} votes were {done}"
