"""The parts of the gateway, one in a line. A part may use the sides of those before it.

Each is MODULE:CLASS.
"""

from importlib import import_module
from typing import Final

from strowger_gateway.gateway.parts.part import Part

_NAMES: Final = (
    "strowger_gateway.gateway.server.tls.part:ListenerTlsPart",
    "strowger_gateway.gateway.coordination.part:CoordinationPart",
    "strowger_gateway.gateway.observability.recording.part:AuditLogPart",
    "strowger_gateway.gateway.governance.sessions.part:SessionsPart",
    "strowger_gateway.gateway.governance.access.part:WrongKeysPart",
    "strowger_gateway.gateway.governance.issued_keys.part:IssuedKeysPart",
    "strowger_gateway.gateway.governance.limits.part:LimitsPart",
    "strowger_gateway.gateway.governance.budgets.part:BudgetsPart",
    "strowger_gateway.gateway.governance.end_users.part:EndUsersPart",
    "strowger_gateway.gateway.governance.attribution.part:AttributionPart",
    "strowger_gateway.gateway.governance.identities.part:IdentitiesPart",
    "strowger_gateway.gateway.governance.provider_keys.part:KeyPoolsPart",
    "strowger_gateway.gateway.backends.replicas.part:ReplicasPart",
    "strowger_gateway.gateway.routing.backend_events.part:BackendEventsPart",
    "strowger_gateway.gateway.routing.backend_holds.part:BackendHoldsPart",
    "strowger_gateway.gateway.routing.health_checks.part:HealthChecksPart",
    "strowger_gateway.gateway.governance.spend_caps.part:SpendCapsPart",
    "strowger_gateway.gateway.experiments.part:ExperimentsPart",
    "strowger_gateway.gateway.experiments.replay.part:ReplayPart",
    "strowger_gateway.gateway.experiments.adjustment.part:AdjustmentPart",
    "strowger_gateway.gateway.content.prompts.part:PromptsPart",
    "strowger_gateway.gateway.content.stored_responses.part:StoredResponsesPart",
    "strowger_gateway.gateway.content.compaction.part:CompactionPart",
    "strowger_gateway.gateway.governance.reservations.part:ReservationsPart",
    "strowger_gateway.gateway.observability.tracing.part:TracingPart",
    "strowger_gateway.gateway.experiments.mirror.part:MirrorsPart",
    "strowger_gateway.gateway.observability.payloads.part:PayloadsPart",
    "strowger_gateway.gateway.content.guardrails.part:GuardrailsPart",
    "strowger_gateway.gateway.content.cache.part:CachePart",
    "strowger_gateway.gateway.experiments.hidden.part:HiddenVariantsPart",
    "strowger_gateway.gateway.governance.answer_costs.part:AnswerCostsPart",
    "strowger_gateway.gateway.console.configuration.part:ConfigurationPart",
    "strowger_gateway.gateway.console.models.part:ModelsPart",
    "strowger_gateway.gateway.console.gateways.part:GatewaysPart",
    "strowger_gateway.gateway.console.problems.part:ProblemsPart",
    "strowger_gateway.gateway.console.playground.part:PlaygroundPart",
)


def _part(name: str) -> Part:
    module, _, kind = name.partition(":")
    part = getattr(import_module(module), kind)()
    assert isinstance(part, Part)
    return part


PARTS: Final = tuple(map(_part, _NAMES))
