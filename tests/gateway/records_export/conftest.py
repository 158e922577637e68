"""A store on each database."""

from tests.gateway.store.conftest import pgbouncer, postgres, store, url

__all__ = ["pgbouncer", "postgres", "store", "url"]
