"""Export to an OpenTelemetry collector: OTLP messages, bounded queues, retries, counts."""
