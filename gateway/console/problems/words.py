"""The sentences of problems by their kinds, in English and in the reader's language."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.console.problems.problem import GatewayProblem, Severity
from strowger_gateway.gateway.platform.language import sentence, words_of

say = words_of(__file__)

_Row = tuple[Severity, str, str]

KINDS: Final[Mapping[str, _Row]] = {
    "model_down": (
        "critical",
        sentence("{model}: no backend works; requests fail"),
        "/admin",
    ),
    "model_on_fallback": (
        "warning",
        sentence("{model}: no backend works; requests go to {fallback}"),
        "/admin",
    ),
    "circuit_open": (
        "warning",
        sentence("{model} · {backend}: circuit open"),
        "/admin",
    ),
    "backend_refused": (
        "warning",
        sentence("{model} · {backend}: its vendor refuses the account or the model"),
        "/admin",
    ),
    "backend_failing": (
        "warning",
        sentence("{model} · {backend}: no attempt succeeds"),
        "/admin",
    ),
    "names_down": (
        "warning",
        sentence("{model} · {backend}: down for {names}"),
        "/admin",
    ),
    "many_failures": (
        "warning",
        sentence("{backend}: {share} of {attempts} attempts failed in the last 5 minutes"),
        "/admin",
    ),
    "backend_held": ("notice", sentence("{backend}: {state} by {who}"), "/admin/view/backends"),
    "engine_down": ("critical", sentence("The engine {name} is {state}"), "/admin"),
    "loading": ("notice", sentence("Local models are loading"), "/admin"),
    "draining": ("warning", sentence("This gateway shuts down"), "/admin"),
    "process_silent": (
        "warning",
        sentence("A process of this gateway does not answer; what only it knows is missing here"),
        "/admin",
    ),
    "store_down": (
        "critical",
        sentence("The store is unreachable: keys, budgets and records are as last known"),
        "/admin/view/events?kind=store_down",
    ),
    "store_read_only": ("critical", sentence("The store cannot be written"), "/admin"),
    "redis_down": (
        "warning",
        sentence("Redis is unreachable: each gateway limits and breaks circuits by itself"),
        "/admin/view/events?kind=redis_down",
    ),
    "spool_down": (
        "critical",
        sentence("Records cannot be written to the disk and wait in memory"),
        "/admin",
    ),
    "importer_down": ("warning", sentence("The importing process is down"), "/admin"),
    "import_late": (
        "warning",
        sentence("Records reach the store {seconds} s late"),
        "/admin",
    ),
    "records_lost": (
        "critical",
        sentence("{count} records were lost in the last 10 minutes"),
        "/admin",
    ),
    "audit_lost": (
        "critical",
        sentence("{count} audit events were lost in the last 10 minutes"),
        "/admin/view/audit",
    ),
    "audit_late": (
        "warning",
        sentence("Audit events reach the store {seconds} s late"),
        "/admin/view/audit",
    ),
    "audit_file_down": (
        "warning",
        sentence("The audit log is not copied to audit.file"),
        "/admin/view/audit",
    ),
    "export_failing": ("warning", sentence("The export of records fails"), "/admin"),
    "keys_stale": (
        "warning",
        sentence("Issued keys are as last known"),
        "/admin/view/keys",
    ),
    "budgets_stale": (
        "warning",
        sentence("Budgets are as last known"),
        "/admin/view/budgets",
    ),
    "budget_spent": (
        "warning",
        sentence("The budget {name} is spent for {count} of {all}: their requests are refused"),
        "/admin/view/budgets",
    ),
    "limit_full": (
        "warning",
        sentence("The limit {name} is full for {count} of {all}"),
        "/admin/view/limits",
    ),
    "alerts_waiting": (
        "warning",
        sentence("{count} alerts of budgets are not delivered"),
        "/admin/view/budgets",
    ),
    "identity_provider_down": (
        "warning",
        sentence("The keys of the identity provider {name} cannot be fetched"),
        "/admin",
    ),
    "configuration_rejected": (
        "warning",
        sentence("The changed configuration file is rejected; the previous one is in force"),
        "/admin/view/events?kind=reload_rejected",
    ),
    "configuration_differs": (
        "warning",
        sentence("{count} other gateways run another configuration"),
        "/admin/view/gateways",
    ),
    "certificate_expires": (
        "warning",
        sentence("The certificate {name} expires in {days} days"),
        "/admin",
    ),
    "certificate_expired": ("critical", sentence("The certificate {name} has expired"), "/admin"),
    "certificate_rejected": (
        "warning",
        sentence("The changed certificate files are rejected; the previous ones are in use"),
        "/admin",
    ),
    "split_mismatch": (
        "warning",
        sentence("The experiment {name} has a sample ratio mismatch: its results are invalid"),
        "/admin",
    ),
    "experiment_paused": ("warning", sentence("The experiment {name} is paused"), "/admin"),
    "workers_exited": (
        "warning",
        sentence("{count} processes exited unexpectedly in the last 10 minutes"),
        "/admin",
    ),
    "internal_errors": (
        "warning",
        sentence("{count} internal errors in the last 10 minutes; the log has them"),
        "/admin",
    ),
}
"""Severity, sentence, and the view where one looks, by kind."""

_STATES = (
    sentence("draining"),
    sentence("disabled"),
    sentence("over_budget"),
    sentence("failed"),
    sentence("restarting"),
    sentence("stopped"),
    sentence("unreachable"),
)
"""Of holds and engines, in sentences."""


def problem(
    kind: str,
    *,
    severity: Severity | None = None,
    since: float | None = None,
    model: str = "",
    backend: str = "",
    subject: str = "",
    cause: str = "",
    **values: str,
) -> GatewayProblem:
    """Make a problem of a kind. severity: another than that of the kind. values: of its sentence.

    model, backend: are values of its sentence, too.
    """
    usual, text, view = KINDS[kind]
    whole = {"model": model, "backend": backend, **values}
    return GatewayProblem(
        kind=kind,
        severity=severity or usual,
        message=text.format(**whole),
        since=since,
        model=model,
        backend=backend,
        subject=subject,
        cause=cause,
        view=view,
        values=whole,
    )


def said(one: GatewayProblem) -> str:
    """Return the sentence of a problem in the reader's language.

    Of a kind that another version of the gateway has, it is the English one.
    """
    row = KINDS.get(one.kind)
    if row is None:
        return one.message
    values = {**one.values}
    if "state" in values:
        values["state"] = say(values["state"])
    return say(row[1], **values)
