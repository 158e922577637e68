"""Propose draft tokens for the next step and learn from the last one's results."""

from collections.abc import Iterable
from itertools import takewhile

from strowger_gateway.local_engine.execution.jobs import Job, before_end
from strowger_gateway.local_engine.execution.prompt_lookup import PromptLookup
from strowger_gateway.local_engine.scheduling.sequence import Sequence

MAX_RUNNING = 4
"""With more running answers a step is full enough without drafts."""


class DraftProposer:
    """Prompt lookup for the answers of one lane.

    most: drafts per step; 0 turns it off. vocabulary: ids from here on are rows of a prompt table.
    """

    def __init__(self, most: int, vocabulary: int) -> None:
        self._most = most
        self._vocabulary = vocabulary
        self._lookups: dict[int, PromptLookup] = {}

    def propose(self, jobs: Iterable[Job], running: int) -> None:
        """Give each job drafts for its next step, none past an end token or the answer's limit.

        running: answers in progress.
        """
        if self._most == 0 or running > MAX_RUNNING:
            return
        for job in jobs:
            sequence = job.sequence
            room = sequence.max_total - len(sequence.tokens) - 1
            if room > 0:
                lookup = self._lookups.setdefault(sequence.id, PromptLookup(self._most))
                drafts = lookup.propose(sequence.tokens)[:room]
                known = takewhile(lambda id: id < self._vocabulary, drafts)
                sequence.drafts.extend(before_end(job, list(known)))

    def learn(self, sequence: Sequence, proposed: int, accepted: int) -> None:
        lookup = self._lookups.get(sequence.id)
        if lookup is not None:
            lookup.learn(proposed, accepted)

    def forget(self, id: int) -> None:
        self._lookups.pop(id, None)
