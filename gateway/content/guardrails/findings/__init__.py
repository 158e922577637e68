"""What guardrails have found in recorded requests: counts and the last of them, never the texts."""
