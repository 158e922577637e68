"""Rows of a request: one for itself, and one for each attempt.

A worker does the minimum: it writes the access line, which contains everything about nearly every
request, and the importer expands it to rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from operator import attrgetter

import msgspec

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, in_one_line
from strowger_gateway.gateway.routing.attempt_usage import usage_of_answer, usage_of_attempts
from strowger_gateway.gateway.routing.participation import NO_PARTICIPATION
from strowger_gateway.gateway.routing.planning.prices import Prices, cost_of, is_reported
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.gateway.storage.sql.rows import (
    AttemptRow,
    RecordedFields,
    RequestBatch,
    RequestRow,
    Row,
    RowAttempt,
    Source,
    SpoolEntry,
)
from strowger_gateway.schemas.events import Usage
from strowger_gateway.schemas.usage import tier_in_usage

_recorded = attrgetter(*RecordedFields.__struct_fields__)
_lines: msgspec.json.Decoder[AccessLine] = msgspec.json.Decoder(AccessLine)


def access_line(
    record: RequestRecord, status: int, ended: float, offset: float, prices: Prices
) -> AccessLine:
    """Build the access line of a finished request. offset: Unix time minus the clock, seconds."""
    usage, source = record.usage, "reported"
    if record.error or usage is None or None in (usage.completion_tokens, usage.prompt_tokens):
        usage, source = usage_of_answer(record)
    price = prices.of(record.backend) if prices.any and source else None
    first, part, cache, free = record.first_content_at, record.participation, record.cache, None
    if cache is not None and cache.outcome == "hit":
        usage, free = cache.usage or Usage(), 0.0  # as counted when the answer was made
    tier = record.service_tier if usage.raw is None and source else _tier(record, usage, source)
    return AccessLine(  # by position: more than 15 keywords go through a dictionary
        ended + offset,
        record.request_id,
        record.surface,
        status,
        ((ended - record.started) * 1e6 + 0.5) // 1.0 / 1e3,  # `milliseconds` inlined
        record.caller,
        record.team,
        record.user,
        record.tags,
        record.spender,
        record.task,
        record.model,
        record.route,
        record.backend,
        part.experiment,
        part.variant,
        part.assigned_backend != "" and _fell_back(record, part.assigned_backend),
        record.stream,
        record.error,
        None if first is None else ((first - record.started) * 1e6 + 0.5) // 1.0 / 1e3,
        usage.prompt_tokens,
        usage.completion_tokens,
        free if price is None else cost_of(usage, price.in_tier(tier) if tier else price),
        record.budget,
        "" if cache is None else cache.outcome,
        record.attributes,
        record.client,
        record.request_tags,
        record.client_request_id,
        in_one_line(record.param) if record.param else "",
        in_one_line(record.message) if record.message else "",
        record.client_address,  # from here on, what only the log has
        record.refusal if status in (401, 403) else "",
        tuple(record.attempts),
        record.dropped,
        usage.cached_tokens,
        usage.cache_write_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
        source,
        prices.priced and bool(source) and price is None,  # unpriced
        price is not None and price.reports and is_reported(usage),  # cost_reported
        record.certificate,
        tuple(record.findings) if record.findings else (),
        record.repairs if record.repaired or record.repaired_body else (),
        tier,  # method, path and actor are of other requests
    )


def _tier(record: RequestRecord, usage: Usage, source: Source) -> str:
    """Return the service tier that the counts name, else the one that the answer names."""
    if not source:
        return ""
    named = None if usage.raw is None else tier_in_usage(usage.raw)
    return record.service_tier if named is None else named


def _fell_back(record: RequestRecord, home: str) -> bool:
    """Whether another backend than the variant's, `home`, answered or was the last to fail."""
    attempts = record.attempts
    return record.backend not in ("", home) or (len(attempts) > 1 and _is_continued(attempts))


def _is_continued(attempts: Sequence[AttemptRecord]) -> bool:
    """Whether several attempts made the answer: it is not the variant's alone."""
    return any(attempt.continued for attempt in attempts)


def request_batch(
    records: Sequence[RequestRecord],
    lines: bytes,
    attempts: Iterable[AttemptRow],
    writer: str = "",
    batch: int = 0,
) -> RequestBatch:
    """Batch finished requests for the spool.

    lines: their access lines as JSON. attempts: of the requests with several. writer, batch: this
    process, and the number of the batch.
    """
    parts: tuple[tuple[int, str], ...] = ()
    if any(record.participation is not NO_PARTICIPATION for record in records):
        parts = tuple(
            [(record.participation.epoch, record.participation.unit) for record in records]
        )
    return RequestBatch(
        count=len(records),
        lines=lines,
        parts=parts,
        attempts=tuple(attempts),
        writer=writer,
        batch=batch,
    )


def expand_rows(entries: Iterable[SpoolEntry]) -> list[Row]:
    """Expand spool entries to rows, in order.

    Raises msgspec.DecodeError for lines that are not access lines, ValueError if the numbers of
    parts and lines differ.
    """
    rows: list[Row] = []
    for one in entries:
        if isinstance(one, RequestBatch):
            lines = _lines.decode_lines(one.lines)
            parts = one.parts or repeat((0, ""), len(lines))
            costs = _costs(one.attempts)
            for line, (epoch, unit) in zip(lines, parts, strict=True):
                if not is_unknown(line):
                    cost = costs.get(line.request_id, line.cost_usd)
                    rows += _rows_from_line(line, epoch, unit, one, cost)
            rows += one.attempts
        else:
            rows.append(one)
    return rows


def is_unknown(line: AccessLine) -> bool:
    """Return whether the request came without a key, or with a wrong one.

    It has no row: clients without a key would decide how much is stored.
    """
    return line.status == 401 and not line.key and not line.attempts


def _costs(attempts: Iterable[AttemptRow]) -> dict[str, float | None]:
    """Return the cost of all attempts of each request, of those whose price is known."""
    costs: dict[str, float | None] = {}
    for one in attempts:
        known = costs.setdefault(one.request_id, None)
        if one.cost_usd is not None:
            costs[one.request_id] = one.cost_usd + (known or 0.0)
    return costs


def _rows_from_line(
    line: AccessLine, epoch: int, unit: str, batch: RequestBatch, cost: float | None
) -> list[Row]:
    """cost: of all attempts, US dollars; `None` if no price is known."""
    attempted = tuple([
        RowAttempt(one.backend, one.pattern, one.outcome, one.refused, one.role)
        for one in line.attempts
    ])  # fmt: skip
    rows: list[Row] = [
        RequestRow(
            *_recorded(line),
            epoch=epoch,
            unit=unit,
            writer=batch.writer,
            batch=batch.batch,
            attempted=attempted,
            total_cost_usd=cost,
        )
    ]
    if is_complete(line):
        rows.append(
            AttemptRow(
                request_id=line.request_id,
                number=1,
                time=line.time,
                backend=line.attempts[0].backend,
                role=line.attempts[0].recorded_role,
                outcome=line.attempts[0].outcome,
                ms=line.attempts[0].ms,
                usage_source=line.usage_source,
                prompt_tokens=line.prompt_tokens,
                completion_tokens=line.completion_tokens,
                cached_tokens=line.cached_tokens,
                cache_write_tokens=line.cache_write_tokens,
                cache_write_1h_tokens=line.cache_write_1h_tokens,
                reasoning_tokens=line.reasoning_tokens,
                cost_usd=line.cost_usd,
                provider_key=line.attempts[0].provider_key,
            )
        )
    return rows


def is_complete(line: AccessLine) -> bool:
    """True if the line covers its attempts: the usage in the line is that of its only attempt."""
    return len(line.attempts) == 1 and not line.attempts[0].refused


def attempts_of(record: RequestRecord, time: float, prices: Prices) -> Iterator[AttemptRow]:
    """Yield a row for each attempt that sent something to a backend."""
    for one in usage_of_attempts(record):
        yield attempt_row(
            record.request_id,
            one.place + 1,
            time,
            one.attempt,
            one.usage,
            one.source,
            prices,
            one.tier,
        )


def attempt_row(
    request_id: str,
    number: int,
    time: float,
    attempt: AttemptRecord,
    usage: Usage,
    source: Source,
    prices: Prices,
    tier: str = "",
) -> AttemptRow:
    """Build the row of one attempt.

    number: within the request, from 1. time: Unix seconds. usage, source, tier: as of AttemptUsage.
    """
    price = prices.of(attempt.backend) if prices.any and source else None
    return AttemptRow(
        request_id=request_id,
        number=number,
        time=time,
        backend=attempt.backend,
        role=attempt.recorded_role,
        outcome=attempt.outcome,
        ms=attempt.ms,
        usage_source=source,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost_usd=None if price is None else cost_of(usage, price.of_answer(usage, tier)),
        provider_key=attempt.provider_key,
    )
