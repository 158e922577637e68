"""The parts of the gateway, listed once. A part may use the sides of those before it."""

from typing import Final

from strowger_gateway.gateway.backends.replicas.part import ReplicasPart
from strowger_gateway.gateway.content.cache.part import CachePart
from strowger_gateway.gateway.content.guardrails.part import GuardrailsPart
from strowger_gateway.gateway.content.stored_responses.part import StoredResponsesPart
from strowger_gateway.gateway.coordination.part import CoordinationPart
from strowger_gateway.gateway.experiments.mirror.part import MirrorsPart
from strowger_gateway.gateway.experiments.part import ExperimentsPart
from strowger_gateway.gateway.governance.access.part import WrongKeysPart
from strowger_gateway.gateway.governance.budgets.part import BudgetsPart
from strowger_gateway.gateway.governance.end_users.part import EndUsersPart
from strowger_gateway.gateway.governance.identities.part import IdentitiesPart
from strowger_gateway.gateway.governance.issued_keys.part import IssuedKeysPart
from strowger_gateway.gateway.governance.limits.part import LimitsPart
from strowger_gateway.gateway.governance.reservations.part import ReservationsPart
from strowger_gateway.gateway.governance.sessions.part import SessionsPart
from strowger_gateway.gateway.observability.payloads.part import PayloadsPart
from strowger_gateway.gateway.observability.recording.part import AuditPart
from strowger_gateway.gateway.observability.tracing.part import TracingPart
from strowger_gateway.gateway.parts.part import Part
from strowger_gateway.gateway.routing.backend_events.part import BackendEventsPart
from strowger_gateway.gateway.routing.health_checks.part import HealthChecksPart
from strowger_gateway.gateway.server.tls.part import ListenerTlsPart

PARTS: Final[tuple[Part, ...]] = (
    ListenerTlsPart(),
    CoordinationPart(),
    AuditPart(),
    SessionsPart(),
    WrongKeysPart(),
    IssuedKeysPart(),
    LimitsPart(),
    BudgetsPart(),
    EndUsersPart(),
    IdentitiesPart(),
    ReplicasPart(),
    BackendEventsPart(),
    HealthChecksPart(),
    ExperimentsPart(),
    StoredResponsesPart(),
    ReservationsPart(),
    TracingPart(),
    MirrorsPart(),
    PayloadsPart(),
    GuardrailsPart(),
    CachePart(),
)
