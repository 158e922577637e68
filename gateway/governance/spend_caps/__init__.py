"""How much a provider's backends may cost in a period: then other backends serve."""
