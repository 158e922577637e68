"""Send payload records to the OpenTelemetry collector as log records."""

from strowger_gateway.gateway.config.schema.telemetry import Otlp
from strowger_gateway.gateway.observability.otlp.collector import CollectorClient
from strowger_gateway.gateway.observability.otlp.counts import ExportCounts
from strowger_gateway.gateway.observability.otlp.exporter import Exporter
from strowger_gateway.gateway.observability.otlp.resource import own_resource
from strowger_gateway.gateway.observability.payloads.counts import PayloadCounts
from strowger_gateway.gateway.observability.payloads.log_record import LOGS
from strowger_gateway.gateway.platform.background import OnCrash

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"


class OtlpOutput:
    """An exporter of log records, on the event loop that it was made in."""

    def __init__(self, otlp: Otlp, counts: PayloadCounts, crashed: OnCrash) -> None:
        self._counts = counts
        self._exported = ExportCounts("log_records")
        self._client = CollectorClient(otlp)
        resource = own_resource(SCHEMA_URL)
        self._exporter = Exporter(LOGS, self._client, resource, self._exported, crashed)

    def send(self, records: list[bytes]) -> None:
        """Queue encoded log records; those that do not fit are counted as dropped."""
        self._exporter.add(records)
        self.count()

    def count(self) -> None:
        """Move the exporter's counts to those of payloads."""
        exported, counts = self._exported, self._counts
        counts.written += exported.sent
        counts.failed += exported.rejected
        counts.dropped += exported.dropped
        exported.sent = exported.rejected = exported.dropped = 0

    async def close_exporter(self, within_s: float) -> None:
        """Send what is queued, for at most this many seconds."""
        try:
            await self._exporter.close(within_s)
        finally:
            self.count()
            await self._client.close()
