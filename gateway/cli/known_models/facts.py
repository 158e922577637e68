"""Show what is known about the models of the configured backends: `strowger models --backends`."""

from collections.abc import Iterator

from msgspec import Struct
from rich.markup import escape
from rich.table import Table

from strowger_gateway.gateway.assembly.wiring.models import models_of
from strowger_gateway.gateway.cli.tables import table_of
from strowger_gateway.gateway.config.schema.capabilities import Modality
from strowger_gateway.gateway.config.schema.config import Config


class KnownBackend(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts about the model of one backend; what is absent is unknown.

    source: the row of the configuration, or what the table's row was read from. url: its page.
    """

    model: str
    backend: str
    context: int | None = None
    max_output: int | None = None
    input: tuple[Modality, ...] | None = None
    output: tuple[Modality, ...] | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    structured_output: bool | None = None
    retires: str | None = None
    source: str = ""
    url: str = ""


def known_backends(config: Config) -> Iterator[KnownBackend]:
    known = models_of(config)
    for model in config.models:
        for ref in model.backends:
            backend = f"{ref.provider}/{ref.model}"
            facts = known.of(backend)
            yield KnownBackend(
                model=model.name,
                backend=backend,
                context=facts.context,
                max_output=facts.max_output,
                input=facts.input,
                output=facts.output,
                tools=facts.tools,
                reasoning=facts.reasoning,
                structured_output=facts.structured_output,
                retires=facts.retires,
                source=facts.source,
                url=facts.url,
            )


def facts_table(backends: Iterator[KnownBackend]) -> Table:
    """One row per backend; "?" is unknown."""
    table = table_of(
        "MODEL", "BACKEND", "CONTEXT", "MAX OUTPUT", "INPUT", "CAN", "RETIRES", "SOURCE"
    )
    for one in backends:
        table.add_row(
            escape(one.model),
            escape(one.backend),
            _count(one.context),
            _count(one.max_output),
            "?" if one.input is None else ", ".join(one.input),
            ", ".join(_abilities(one)) or "?",
            one.retires or "",
            escape(", ".join(note for note in (one.source, one.url) if note)),
        )
    return table


def _count(tokens: int | None) -> str:
    return "?" if tokens is None else f"{tokens:,}"


def _abilities(one: KnownBackend) -> Iterator[str]:
    """Yield what the model can, and what it is known not to."""
    flags = {
        "tools": one.tools,
        "reasoning": one.reasoning,
        "structured output": one.structured_output,
    }
    for name, value in flags.items():
        if value is not None:
            yield name if value else f"no {name}"
