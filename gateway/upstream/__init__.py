"""The wire and what speaks over it: one protocol of two verbs, `generate` and `embed`."""
