"""The indexes that the search reads, and why there is each.

A search reads one of them from the newest row that it wants backwards, and tests the other filters
on what it finds. So each filter that can be rare has an index by its value and the time, as the
column `ended`, which is `time` once more: if it were the same column, PostgreSQL would read the
index by time alone instead, whose rows are stored in its order, however rare the value is. Values
that most requests do not have are only in an index when they have them: an index of all requests
costs 20 to 60 bytes per row and some time of the importer, an empty value nothing. Filters that are
never rare have none. See docs/requests.md for what it takes.
"""

from typing import Final

FAILED: Final = "(status >= 400 AND status <> 499) OR (status < 400 AND error <> '')"
"""As `filters.is_failed`. Queries repeat it, so that a database knows that its index will do."""

INDEXES: Final = (
    # By time alone; it has by itself which answers were streamed.
    "CREATE INDEX requests_time ON requests (time, stream)",
    "CREATE INDEX requests_surface ON requests (surface, ended)",
    f"CREATE INDEX requests_failed ON requests (ended) WHERE {FAILED}",
    "CREATE INDEX requests_status ON requests (status, ended) WHERE status >= 400",
    "CREATE INDEX requests_error ON requests (error, ended) WHERE error <> ''",
    "CREATE INDEX requests_route ON requests (route, ended) WHERE route <> ''",
    # Names that clients use for a model: aliases, those of a wildcard, and unknown ones.
    "CREATE INDEX requests_model ON requests (model, ended) WHERE model <> route",
    "CREATE INDEX requests_backend ON requests (backend, ended) WHERE backend <> ''",
    "CREATE INDEX requests_key ON requests (key, ended) WHERE key <> ''",
    "CREATE INDEX requests_team ON requests (team, ended) WHERE team <> ''",
    "CREATE INDEX requests_client ON requests (client, ended) WHERE client <> ''",
    "CREATE INDEX requests_end_user ON requests (end_user, ended) WHERE end_user <> ''",
    "CREATE INDEX requests_experiment ON requests (experiment, ended) WHERE experiment <> ''",
    "CREATE INDEX requests_client_id ON requests (client_request_id) WHERE client_request_id <> ''",
    # Backends that were tried before the one that is in the request.
    "CREATE INDEX attempts_unserved ON attempts (backend, time, role, request_id)"
    " WHERE role <> 'served'",
)
