"""A guardrail of the Strowger gateway that finds valid IBANs."""
