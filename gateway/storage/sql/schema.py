"""The tables, as the statements that create them; a database records which ones it has had.

Texts sort by code point in either database. Reports read `experiment_units`: one row per unit,
epoch, variant and metric. See docs/operations.md.

Until the first release, version 1 is edited in place, and its columns of requests and attempts are
derived from their rows. A release freezes it, written out: from then on, a change of the tables is
another entry of MIGRATIONS.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

import msgspec

from strowger_gateway.gateway.audit.chain import NO_HASH
from strowger_gateway.gateway.storage.sql.database import Driver, Session
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.request_log.indexes import INDEXES
from strowger_gateway.gateway.storage.sql.rows import (
    ATTEMPT_COLUMNS,
    REQUEST_COLUMNS,
    Kind,
    TableColumn,
)
from strowger_gateway.schemas.errors import InvalidConfig

_TYPES: Final[Mapping[Kind, str]] = {
    "text": "{text}",
    "int": "BIGINT",
    "float": "DOUBLE PRECISION",
    "bool": "SMALLINT",
    "json": "{text}",
}


def _declared(columns: Iterable[TableColumn]) -> str:
    """Return the declarations of columns, for either database."""
    return ", ".join(
        f'"{column.name}" {_TYPES[column.kind]}{"" if column.optional else " NOT NULL"}'
        for column in columns
    )


_RECORDS: Final = (
    # `ended` is `time` once more, for the indexes of the search.
    f"""CREATE TABLE requests ({_declared(REQUEST_COLUMNS)}, ended DOUBLE PRECISION NOT NULL,
        batch BIGINT NOT NULL, PRIMARY KEY (request_id))""",
    """CREATE TABLE tagged_requests (
        tag {text} NOT NULL, time DOUBLE PRECISION NOT NULL, request_id {text} NOT NULL,
        PRIMARY KEY (tag, time, request_id))""",
    "CREATE INDEX tagged_requests_time ON tagged_requests (time)",
    "CREATE INDEX requests_batch ON requests (batch, request_id)",
    f"""CREATE TABLE attempts ({_declared(ATTEMPT_COLUMNS)}, batch BIGINT NOT NULL,
        PRIMARY KEY (request_id, number))""",
    "CREATE INDEX attempts_time ON attempts (time)",
    "CREATE INDEX attempts_batch ON attempts (batch, request_id, number)",
    *INDEXES,
    """CREATE TABLE feedback (
        request_id {text} NOT NULL, metric {text} NOT NULL, key {text} NOT NULL,
        time DOUBLE PRECISION NOT NULL, value DOUBLE PRECISION, given DOUBLE PRECISION,
        comment {text} NOT NULL, boolean SMALLINT NOT NULL,
        first_time DOUBLE PRECISION NOT NULL, changed_time DOUBLE PRECISION,
        joined SMALLINT NOT NULL DEFAULT 0,
        experiment {text} NOT NULL DEFAULT '', epoch INTEGER NOT NULL DEFAULT 0,
        variant {text} NOT NULL DEFAULT '', unit {text} NOT NULL DEFAULT '',
        PRIMARY KEY (request_id, metric, key))""",
    "CREATE INDEX feedback_place ON feedback (experiment, metric, unit, epoch, variant)",
    "CREATE INDEX feedback_unit ON feedback (experiment, unit, epoch, variant)",
    "CREATE INDEX feedback_time ON feedback (time)",
    """CREATE TABLE spool_files (
        file {text} PRIMARY KEY, position BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL)""",
    "CREATE TABLE import_batch (number BIGINT NOT NULL, store {text} NOT NULL)",
    "INSERT INTO import_batch (number, store) VALUES (0, '')",
)
_EXPERIMENTS: Final = (
    """CREATE TABLE experiment_epochs (
        experiment {text} NOT NULL, number INTEGER NOT NULL, fingerprint {text} NOT NULL,
        shares {text} NOT NULL, began DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (experiment, number))""",
    """CREATE TABLE experiment_definitions (
        experiment {text} PRIMARY KEY, definition {text} NOT NULL,
        time DOUBLE PRECISION NOT NULL, votes_until DOUBLE PRECISION)""",
    """CREATE TABLE experiment_plans (
        experiment {text} NOT NULL, number INTEGER NOT NULL, time DOUBLE PRECISION NOT NULL,
        requests BIGINT NOT NULL, plan {text} NOT NULL, PRIMARY KEY (experiment, number))""",
    """CREATE TABLE experiment_pauses (
        experiment {text} PRIMARY KEY, reason {text} NOT NULL, at DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE experiment_units (
        experiment {text} NOT NULL, metric {text} NOT NULL, unit {text} NOT NULL,
        epoch INTEGER NOT NULL, variant {text} NOT NULL, count BIGINT NOT NULL,
        total DOUBLE PRECISION NOT NULL, least DOUBLE PRECISION NOT NULL,
        most DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (experiment, metric, unit, epoch, variant))""",
    """CREATE TABLE experiment_first (
        experiment {text} NOT NULL, unit {text} NOT NULL, epoch INTEGER NOT NULL,
        variant {text} NOT NULL, PRIMARY KEY (experiment, unit))""",
    """CREATE TABLE experiment_requests (
        experiment {text} NOT NULL, epoch INTEGER NOT NULL, variant {text} NOT NULL,
        requests BIGINT NOT NULL, fallbacks BIGINT NOT NULL, last DOUBLE PRECISION NOT NULL,
        errors BIGINT NOT NULL, PRIMARY KEY (experiment, epoch, variant))""",
    "CREATE TABLE experiment_guards (experiment {text} PRIMARY KEY, state {text} NOT NULL)",
    """CREATE TABLE experiment_unit_keys (
        experiment {text} NOT NULL, key {text} NOT NULL, unit {text} NOT NULL,
        variant {text} NOT NULL, requests BIGINT NOT NULL,
        PRIMARY KEY (experiment, key, unit, variant))""",
    "CREATE INDEX experiment_unit_keys_unit ON experiment_unit_keys (experiment, unit)",
    """CREATE TABLE experiment_exclusions (
        experiment {text} NOT NULL, kind {text} NOT NULL, name {text} NOT NULL,
        reason {text} NOT NULL, excluded_by {text} NOT NULL, at DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (experiment, kind, name))""",
    """CREATE TABLE experiment_left_out (
        experiment {text} NOT NULL, unit {text} NOT NULL, PRIMARY KEY (experiment, unit))""",
    """CREATE TABLE experiment_courses (
        experiment {text} NOT NULL, metric {text} NOT NULL, time DOUBLE PRECISION NOT NULL,
        intervals {text} NOT NULL, PRIMARY KEY (experiment, metric, time))""",
    "CREATE TABLE turns (name {text} PRIMARY KEY, at DOUBLE PRECISION NOT NULL)",
)
_RESPONSES: Final = (
    """CREATE TABLE stored_responses (
        id {text} PRIMARY KEY, key {text} NOT NULL, time DOUBLE PRECISION NOT NULL,
        previous {text} NOT NULL, root {text} NOT NULL, input {text} NOT NULL,
        output {text} NOT NULL, resource {text} NOT NULL, item_bytes BIGINT NOT NULL,
        bytes BIGINT NOT NULL)""",
    "CREATE INDEX stored_responses_key ON stored_responses (key, root, time, bytes)",
    "CREATE INDEX stored_responses_time ON stored_responses (time)",
    """CREATE INDEX stored_responses_chain
        ON stored_responses (id, key, previous, item_bytes, bytes)""",
    """CREATE TABLE stored_response_keys (
        key {text} PRIMARY KEY, bytes BIGINT NOT NULL)""",
    "CREATE TABLE sealing_keys (secret {text} PRIMARY KEY, created DOUBLE PRECISION NOT NULL)",
)
_ISSUED_KEYS: Final = (
    """CREATE TABLE issued_keys (
        name {text} PRIMARY KEY, team {text} NOT NULL, "user" {text} NOT NULL,
        models {text} NOT NULL, max_priority INTEGER NOT NULL, tags {text} NOT NULL,
        expires DOUBLE PRECISION, not_before DOUBLE PRECISION, allowed_networks {text} NOT NULL,
        disabled SMALLINT NOT NULL, created_by {text} NOT NULL, created DOUBLE PRECISION NOT NULL,
        revoked DOUBLE PRECISION, version BIGINT NOT NULL, limits {text} NOT NULL,
        budgets {text} NOT NULL)""",
    """CREATE TABLE issued_key_secrets (
        digest {text} PRIMARY KEY, key {text} NOT NULL, place INTEGER NOT NULL,
        last4 {text} NOT NULL, created DOUBLE PRECISION NOT NULL,
        valid_until DOUBLE PRECISION)""",
    "CREATE INDEX issued_key_secrets_key ON issued_key_secrets (key)",
    """CREATE TABLE issued_key_uses (
        key {text} PRIMARY KEY, last_used DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE issued_key_readers (
        id {text} PRIMARY KEY, host {text} NOT NULL, pid BIGINT NOT NULL,
        processes INTEGER NOT NULL, version BIGINT NOT NULL, seen DOUBLE PRECISION NOT NULL)""",
    "CREATE TABLE issued_key_list (version BIGINT NOT NULL)",
    "INSERT INTO issued_key_list (version) VALUES (0)",
)
_PAYER: Final = 'key, team, "user", route, model, end_user'
_SPENT: Final = f"""{", ".join(f"{name} {{text}} NOT NULL" for name in _PAYER.split(", "))},
        nanos BIGINT NOT NULL, tokens BIGINT NOT NULL, unpriced BIGINT NOT NULL"""
_BUDGETS: Final = (
    f"CREATE TABLE spend (slot BIGINT NOT NULL, {_SPENT}, PRIMARY KEY (slot, {_PAYER}))",
    f"""CREATE TABLE spend_changes (
        version BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL, slot BIGINT NOT NULL, {_SPENT})""",
    "CREATE INDEX spend_changes_version ON spend_changes (version)",
    "CREATE TABLE spend_version (version BIGINT NOT NULL)",
    "INSERT INTO spend_version (version) VALUES (0)",
    """CREATE TABLE spend_writers (
        writer {text} PRIMARY KEY, batch BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL)""",
    "CREATE TABLE budget_holders (holder {text} PRIMARY KEY, beat BIGINT NOT NULL)",
    """CREATE TABLE budget_holds (
        budget {text} NOT NULL, subject {text} NOT NULL, holder {text} NOT NULL,
        amount BIGINT NOT NULL, PRIMARY KEY (budget, subject, holder))""",
    """CREATE TABLE budget_alerts (
        id {text} PRIMARY KEY, budget {text} NOT NULL, subject {text} NOT NULL,
        period_begin BIGINT NOT NULL, period_end BIGINT NOT NULL,
        threshold DOUBLE PRECISION NOT NULL, body {text} NOT NULL,
        created DOUBLE PRECISION NOT NULL)""",
    """CREATE UNIQUE INDEX budget_alerts_once
        ON budget_alerts (budget, subject, period_begin, period_end, threshold)""",
    """CREATE TABLE budget_alert_deliveries (
        alert {text} NOT NULL, webhook {text} NOT NULL, attempts INTEGER NOT NULL,
        due DOUBLE PRECISION NOT NULL, state {text} NOT NULL, error {text} NOT NULL,
        PRIMARY KEY (alert, webhook))""",
    "CREATE INDEX budget_alert_deliveries_due ON budget_alert_deliveries (state, due)",
)
_USAGE: Final = (
    """CREATE TABLE usage_payers (
        id BIGINT PRIMARY KEY, key {text} NOT NULL, team {text} NOT NULL,
        "user" {text} NOT NULL, tags {text} NOT NULL, route {text} NOT NULL,
        backend {text} NOT NULL, role {text} NOT NULL, client {text} NOT NULL,
        request_tags {text} NOT NULL, end_user {text} NOT NULL)""",
    """CREATE UNIQUE INDEX usage_payers_all ON usage_payers
        (key, team, "user", tags, route, backend, role, client, request_tags, end_user)""",
    """CREATE TABLE usage_sums (
        slot BIGINT NOT NULL, payer BIGINT NOT NULL, attempts BIGINT NOT NULL,
        prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT NOT NULL,
        cached_tokens BIGINT NOT NULL, cache_write_tokens BIGINT NOT NULL,
        reasoning_tokens BIGINT NOT NULL, nanos BIGINT NOT NULL, unpriced BIGINT NOT NULL,
        estimated_tokens BIGINT NOT NULL, PRIMARY KEY (slot, payer))""",
)
_TRAFFIC: Final = (
    """CREATE TABLE traffic_places (
        id BIGINT PRIMARY KEY, scope {text} NOT NULL, model {text} NOT NULL,
        backend {text} NOT NULL, key {text} NOT NULL, team {text} NOT NULL)""",
    """CREATE UNIQUE INDEX traffic_places_all
        ON traffic_places (scope, key, team, model, backend)""",
    """CREATE TABLE traffic_sums (
        span INTEGER NOT NULL, slot BIGINT NOT NULL, place BIGINT NOT NULL,
        requests BIGINT NOT NULL, errors BIGINT NOT NULL, client_errors BIGINT NOT NULL,
        refused BIGINT NOT NULL, attempts BIGINT NOT NULL, failed BIGINT NOT NULL,
        prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT NOT NULL,
        latency {text} NOT NULL, ttft {text} NOT NULL, PRIMARY KEY (place, slot, span))""",
    "CREATE INDEX traffic_sums_span ON traffic_sums (span, slot, place)",
)
_ADMINISTRATION: Final = (
    """CREATE TABLE admin_sessions (
        id {text} PRIMARY KEY, kind {text} NOT NULL, subject {text} NOT NULL, name {text} NOT NULL,
        role {text} NOT NULL, teams {text} NOT NULL, address {text} NOT NULL,
        since DOUBLE PRECISION NOT NULL, last_seen DOUBLE PRECISION NOT NULL,
        expires DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE admin_session_origins (
        origin {text} PRIMARY KEY, until DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE audit_rows (
        seq BIGINT PRIMARY KEY, time {text} NOT NULL, id {text} NOT NULL UNIQUE,
        host {text} NOT NULL, action {text} NOT NULL, outcome {text} NOT NULL,
        actor_kind {text} NOT NULL, actor {text} NOT NULL, session {text} NOT NULL,
        address {text} NOT NULL, target {text} NOT NULL, reason {text} NOT NULL,
        count BIGINT NOT NULL, detail {text} NOT NULL, prev {text} NOT NULL,
        hash {text} NOT NULL)""",
    "CREATE INDEX audit_rows_time ON audit_rows (time)",
    "CREATE TABLE audit_head (seq BIGINT NOT NULL, hash {text} NOT NULL)",
    f"INSERT INTO audit_head (seq, hash) VALUES (0, '{NO_HASH}')",
)
_PAYLOADS: Final = (
    """CREATE TABLE payloads (
        request_id {text} PRIMARY KEY, time DOUBLE PRECISION NOT NULL, key {text} NOT NULL,
        team {text} NOT NULL, model {text} NOT NULL, status INTEGER NOT NULL,
        error {text} NOT NULL, size BIGINT NOT NULL, record {text} NOT NULL)""",
    "CREATE INDEX payloads_time ON payloads (time)",
    "CREATE INDEX payloads_key ON payloads (key, time)",
    "CREATE TABLE payload_days (day BIGINT PRIMARY KEY, bytes BIGINT NOT NULL)",
    """CREATE TABLE payload_key_days (
        day BIGINT NOT NULL, key {text} NOT NULL, bytes BIGINT NOT NULL,
        PRIMARY KEY (day, key))""",
)
_REPLAYS: Final = (
    """CREATE TABLE replay_runs (
        name {text} PRIMARY KEY, definition {text} NOT NULL, created DOUBLE PRECISION NOT NULL,
        left_out {text} NOT NULL, salt {text} NOT NULL, holder {text} NOT NULL,
        held_until DOUBLE PRECISION NOT NULL, ended {text} NOT NULL, pairs INTEGER NOT NULL,
        redacted SMALLINT NOT NULL)""",
    """CREATE TABLE replay_pairs (
        run {text} NOT NULL, place INTEGER NOT NULL, unit {text} NOT NULL, prompt {text} NOT NULL,
        how {text} NOT NULL, score DOUBLE PRECISION, first DOUBLE PRECISION,
        second DOUBLE PRECISION, length DOUBLE PRECISION, PRIMARY KEY (run, place))""",
    """CREATE TABLE replay_calls (
        run {text} NOT NULL, place INTEGER NOT NULL, step {text} NOT NULL, state {text} NOT NULL,
        attempts INTEGER NOT NULL, nanos BIGINT NOT NULL, tokens BIGINT NOT NULL,
        prompt_tokens BIGINT NOT NULL, completion_tokens BIGINT NOT NULL,
        ms DOUBLE PRECISION NOT NULL, status INTEGER NOT NULL, backend {text} NOT NULL,
        text {text} NOT NULL, verdict {text} NOT NULL, passed SMALLINT, cut SMALLINT NOT NULL,
        error {text} NOT NULL, PRIMARY KEY (run, place, step))""",
    """CREATE TABLE replay_votes (
        run {text} NOT NULL, place INTEGER NOT NULL, voter {text} NOT NULL,
        score DOUBLE PRECISION NOT NULL, time DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (run, place, voter))""",
)
_PROMPTS: Final = (
    """CREATE TABLE prompt_texts (
        prompt {text} NOT NULL, version {text} NOT NULL, digest {text} NOT NULL,
        content {text} NOT NULL, first_seen DOUBLE PRECISION NOT NULL,
        last_seen DOUBLE PRECISION NOT NULL, PRIMARY KEY (prompt, version, digest))""",
)
_HOLDS: Final = (
    """CREATE TABLE backend_holds (
        name {text} PRIMARY KEY, state {text} NOT NULL, reason {text} NOT NULL,
        held_by {text} NOT NULL, since DOUBLE PRECISION NOT NULL, held_until DOUBLE PRECISION,
        seen DOUBLE PRECISION NOT NULL)""",
)
_EVENTS: Final = (
    """CREATE TABLE gateway_events (
        number BIGINT NOT NULL, gateway {text} NOT NULL, time DOUBLE PRECISION NOT NULL,
        kind {text} NOT NULL, model {text} NOT NULL, backend {text} NOT NULL,
        body {text} NOT NULL, PRIMARY KEY (number, gateway))""",
    """CREATE TABLE gateway_reports (
        gateway {text} PRIMARY KEY, seen DOUBLE PRECISION NOT NULL, body {text} NOT NULL)""",
    """CREATE TABLE gateway_problems (
        gateway {text} PRIMARY KEY, seen DOUBLE PRECISION NOT NULL, body {text} NOT NULL)""",
)
_Steps = Sequence[Sequence[str]]
MIGRATIONS: Final[_Steps] = (
    (
        *_RECORDS,
        *_EXPERIMENTS,
        *_RESPONSES,
        *_ISSUED_KEYS,
        *_BUDGETS,
        *_USAGE,
        *_TRAFFIC,
        *_ADMINISTRATION,
        *_PAYLOADS,
        *_REPLAYS,
        *_PROMPTS,
        *_HOLDS,
        *_EVENTS,
    ),
)
"""Entry n migrates version n to n + 1; a released migration never changes."""

VERSION: Final = "SELECT * FROM schema_version"
"""One row: the version, and the digest of the statements that led to it.

Databases of unreleased versions have numbers up to 22, and those before this one no digest.
"""


MOVED: Final = " moved to "
COPY: Final = " copy of "
"""Marks in the place of the digest, after it and before the name of another database: these tables
are closed, because another database continues them, or because they are not complete."""


def check_version(found: Sequence[object], where: str, steps: _Steps = MIGRATIONS) -> int:
    """Return the version of a database.

    found: its row of VERSION. where: names the database.

    Raises InvalidConfig if another program has created the tables, be it newer or unreleased.
    """
    match found:
        case [int(), str(mark)] if MOVED in mark:
            problem = f"has moved to {mark.partition(MOVED)[2]}"
            remedy = "name that in store.url, and this one in store.moved_from"
        case [int(), str(mark)] if COPY in mark:
            problem = f"is an unfinished copy of {mark.partition(COPY)[2]}"
            remedy = "finish it with `strowger store copy` and --switch or --open"
        case [int(version), str(digest)] if version > len(steps):
            problem = f"has schema version {version}, this program supports up to {len(steps)}"
            remedy = "use a newer strowger, or another database"
        case [int(version), str(digest)] if digest == digest_of(steps[:version]):
            return version
        case [int(version), *_]:
            problem = f"has the tables of an unreleased strowger (schema version {version})"
            remedy = _REMEDY
        case _:
            problem, remedy = "has a table schema_version of another program", _REMEDY
    raise InvalidConfig((f"store.url: {where} {problem}; {remedy}",))


_REMEDY: Final = (
    "this one cannot read them. Move the database away or name another one in store.url, and start "
    "with an empty one; to keep the records, first run `strowger records export` with the strowger "
    "that wrote them"
)


def fenced(driver: Driver) -> Callable[[Session], None]:
    """Return a function that raises StoreUnavailable if the tables were closed by a mark.

    So a gateway that has opened them before does not write either, and its records wait.
    """

    def check(session: Session) -> None:
        for (mark,) in session.rows(tuple[str], driver.fence):
            if MOVED in mark or COPY in mark:
                try:
                    check_version((0, mark), driver.where)
                except InvalidConfig as exc:
                    closed = StoreUnavailable(exc.problems[0].removeprefix("store.url: "))
                    closed.fault = "read_only"
                    raise closed from exc

    return check


def digest_of(steps: _Steps) -> str:
    """Return a checksum of the statements, in hexadecimal.

    CRC-32, because hashlib would load OpenSSL into the process that imports records.
    """
    return f"{crc32(msgspec.json.encode(steps)):08x}"


def migration(driver: Driver, steps: _Steps = MIGRATIONS) -> Callable[[Session], None]:
    """Return a function that creates or migrates the tables of a driver's database.

    The function raises InvalidConfig if another program has created them, see `check_version`.
    """

    def migrate(session: Session) -> None:
        session.run(
            "CREATE TABLE IF NOT EXISTS schema_version"
            f" (version INTEGER NOT NULL, digest {driver.text} NOT NULL)"
        )
        found = session.rows(tuple[object, ...], VERSION)
        version = check_version(found[0], driver.where, steps) if found else 0
        if version == len(steps):
            return
        for step in steps[version:]:
            for statement in step:
                session.run(statement.format(text=driver.text))
        session.run("DELETE FROM schema_version")
        session.run("INSERT INTO schema_version VALUES (?, ?)", len(steps), digest_of(steps))

    return migrate
