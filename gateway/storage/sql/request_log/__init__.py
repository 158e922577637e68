"""The recorded requests as operators search them: filters, pages, totals, and what is new."""
