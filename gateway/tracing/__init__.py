"""Export OpenTelemetry traces: spans from the records of ended requests, sent over OTLP."""
