"""The tables, as the migrations that create them; a database records which ones it has had.

Texts sort by code point in either database. Reports read `experiment_units`: one row per unit,
epoch, variant and metric. See docs/operations.md.
"""

from collections.abc import Callable
from itertools import pairwise

from gateway.audit.chain import NO_HASH
from gateway.store.database import Session
from schemas.errors import InvalidConfig

_FIRST = (
    """CREATE TABLE requests (
        request_id {text} PRIMARY KEY, time DOUBLE PRECISION NOT NULL, status INTEGER NOT NULL,
        ms DOUBLE PRECISION NOT NULL, key_name {text} NOT NULL, surface {text} NOT NULL,
        task {text} NOT NULL, model {text} NOT NULL, route {text} NOT NULL,
        backend {text} NOT NULL, stream SMALLINT NOT NULL, error {text} NOT NULL,
        ttft_ms DOUBLE PRECISION, prompt_tokens BIGINT, completion_tokens BIGINT,
        cost_usd DOUBLE PRECISION, experiment {text} NOT NULL, epoch INTEGER NOT NULL,
        variant {text} NOT NULL, unit {text} NOT NULL, fallback SMALLINT NOT NULL)""",
    "CREATE INDEX requests_time ON requests (time)",
    """CREATE TABLE attempts (
        request_id {text} NOT NULL, number INTEGER NOT NULL, time DOUBLE PRECISION NOT NULL,
        backend {text} NOT NULL, role {text} NOT NULL, outcome {text} NOT NULL,
        ms DOUBLE PRECISION NOT NULL, source {text} NOT NULL, prompt_tokens BIGINT,
        completion_tokens BIGINT, cached_tokens BIGINT, cache_write_tokens BIGINT,
        reasoning_tokens BIGINT, cost_usd DOUBLE PRECISION, day INTEGER NOT NULL,
        PRIMARY KEY (request_id, number))""",
    "CREATE INDEX attempts_time ON attempts (time)",
    """CREATE TABLE feedback (
        request_id {text} NOT NULL, metric {text} NOT NULL, key_name {text} NOT NULL,
        time DOUBLE PRECISION NOT NULL, value DOUBLE PRECISION, comment {text} NOT NULL,
        boolean SMALLINT NOT NULL, joined SMALLINT NOT NULL DEFAULT 0,
        experiment {text} NOT NULL DEFAULT '', epoch INTEGER NOT NULL DEFAULT 0,
        variant {text} NOT NULL DEFAULT '', unit {text} NOT NULL DEFAULT '',
        PRIMARY KEY (request_id, metric, key_name))""",
    "CREATE INDEX feedback_place ON feedback (experiment, metric, unit, epoch, variant)",
    "CREATE INDEX feedback_time ON feedback (time)",
    """CREATE TABLE experiment_epochs (
        experiment {text} NOT NULL, number INTEGER NOT NULL, fingerprint {text} NOT NULL,
        shares {text} NOT NULL, began DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (experiment, number))""",
    """CREATE TABLE experiment_pauses (
        experiment {text} PRIMARY KEY, reason {text} NOT NULL, at DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE experiment_units (
        experiment {text} NOT NULL, metric {text} NOT NULL, unit {text} NOT NULL,
        epoch INTEGER NOT NULL, variant {text} NOT NULL, count BIGINT NOT NULL,
        total DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (experiment, metric, unit, epoch, variant))""",
    """CREATE TABLE experiment_first (
        experiment {text} NOT NULL, unit {text} NOT NULL, epoch INTEGER NOT NULL,
        variant {text} NOT NULL, PRIMARY KEY (experiment, unit))""",
    """CREATE TABLE experiment_requests (
        experiment {text} NOT NULL, epoch INTEGER NOT NULL, variant {text} NOT NULL,
        requests BIGINT NOT NULL, fallbacks BIGINT NOT NULL,
        PRIMARY KEY (experiment, epoch, variant))""",
    """CREATE TABLE spool_files (
        file {text} PRIMARY KEY, position BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL)""",
)
_COURSES = (
    """CREATE TABLE experiment_courses (
        experiment {text} NOT NULL, metric {text} NOT NULL, time DOUBLE PRECISION NOT NULL,
        intervals {text} NOT NULL, PRIMARY KEY (experiment, metric, time))""",
)
_TURNS = ("CREATE TABLE turns (name {text} PRIMARY KEY, at DOUBLE PRECISION NOT NULL)",)
_FORMER = (
    """CREATE TABLE experiment_definitions (
        experiment {text} PRIMARY KEY, definition {text} NOT NULL,
        time DOUBLE PRECISION NOT NULL)""",
    "ALTER TABLE experiment_requests ADD COLUMN last DOUBLE PRECISION NOT NULL DEFAULT 0",
)
_HOUR_WRITES = ("ALTER TABLE attempts ADD COLUMN cache_write_1h_tokens BIGINT",)
_CAPPED = ("ALTER TABLE feedback ADD COLUMN given DOUBLE PRECISION",)
_DIGITS = "0123456789abcdef"
_PIECES = (
    "unit < '1'",
    *(f"unit >= '{one}' AND unit < '{after}'" for one, after in pairwise(_DIGITS[1:])),
    "unit >= 'f'",
)
"""Ranges of the units, which are hexadecimal: one statement over millions would take too long."""
_VOTED = """INSERT INTO experiment_units (experiment, metric, unit, epoch, variant, count, total)
    SELECT e.experiment, 'vote_rate', e.unit, e.epoch, e.variant, e.count, COALESCE(v.voted, 0)
    FROM experiment_units e LEFT JOIN (
        SELECT experiment, unit, epoch, variant, COUNT(DISTINCT request_id) AS voted FROM feedback
        WHERE joined = 1 AND value IS NOT NULL AND RANGE GROUP BY experiment, unit, epoch, variant
    ) v ON v.experiment = e.experiment AND v.unit = e.unit AND v.epoch = e.epoch
    AND v.variant = e.variant WHERE e.metric = 'error' AND e.RANGE"""
_VOTE_RATE = (
    # Feedback could use these names before the gateway measured the metrics itself.
    "UPDATE feedback SET metric = metric || '_votes' WHERE metric IN ('fallback', 'vote_rate')",
    """UPDATE experiment_units SET metric = metric || '_votes'
        WHERE metric IN ('fallback', 'vote_rate')""",
    "CREATE INDEX feedback_unit ON feedback (experiment, unit, epoch, variant)",
    *(
        _VOTED.replace("e.RANGE", piece.replace("unit", "e.unit")).replace("RANGE", piece)
        for piece in _PIECES
    ),
)
_RESPONSES = (
    """CREATE TABLE stored_responses (
        id {text} PRIMARY KEY, key_name {text} NOT NULL, time DOUBLE PRECISION NOT NULL,
        previous {text} NOT NULL, root {text} NOT NULL, input {text} NOT NULL,
        output {text} NOT NULL, resource {text} NOT NULL, item_bytes BIGINT NOT NULL,
        bytes BIGINT NOT NULL)""",
    "CREATE INDEX stored_responses_key ON stored_responses (key_name, root, time, bytes)",
    "CREATE INDEX stored_responses_time ON stored_responses (time)",
    """CREATE TABLE stored_response_keys (
        key_name {text} PRIMARY KEY, bytes BIGINT NOT NULL)""",
)
_ISSUED_KEYS = (
    """CREATE TABLE issued_keys (
        name {text} PRIMARY KEY, team {text} NOT NULL, end_user {text} NOT NULL,
        models {text} NOT NULL, max_priority INTEGER NOT NULL, tags {text} NOT NULL,
        expires DOUBLE PRECISION, not_before DOUBLE PRECISION, allowed_networks {text} NOT NULL,
        disabled SMALLINT NOT NULL, created_by {text} NOT NULL, created DOUBLE PRECISION NOT NULL,
        revoked DOUBLE PRECISION, version BIGINT NOT NULL)""",
    """CREATE TABLE issued_key_secrets (
        digest {text} PRIMARY KEY, key_name {text} NOT NULL, place INTEGER NOT NULL,
        last4 {text} NOT NULL, created DOUBLE PRECISION NOT NULL, until DOUBLE PRECISION)""",
    "CREATE INDEX issued_key_secrets_key ON issued_key_secrets (key_name)",
    "CREATE TABLE issued_key_uses (key_name {text} PRIMARY KEY, at DOUBLE PRECISION NOT NULL)",
    """CREATE TABLE issued_key_readers (
        id {text} PRIMARY KEY, host {text} NOT NULL, pid BIGINT NOT NULL,
        processes INTEGER NOT NULL, version BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL)""",
    "CREATE TABLE issued_key_list (version BIGINT NOT NULL)",
    "INSERT INTO issued_key_list (version) VALUES (0)",
)
_PAYER = """key_name {text} NOT NULL, team {text} NOT NULL, end_user {text} NOT NULL,
        route {text} NOT NULL, model {text} NOT NULL, nanos BIGINT NOT NULL,
        tokens BIGINT NOT NULL, unpriced BIGINT NOT NULL"""
_BUDGETS = (
    *(
        f"ALTER TABLE requests ADD COLUMN {name} {{text}} NOT NULL DEFAULT ''"
        for name in ("team", "end_user", "budget")
    ),
    f"""CREATE TABLE spend (slot BIGINT NOT NULL, {_PAYER},
        PRIMARY KEY (slot, key_name, team, end_user, route, model))""",
    f"""CREATE TABLE spend_changes (
        version BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL, slot BIGINT NOT NULL, {_PAYER})""",
    "CREATE INDEX spend_changes_version ON spend_changes (version)",
    "CREATE TABLE spend_version (version BIGINT NOT NULL)",
    "INSERT INTO spend_version (version) VALUES (0)",
    """CREATE TABLE spend_writers (
        writer {text} PRIMARY KEY, batch BIGINT NOT NULL, time DOUBLE PRECISION NOT NULL)""",
    "CREATE TABLE budget_holders (holder {text} PRIMARY KEY, beat BIGINT NOT NULL)",
    """CREATE TABLE budget_holds (
        budget {text} NOT NULL, subject {text} NOT NULL, holder {text} NOT NULL,
        amount BIGINT NOT NULL, PRIMARY KEY (budget, subject, holder))""",
)
_USAGE_PAYER = "key_name, team, end_user, tags, route, backend, role"
_USAGE_COUNTS = """attempts, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens,
    reasoning_tokens, nanos, unpriced"""
_MOST_TOKENS, _MOST_USD = 10**12, 10**6


def _sum_of(column: str, most: int, times: int = 1) -> str:
    """The sum of a column whose values count at most so much each, so that it has 64 bits."""
    value = (
        f"CASE WHEN {column} IS NULL THEN 0 WHEN {column} > {most} THEN {most} ELSE {column} END"
    )
    return f"CAST(COALESCE(SUM(CAST(ROUND(({value}) * {times}) AS BIGINT)), 0) AS BIGINT)"


_SUMMED = f"""INSERT INTO usage_sums (slot, payer, {_USAGE_COUNTS})
    SELECT CAST(ROUND((a.time + 0.0005) / 900 - 0.5) AS BIGINT) * 900, p.id, COUNT(*),
    {_sum_of("a.prompt_tokens", _MOST_TOKENS)}, {_sum_of("a.completion_tokens", _MOST_TOKENS)},
    {_sum_of("a.cached_tokens", _MOST_TOKENS)}, {_sum_of("a.cache_write_tokens", _MOST_TOKENS)},
    {_sum_of("a.reasoning_tokens", _MOST_TOKENS)}, {_sum_of("a.cost_usd", _MOST_USD, 10**9)},
    SUM(CASE WHEN a.cost_usd IS NULL AND a.source <> '' THEN 1 ELSE 0 END)
    FROM attempts a JOIN requests r ON r.request_id = a.request_id JOIN usage_payers p
    ON p.key_name = r.key_name AND p.team = r.team AND p.end_user = r.end_user AND p.tags = '[]'
    AND p.route = r.route AND p.backend = a.backend AND p.role = a.role
    WHERE a.day - a.day / PIECES * PIECES = PIECE GROUP BY 1, 2"""
_DAY_PIECES = 8
"""Statements that sum up existing rows, each a part of the days, so that none takes too long."""
_USAGE = (
    """CREATE TABLE usage_payers (
        id BIGINT PRIMARY KEY, key_name {text} NOT NULL, team {text} NOT NULL,
        end_user {text} NOT NULL, tags {text} NOT NULL, route {text} NOT NULL,
        backend {text} NOT NULL, role {text} NOT NULL)""",
    f"CREATE UNIQUE INDEX usage_payers_all ON usage_payers ({_USAGE_PAYER})",
    f"""CREATE TABLE usage_sums (
        slot BIGINT NOT NULL, payer BIGINT NOT NULL,
        {", ".join(f"{name.strip()} BIGINT NOT NULL" for name in _USAGE_COUNTS.split(","))},
        PRIMARY KEY (slot, payer))""",
    f"""INSERT INTO usage_payers (id, {_USAGE_PAYER})
        SELECT ROW_NUMBER() OVER (ORDER BY {_USAGE_PAYER}), {_USAGE_PAYER} FROM (
        SELECT DISTINCT r.key_name, r.team, r.end_user, '[]' AS tags, r.route, a.backend, a.role
        FROM attempts a JOIN requests r ON r.request_id = a.request_id) found""",
    *(
        _SUMMED.replace("PIECES", str(_DAY_PIECES)).replace("PIECE", str(piece))
        for piece in range(_DAY_PIECES)
    ),
)
_ADMIN_SESSIONS = (
    """CREATE TABLE admin_sessions (
        id {text} PRIMARY KEY, kind {text} NOT NULL, subject {text} NOT NULL, name {text} NOT NULL,
        role {text} NOT NULL, teams {text} NOT NULL, address {text} NOT NULL,
        since DOUBLE PRECISION NOT NULL, seen DOUBLE PRECISION NOT NULL,
        expires DOUBLE PRECISION NOT NULL)""",
    """CREATE TABLE admin_session_origins (
        origin {text} PRIMARY KEY, until DOUBLE PRECISION NOT NULL)""",
)
_AUDIT = (
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
_ALERTS = (
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
_KEY_RULES = tuple(
    f"ALTER TABLE issued_keys ADD COLUMN {name} {{text}} NOT NULL DEFAULT '[]'"
    for name in ("limits", "budgets")
)
_CACHE = ("ALTER TABLE requests ADD COLUMN cache {text} NOT NULL DEFAULT ''",)
_BATCHES = (
    *(
        f"ALTER TABLE {name} ADD COLUMN batch BIGINT NOT NULL DEFAULT 0"
        for name in ("requests", "attempts")
    ),
    "CREATE INDEX requests_batch ON requests (batch, request_id) WHERE batch > 0",
    "CREATE INDEX attempts_batch ON attempts (batch, request_id, number) WHERE batch > 0",
    "CREATE TABLE import_batch (number BIGINT NOT NULL, store {text} NOT NULL)",
    "INSERT INTO import_batch (number, store) VALUES (0, '')",
)
_PAYLOADS = (
    """CREATE TABLE payloads (
        request_id {text} PRIMARY KEY, time DOUBLE PRECISION NOT NULL, key_name {text} NOT NULL,
        team {text} NOT NULL, model {text} NOT NULL, status INTEGER NOT NULL,
        error {text} NOT NULL, bytes BIGINT NOT NULL, record {text} NOT NULL)""",
    "CREATE INDEX payloads_time ON payloads (time)",
    "CREATE INDEX payloads_key ON payloads (key_name, time)",
    "CREATE TABLE payload_days (day BIGINT PRIMARY KEY, bytes BIGINT NOT NULL)",
    """CREATE TABLE payload_key_days (
        day BIGINT NOT NULL, key_name {text} NOT NULL, bytes BIGINT NOT NULL,
        PRIMARY KEY (day, key_name))""",
)
_SPENT = "nanos, tokens, unpriced"
_END_USERS = (
    # `end_user` is the user of a key; `client_user` is whom its client names in a request.
    "ALTER TABLE requests ADD COLUMN client_user {text} NOT NULL DEFAULT ''",
    "ALTER TABLE spend_changes ADD COLUMN client_user {text} NOT NULL DEFAULT ''",
    f"""CREATE TABLE spend_of_users (slot BIGINT NOT NULL, client_user {{text}} NOT NULL, {_PAYER},
        PRIMARY KEY (slot, key_name, team, end_user, route, model, client_user))""",
    f"""INSERT INTO spend_of_users
        (slot, client_user, key_name, team, end_user, route, model, {_SPENT})
        SELECT slot, '', key_name, team, end_user, route, model, {_SPENT} FROM spend""",
    "DROP TABLE spend",
    "ALTER TABLE spend_of_users RENAME TO spend",
)
_SEALING_KEYS = (
    "CREATE TABLE sealing_keys (secret {text} PRIMARY KEY, created DOUBLE PRECISION NOT NULL)",
)
_CHAINS = (
    """CREATE INDEX stored_responses_chain
        ON stored_responses (id, key_name, previous, item_bytes, bytes)""",
)
_ESTIMATES = ("ALTER TABLE usage_sums ADD COLUMN estimated_tokens BIGINT NOT NULL DEFAULT 0",)
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _FIRST,
    _COURSES,
    _TURNS,
    _FORMER,
    _HOUR_WRITES,
    _CAPPED,
    _VOTE_RATE,
    _RESPONSES,
    _ISSUED_KEYS,
    _BUDGETS,
    _USAGE,
    _ADMIN_SESSIONS,
    _AUDIT,
    _ALERTS,
    _KEY_RULES,
    _CACHE,
    _BATCHES,
    _PAYLOADS,
    _END_USERS,
    _SEALING_KEYS,
    _CHAINS,
    _ESTIMATES,
)
"""Entry n migrates version n to n + 1; a released migration never changes."""


VERSION = "SELECT version FROM schema_version"


def check_version(version: int, known: int = len(MIGRATIONS)) -> None:
    """Raises InvalidConfig if a newer version has created the tables."""
    if version > known:
        raise InvalidConfig(
            (
                f"store.url: the database has schema version {version}, this program supports up "
                f"to {known}; use a newer strowger, or another database",
            )
        )


def migration(
    text: str, steps: tuple[tuple[str, ...], ...] = MIGRATIONS
) -> Callable[[Session], None]:
    """Return a function that migrates a database. text: its type of texts.

    The function raises InvalidConfig if a newer version has created the tables.
    """

    def migrate(session: Session) -> None:
        session.run("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
        found = session.rows(tuple[int], VERSION)
        version = found[0][0] if found else 0
        check_version(version, len(steps))
        for step in steps[version:]:
            for statement in step:
                session.run(statement.format(text=text))
        if not found:
            session.run("INSERT INTO schema_version (version) VALUES (?)", len(steps))
        elif version < len(steps):
            session.run("UPDATE schema_version SET version = ?", len(steps))

    return migrate
