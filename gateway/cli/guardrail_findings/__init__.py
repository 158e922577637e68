"""`strowger guardrails`: what guardrails have found in recorded requests."""
