"""A store on each database."""

from tests.gateway.storage.sql.conftest import pgbouncer, store, url

__all__ = ["pgbouncer", "store", "url"]
