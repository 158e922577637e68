"""`strowger routes`: what each model resolves to; with --url also the health of backends."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.cli.address import Address, url_option
from strowger_gateway.gateway.cli.config_loading import config_option, load
from strowger_gateway.gateway.cli.http_client import admin_key_option, fetch
from strowger_gateway.gateway.cli.tables import show, table_of
from strowger_gateway.gateway.config.schema.config import Model, Tls
from strowger_gateway.gateway.console.admin.backends import (
    BackendView,
    ExperimentView,
    ModelList,
    ModelView,
    experiment_view,
)
from strowger_gateway.gateway.routing import backend_status as health
from strowger_gateway.gateway.routing.planning.when_rules import describe

_Row = tuple[str, str, tuple[str, ...]]
"""A model, a condition on its requests, and their targets."""


@click.command()
@url_option("Show a running gateway's models, with the health of each backend.")
@admin_key_option
@config_option
def routes(address: Address | None, _: Tls, path: Path, admin_key: str) -> None:
    """Show what each model resolves to: backends, shares, rules and fallbacks."""
    led: list[_Row] = []
    if address is None:
        config = load(path)
        trials = {trial.model: experiment_view(trial) for trial in config.experiments}
        show(_configured(config.models, trials))
        for model in config.models:
            led += [(model.name, f"when {describe(one)}", one.backends) for one in model.when]
            led += _others(model, trials.get(model.name))
    else:
        found = fetch(address, "/admin/backends", ModelList, key=admin_key).models
        show(_running(found))
        for model in found:
            led += [(model.name, f"when {one.when}", one.backends) for one in model.when]
            led += _others(model, model.experiment)
    if led:
        table = table_of("MODEL", "REQUESTS", "GO TO")
        for name, requests, targets in led:
            table.add_row(escape(name), escape(requests), escape(", ".join(targets)))
        click.echo()
        show(table)


def _others(model: Model | ModelView, trial: ExperimentView | None) -> list[_Row]:
    """Targets by experiment, by error code, and of mirrored copies."""
    found: list[_Row] = []
    if trial is not None:
        for one in trial.variants:
            words = f"in {trial.name}: {one.name}, {100 * one.share:.4g} %"
            found.append((model.name, words, (one.backend,)))
    found += [
        (model.name, f"after {', '.join(one.codes)}", one.models) for one in model.fallback_by_error
    ]
    if model.mirror is not None:
        words = f"copies of {100 * model.mirror.share:.4g} %"
        found.append((model.name, words, (model.mirror.backend,)))
    return found


def _configured(models: Sequence[Model], trials: Mapping[str, ExperimentView]) -> Table:
    table = table_of("MODEL", "ALIASES", "POLICY", "BACKEND", "SHARE", "FALLBACK")
    for model in models:
        backends = {
            f"{ref.provider}/{ref.model}": 1.0 if ref.weight is None else ref.weight
            for ref in model.backends
        }
        table.add_row(
            escape(model.name),
            escape(", ".join(model.aliases)),
            model.policy,
            escape("\n".join(backends)),
            "\n".join(shares(model.policy, backends, trials.get(model.name))),
            escape(", ".join(model.fallback)),
        )
    return table


def _running(models: Sequence[ModelView]) -> Table:
    table = table_of(
        "MODEL", "POLICY", "BACKEND", "SHARE", "HEALTH", "IN FLIGHT", "LATENCY", "FALLBACK"
    )
    for model in models:
        own = {one.place: one.weight for one in model.backends if one.weight is not None}
        parts = shares(model.policy, own, model.experiment)
        parts += [
            "by an experiment" if one.variants else "by a rule"
            for one in model.backends
            if one.weight is None
        ]
        for place, (one, share) in enumerate(zip(model.backends, parts, strict=True)):
            table.add_row(
                "" if place else escape(model.name),
                "" if place else model.policy,
                escape(one.place),
                share,
                health.describe(one.health),
                str(one.health.in_flight + one.health.in_flight_other_processes),
                _latency(one),
                "" if place else escape(", ".join(model.fallback)),
            )
    return table


def _latency(one: BackendView) -> str:
    first, whole = one.health.time_to_first_token_s, one.health.latency_s
    words = [] if first is None else [f"first token {first * 1e3:.0f} ms"]
    words += [] if whole is None else [f"complete {whole * 1e3:.0f} ms"]
    return ", ".join(words) or "unknown"


def shares(
    policy: str, backends: Mapping[str, float], trial: ExperimentView | None = None
) -> list[str]:
    """The share of traffic per backend; a description for policies without shares.

    backends: weights by name. trial: an experiment of the model; its arms always come first.
    """
    if trial is not None:
        arms = {variant.backend for variant in trial.variants}
        return ["by an experiment" if name in arms else "after the variants" for name in backends]
    weights = list(backends.values())
    if policy == "in_order":
        return ["first", *["then"] * (len(weights) - 1)]
    if policy == "weighted":
        words = [f"{100 * weight / sum(weights):.4g} %" for weight in weights]
    else:
        uneven = len({weight for weight in weights if weight}) > 1
        words = [f"weight {weight:g}" if uneven else "" for weight in weights]
    return [one if weight else "fallback only" for one, weight in zip(words, weights, strict=True)]
