"""Export OpenTelemetry traces and metrics from the records of ended requests, over OTLP."""
