"""Recording of requests: workers write rows to a spool, and an importer moves them to the store."""
