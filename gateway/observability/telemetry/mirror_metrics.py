"""FastCounter of mirrored copies: what became of them, and how far their answers agree."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from strowger_gateway.gateway.observability.telemetry.mirror_log_entry import MirrorLogEntry

_LABELS = ("model", "backend")
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
ASPECTS = ("same_text", "same_tokens", "same_json", "same_calls", "same_finish")


class MirrorMetrics:
    """The label `backend` is the backend that receives the copies, as configured."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._copies = Counter(
            "strowger_mirror_copies",
            "Copies by outcome; the shed and those that the backend cannot express are not sent.",
            (*_LABELS, "outcome"),
            registry=registry,
        )
        self._compared = Counter(
            "strowger_mirror_compared",
            "Responses to copies that were compared with the real response, by aspect.",
            (*_LABELS, "aspect", "same"),
            registry=registry,
        )
        self._seconds = Histogram(
            "strowger_mirror_seconds",
            "Duration of copies, including failed ones.",
            _LABELS,
            buckets=_SECONDS,
            registry=registry,
        )

    def book(self, line: MirrorLogEntry) -> None:
        labels = (line.route, line.pattern or line.mirror)
        self._copies.labels(*labels, line.outcome).inc()
        if line.outcome != "shed" and not line.reason:
            self._seconds.labels(*labels).observe(line.mirror_ms / 1e3)
        if line.compared is None:
            return
        for aspect in ASPECTS:
            same: bool | None = getattr(line.compared, aspect)
            if same is not None:
                self._compared.labels(*labels, aspect, "yes" if same else "no").inc()
