"""Experiments: assignment of units to variants, the statistics, and the service that runs them."""
