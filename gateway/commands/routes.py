"""`strowger routes`: what each model resolves to."""

from pathlib import Path

import click
from rich.markup import escape

from gateway.commands.configuration import config_option, load
from gateway.commands.screen import show, table_of
from gateway.config.model import Model


@click.command()
@config_option
def routes(path: Path) -> None:
    """Show what each model resolves to: backends, shares of traffic and fallbacks."""
    config = load(path)
    table = table_of("MODEL", "ALIASES", "POLICY", "BACKEND", "SHARE", "FALLBACK")
    for model in config.models:
        table.add_row(
            escape(model.name),
            escape(", ".join(model.aliases)),
            model.policy,
            escape("\n".join(f"{ref.provider}/{ref.model}" for ref in model.backends)),
            "\n".join(shares(model)),
            escape(", ".join(model.fallback)),
        )
    show(table)


def shares(model: Model) -> list[str]:
    """Of the traffic, for each backend; words where the policy knows no shares."""
    if model.policy == "in_order":
        return ["first", *["then"] * (len(model.backends) - 1)]
    if model.policy != "weighted":
        return [""] * len(model.backends)
    weights = [1.0 if ref.weight is None else ref.weight for ref in model.backends]
    return [
        f"{100 * weight / sum(weights):.4g} %" if weight else "fallback only" for weight in weights
    ]
