"""Backends that operators drain or disable: kept in the store, in effect in all gateways."""
