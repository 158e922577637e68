"""Check sealing keys; warn of stored responses that others would not expect."""

from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.responses import SHORTEST_SEALING_KEY
from strowger_gateway.gateway.config.schema_store import SQLITE


def check_responses(config: Config, problems: Problems) -> None:
    for place, key in enumerate(config.responses.sealing_keys):
        if len(key.reveal()) < SHORTEST_SEALING_KEY:
            problems.add(
                ("responses", "sealing_keys", place),
                f"must have at least {SHORTEST_SEALING_KEY} characters; "
                'python -c "import secrets; print(secrets.token_urlsafe(32))" makes one',
            )
    if config.responses.store == "off" or problems.under(("responses",)):
        return
    store = config.store
    if store.redis_url is not None and store.url.reveal().startswith(SQLITE):
        problems.warn(
            ("responses", "store"),
            "gateways that share store.redis_url have an SQLite file each, so none can continue "
            "another's responses; several gateways need a store.url of PostgreSQL",
        )
    if config.auth.mode == "none" and config.auth.allow_open:
        problems.warn(
            ("responses", "store"),
            "with auth.mode none all clients share their stored responses: each can read those "
            "that it has the id of; use mode: keys",
        )
