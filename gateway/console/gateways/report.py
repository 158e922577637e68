"""What a gateway reports of itself, and what is concluded from the reports of all."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

STALE_S: Final = 60.0
"""Silence after which a gateway counts as gone; it reports every 15 s."""

MOST_DIFFERENCES: Final = 200


class DownBackend(Struct, frozen=True, kw_only=True):
    """A backend that does not work or takes no requests, in the opinion of a gateway.

    state: refused, open, failing, cooldown, or held by an operator: draining, disabled.
    since: since when nothing succeeds, Unix seconds; `None`: nothing has failed.
    """

    model: str
    backend: str
    state: str
    since: float | None = None


class ProcessReport(Struct, frozen=True, kw_only=True, tag=True):
    """Of one serving process, to its leader. memory_bytes: resident. in_flight: requests."""

    memory_bytes: int
    in_flight: int
    down: tuple[DownBackend, ...] = ()


class GatewayReport(Struct, frozen=True, kw_only=True):
    """A gateway as it has last reported. Times are Unix seconds.

    name: host and process id of its leader. version: of the program. digest: of its configuration;
    rejected: the file on its disk was rejected since. workers: that serve; wanted: that should.
    memory_bytes: resident, of the leader and the workers. in_flight: requests.
    import_lag_s: how far the store is behind its records.
    settings: those that its file sets, without secrets, by path; empty if there are too many.
    down: backends that do not work or take no requests, as its processes know.
    """

    name: str
    host: str
    pid: int
    version: str
    started: float
    seen: float
    digest: str
    rejected: bool
    workers: int
    wanted: int
    memory_bytes: int
    in_flight: int
    import_lag_s: float
    settings: Mapping[str, str | None] = {}
    down: tuple[DownBackend, ...] = ()


class SeenGateway(Struct, frozen=True, kw_only=True):
    """A report as operators see it. responding: it has reported within the last minute.

    uptime_s: until its last report. itself: it is the one that answers.
    """

    name: str
    host: str
    pid: int
    version: str
    started: float
    seen: float
    uptime_s: float
    responding: bool
    itself: bool
    digest: str
    rejected: bool
    workers: int
    wanted: int
    memory_bytes: int
    in_flight: int
    import_lag_s: float
    down: tuple[DownBackend, ...] = ()


class SettingDifference(Struct, frozen=True, kw_only=True):
    """A setting that is not the same in all gateways that respond.

    values: by gateway; null: its file does not set it.
    """

    path: str
    values: Mapping[str, str | None]


def state_of(one: GatewayReport, itself: str, now: float) -> SeenGateway:
    """now: Unix seconds."""
    return SeenGateway(
        name=one.name,
        host=one.host,
        pid=one.pid,
        version=one.version,
        started=one.started,
        seen=one.seen,
        uptime_s=max(0.0, one.seen - one.started),
        responding=now - one.seen < STALE_S,
        itself=one.name == itself,
        digest=one.digest,
        rejected=one.rejected,
        workers=one.workers,
        wanted=one.wanted,
        memory_bytes=one.memory_bytes,
        in_flight=one.in_flight,
        import_lag_s=one.import_lag_s,
        down=one.down,
    )


def differences(reports: Iterable[GatewayReport]) -> Sequence[SettingDifference]:
    """Return what differs among gateways that have reported their settings; at most
    MOST_DIFFERENCES."""
    known = [one for one in reports if one.settings]
    paths = dict.fromkeys(path for one in known for path in one.settings)
    found: list[SettingDifference] = []
    for path in paths:
        values = {one.name: one.settings.get(path) for one in known}
        if len(set(values.values())) > 1:
            found.append(SettingDifference(path=path, values=values))
    return found[:MOST_DIFFERENCES]


encoder: Final = msgspec.json.Encoder()
decoder: Final = msgspec.json.Decoder(GatewayReport)
