"""The words of events in the reader's language: what has happened, to what, and why."""

from typing import Final

from strowger_gateway.gateway.console.problems.happening import Happening
from strowger_gateway.gateway.platform.formatting import span
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

NAMES: Final = {
    "failing": sentence("failing"),
    "circuit_opened": sentence("circuit open"),
    "refused": sentence("account or model refused"),
    "circuit_closed": sentence("circuit closed"),
    "recovered": sentence("works again"),
    "removed": sentence("removed"),
    "cooldown": sentence("cooling down"),
    "no_backend": sentence("no backend left"),
    "backend_again": sentence("a backend works again"),
    "check_failed": sentence("health check fails"),
    "check_passed": sentence("health check passes again"),
    "draining": sentence("draining"),
    "disabled": sentence("disabled"),
    "enabled": sentence("enabled again"),
    "over_budget": sentence("over budget"),
    "within_budget": sentence("within its budget again"),
    "started": sentence("started"),
    "stopped": sentence("stopped"),
    "reloaded": sentence("configuration reloaded"),
    "reload_rejected": sentence("configuration rejected"),
    "worker_exited": sentence("process exited"),
    "ended": sentence("problem over"),
    "many_failures": sentence("many failures"),
    "engine_down": sentence("engine down"),
    "process_silent": sentence("process silent"),
    "store_down": sentence("store unreachable"),
    "store_read_only": sentence("store not writable"),
    "redis_down": sentence("Redis unreachable"),
    "spool_down": sentence("spool not writable"),
    "importer_down": sentence("importer down"),
    "import_late": sentence("import late"),
    "records_lost": sentence("records lost"),
    "audit_lost": sentence("audit events lost"),
    "audit_late": sentence("audit late"),
    "audit_file_down": sentence("audit file not written"),
    "export_failing": sentence("export fails"),
    "keys_stale": sentence("keys stale"),
    "budgets_stale": sentence("budgets stale"),
    "budget_spent": sentence("budget spent"),
    "limit_full": sentence("limit full"),
    "alerts_waiting": sentence("alerts not delivered"),
    "identity_provider_down": sentence("identity provider down"),
    "configuration_rejected": sentence("configuration rejected"),
    "configuration_differs": sentence("configurations differ"),
    "certificate_expires": sentence("certificate expires soon"),
    "certificate_expired": sentence("certificate expired"),
    "certificate_rejected": sentence("certificate rejected"),
    "split_mismatch": sentence("sample ratio mismatch"),
    "experiment_paused": sentence("experiment paused"),
    "workers_exited": sentence("processes exited"),
    "internal_errors": sentence("internal errors"),
}
"""By kind, of events and of the problems that are events."""


_OF_GATEWAYS: Final = ("started", "reloaded", "stopped", "worker_exited")
"""Kinds whose subject is not to what they happened."""


def event_name(kind: str) -> str:
    """Return the name of a kind; of one that another version has, the kind itself."""
    return say(NAMES.get(kind, kind))


def name_of(one: Happening) -> str:
    """Return what has happened."""
    if one.kind == "ended":
        return say("over: {what}", what=event_name(one.subject))
    if one.kind in ("draining", "disabled", "enabled") and one.by:
        return say("{what}, by {who}", what=event_name(one.kind), who=one.by)
    if one.kind == "cooldown" and one.for_s is not None:
        return say("{what} for {time}", what=event_name(one.kind), time=span(one.for_s))
    if one.kind == "circuit_opened" and one.failed_share is not None:
        share = f"{100 * one.failed_share:.0f} %"
        return say("{what}, {share} fail", what=event_name(one.kind), share=share)
    return event_name(one.kind)


def subject_of(one: Happening) -> str:
    """Return to what it has happened: a model, a backend, or another name; the gateway's else."""
    subject = "" if one.kind in ("ended", *_OF_GATEWAYS) else one.subject
    named = [name for name in (one.model, one.backend, one.requested, subject) if name]
    return " · ".join(named) or one.gateway or say("this gateway")


def cause_of(one: Happening) -> str:
    """Return why, as a vendor, an operator or a check has said it; "" if nothing is known.

    Of a gateway, the configuration that it runs. Of a problem that is over and is not about a
    backend, which one it was.
    """
    if one.kind in ("started", "reloaded") and one.subject:
        return say("configuration {digest}", digest=one.subject)
    if one.kind == "ended" and not (one.model or one.backend):
        return one.text.removeprefix("over: ")
    return ": ".join(part for part in (one.code, one.message) if part)
