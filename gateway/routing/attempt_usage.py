"""Tokens that the attempts of a request have used: as their backends report them, or estimates.

An attempt whose prompt a model has read costs at least that prompt, however it ended: its client
or the gateway gave it up, its connection broke, or another attempt was faster. Vendors charge for
it, whether or not they could still report it. Budgets, limits and records all count by this.
"""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.tasks.task import TaskRequest, searched, searches_of

CountedSource = Literal["", "reported", "estimated"]
"""reported: all counts are the backend's. estimated: some are not. "": nothing was used."""


class AttemptUsage(Struct, frozen=True, gc=False):
    """Created by position. place: the index of the attempt in its request's record.

    tier: the service tier of its answer.
    """

    place: int
    attempt: AttemptRecord
    usage: Usage
    source: CountedSource
    tier: str


def note_searches(record: RequestRecord, request: TaskRequest) -> None:
    """Note the search units of the request in its record, for vendors that bill by them."""
    if record.attempts:
        units = None if record.usage is None else searches_of(record.usage)
        record.searches = request.searches if units is None else units


def usage_of_answer(record: RequestRecord) -> tuple[Usage, CountedSource]:
    """The usage of the attempt whose answer is the request's, or that failed last."""
    place = _own(record.attempts)
    prompt = None if place < 0 else _prompt_of(record, place, shown=True)
    usage, source = counted(
        record.usage, record.deltas, record.task, prompt, _late(record, place, shown=True)
    )
    return _with_searches(usage, record, place), source


def usage_of_attempts(record: RequestRecord) -> Iterator[AttemptUsage]:
    """The usage of each attempt, without those that the backend's API cannot express."""
    own = _own(record.attempts)
    for place, attempt in enumerate(record.attempts):
        if attempt.refused:
            continue
        shown = place == own
        usage, source = counted(
            record.usage if shown else attempt.usage,
            record.deltas if shown else attempt.deltas,
            record.task,
            _prompt_of(record, place, shown=shown),
            _late(record, place, shown=shown),
        )
        tier = record.service_tier if shown else attempt.service_tier
        yield AttemptUsage(place, attempt, _with_searches(usage, record, place), source, tier)


def counted(
    usage: Usage | None, deltas: int, task: str, prompt: int | None, late: int
) -> tuple[Usage, CountedSource]:
    """Return the usage of an attempt and its source. The estimate is one token per delta.

    prompt: estimated tokens of the prompt, used if the backend reported none; `None` if no model
    has read it. late: those of the deltas that the usage does not include.
    """
    if usage is None:
        if deltas or prompt is not None:
            return Usage(prompt_tokens=prompt, completion_tokens=deltas or None), "estimated"
        return Usage(), ""
    source: CountedSource = "reported"
    if usage.prompt_tokens is None and prompt is not None:
        usage, source = replace(usage, prompt_tokens=prompt), "estimated"
    if usage.completion_tokens is not None:
        if late:
            usage = replace(usage, completion_tokens=usage.completion_tokens + late)
        return usage, "estimated" if late else source
    if deltas and task != "embeddings":
        return Usage(prompt_tokens=usage.prompt_tokens, completion_tokens=deltas), "estimated"
    return (Usage(), "") if usage.prompt_tokens is None else (usage, source)


def _prompt_of(record: RequestRecord, place: int, *, shown: bool) -> int | None:
    """Tokens of an attempt's prompt; `None` if no model has read it.

    As the backend of the answer counts them, because all get the same prompt; else an estimate.
    Attempts that continue an answer have read its text as well.
    """
    attempt, tokens = record.attempts[place], record.estimated_prompt_tokens
    if attempt.unread and not (record.deltas if shown else attempt.deltas):
        return None
    if not shown and record.usage is not None and record.usage.prompt_tokens is not None:
        text = sum(one.deltas for one in record.attempts[place:] if one.continued)
        tokens = max(0, record.usage.prompt_tokens - text)
    if tokens is None or attempt.share == 1.0:
        return tokens
    return ceil(tokens * attempt.share)


def _with_searches(usage: Usage, record: RequestRecord, place: int) -> Usage:
    """Return the usage with the search units of the attempt, if its backend counts none.

    Only backends whose price has `search_unit` cost by them.
    """
    if not record.searches or usage.prompt_tokens is None or usage.raw is not None:
        return usage
    return replace(usage, raw=searched(record.searches * record.attempts[place].share))


def _late(record: RequestRecord, place: int, *, shown: bool) -> int:
    """The deltas of an attempt after its usage, unless its answer is complete."""
    attempt = record.attempts[place] if place >= 0 else None
    if attempt is None or attempt.outcome == "ok":
        return 0
    return max(0, record.deltas - record.usage_at) if shown else attempt.late


def _own(attempts: Sequence[AttemptRecord]) -> int:
    """Return the index of the attempt that the record's own numbers describe; −1: none."""
    for place in range(len(attempts) - 1, -1, -1):
        if not attempts[place].role and not attempts[place].refused:
            return place
    return -1
