"""Telemetry of the traffic: access log, metrics and time series."""
