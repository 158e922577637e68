"""Which circuits to open on the failures that several gateways have seen, each too few of them.

A gateway publishes its outcomes at backends that fail there (`report`) and adds up those of all
(`update`). Once two gateways have failures at a backend and a quarter of the needed evidence is
there, every gateway also publishes its successes, because without these a backend that fails a few
requests would look dead. The circuit opens when all of them do and the evidence suffices.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.coordination.breaker_messages import NewOutcomes
from strowger_gateway.gateway.coordination.evidence_sum import LAG_S, EvidenceSum, Reported
from strowger_gateway.gateway.routing.resilience.breaker_per_model import MOST
from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot

MOST_WATCHED, MOST_REPORTED = 128, 256
"""Bounds of a notice: backends that are watched because they fail elsewhere, and all of them."""

SETTLE_S = 0.5
"""Time for this gateway's own processes to report a backend that is watched."""

OPENED_S = 2.0
"""Time after opening a circuit during which this gateway still reports what opened it, so that
those that poll later come to the same result."""

OWN = b""
"""This gateway, among those that report."""

_NEVER = float("-inf")


class _Own(Struct, kw_only=True):
    """This gateway's outcomes at one backend. failed_at: when it last learned of a failure."""

    failed: int = 0
    succeeded: int = 0
    recent: int = 0
    failed_at: float = _NEVER


class _Suspect(Struct, kw_only=True):
    """One backend. changed_at: when its circuit last opened or closed, as of the last update;
    is_open: whether it was open then.

    suspicious_until: see Reported.suspects. watched_at: since when it has been watched.
    """

    evidence: EvidenceSum
    changed_at: float = _NEVER
    is_open: bool = False
    suspicious_until: float = _NEVER
    watched_at: float | None = None


class EvidenceRules:
    """What evidence is judged by.

    rule: of a breaker; `None` if it is not here, or not shared. circuit: what is known of it.
    expected: the other gateways that have the backend and are alive.
    """

    def __init__(
        self,
        rule: Callable[[str], BreakerRule | None],
        circuit: Callable[[str], BreakerSnapshot | None],
        expected: Callable[[str], Collection[bytes]],
    ) -> None:
        self.rule = rule
        self.circuit = circuit
        self.expected = expected


class SharedEvidence:
    """The evidence of all gateways, in one of them; by the keys of breakers.

    watched: of which breakers all processes are to report outcomes, and since when.
    """

    def __init__(self, rules: EvidenceRules) -> None:
        self._rules = rules
        self._own: dict[str, _Own] = {}
        self._suspects: dict[str, _Suspect] = {}
        self.watched: dict[str, float] = {}

    def count(self, outcomes: Mapping[str, NewOutcomes], now: float) -> None:
        """Add outcomes of this gateway's processes."""
        for key, one in outcomes.items():
            if self._rules.rule(key) is not None:
                own = self._own.setdefault(key, _Own())
                own.failed += one.failed
                own.succeeded += one.succeeded
                own.recent += one.recent
                if one.failed:
                    own.failed_at = now

    def report(self, now: float) -> dict[str, Reported]:
        """Return what to publish: what is watched, and what has failed here within the window."""
        for key in tuple(self._own):
            rule = self._rules.rule(key)
            if rule is None or (
                key not in self.watched and now - self._own[key].failed_at > rule.window_s
            ):
                del self._own[key]
        keys = [key for key in self.watched if key in self._own]
        others = [key for key in self._own.keys() - keys if not self._open_for_all(key)]
        others.sort(key=lambda key: (-self._own[key].failed, key))
        return {key: self._reported(key, now) for key in (keys + others)[:MOST_REPORTED]}

    def update(
        self, peers: Mapping[bytes, Mapping[str, Reported]], now: float
    ) -> dict[str, EvidenceSum]:
        """Return the circuits to open. peers: what each live gateway publishes."""
        by_key: dict[str, dict[bytes, Reported]] = {key: {} for key in self._suspects}
        for name, reports in peers.items():
            for key, one in reports.items():
                by_key.setdefault(key, {})[name] = one
        for key in self._own:
            by_key.setdefault(key, {})[OWN] = self._reported(key, now)
        for key, reports in by_key.items():
            self._read(key, reports, now)
        self._watch(by_key, now)
        return dict(self._sufficient(by_key, now))

    def _read(self, key: str, reports: dict[bytes, Reported], now: float) -> None:
        rule = self._rules.rule(key)
        suspect = self._suspects.get(key)
        if rule is None or not (reports or (suspect and suspect.watched_at is not None)):
            self._suspects.pop(key, None)
            return
        if suspect is None or suspect.evidence.rule is not rule:
            if len(self._suspects) >= MOST:
                return
            suspect = self._suspects[key] = _Suspect(evidence=EvidenceSum(rule))
        circuit = self._rules.circuit(key)
        changed_at, is_open = _NEVER, False
        if circuit is not None:
            changed_at, is_open = circuit.at, circuit.open_until is not None
        if changed_at > suspect.changed_at and not is_open:
            self._own.pop(key, None)  # it works again
            reports.pop(OWN, None)
        if is_open or changed_at > suspect.changed_at:
            suspect.evidence.start_over(reports)
            if not is_open:
                suspect.suspicious_until = _NEVER
            elif not suspect.is_open:
                suspect.suspicious_until = now + OPENED_S
        else:
            suspect.evidence.read(reports, now)
        suspect.changed_at, suspect.is_open = changed_at, is_open
        if suspect.evidence.suspicious:
            suspect.suspicious_until = now + rule.window_s

    def _watch(self, by_key: Mapping[str, Mapping[bytes, Reported]], now: float) -> None:
        """Choose what to watch: what this gateway suspects, and what two others suspect."""
        wanted = [
            key
            for key, suspect in self._suspects.items()
            if now < suspect.suspicious_until
            or sum(one.suspects for name, one in by_key[key].items() if name != OWN) > 1
        ]
        wanted.sort(key=lambda key: (-self._suspects[key].evidence.value, key))
        chosen = set(wanted[:MOST_WATCHED])
        watched: dict[str, float] = {}
        for key, suspect in self._suspects.items():
            if key not in chosen:
                suspect.watched_at = None
                continue
            if suspect.watched_at is None:
                suspect.watched_at = now
            since = suspect.evidence.since
            watched[key] = self.watched.get(key, now - LAG_S if since is None else since)
        self.watched = watched

    def _sufficient(
        self, by_key: Mapping[str, Mapping[bytes, Reported]], now: float
    ) -> Iterator[tuple[str, EvidenceSum]]:
        for key in self.watched:
            suspect = self._suspects[key]
            if (
                suspect.evidence.suffices
                and suspect.watched_at is not None
                and now - suspect.watched_at >= SETTLE_S
                and OWN in by_key[key]
                and all(name in by_key[key] for name in self._rules.expected(key))
            ):
                yield key, suspect.evidence

    def _reported(self, key: str, now: float) -> Reported:
        own, suspect = self._own[key], self._suspects.get(key)
        return Reported(
            failed=own.failed,
            succeeded=own.succeeded,
            recent=max(0, own.recent),
            suspects=suspect is not None and now < suspect.suspicious_until,
        )

    def _open_for_all(self, key: str) -> bool:
        """Whether all gateways have opened the circuit, so that evidence is not needed."""
        circuit = self._rules.circuit(key)
        return circuit is not None and circuit.open_until is not None and circuit.seen_by > 1
