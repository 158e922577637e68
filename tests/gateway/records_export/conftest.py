"""A store on each database."""

from tests.gateway.store.conftest import pgbouncer, store, url

__all__ = ["pgbouncer", "store", "url"]
