"""Which backends of a configuration have a model that retires soon, or has retired."""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from strowger_gateway.gateway.config.checks.routing import reachable
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.routing.planning.model_facts import KnownModels

NOTICE: Final = timedelta(days=60)


def retirements(config: Config, known: KnownModels, today: date) -> Iterator[str]:
    """Yield a sentence per backend whose model retires within NOTICE or has retired."""
    for backend in dict.fromkeys(reachable(config)):
        facts = known.of(backend)
        if facts.retires is None:
            continue
        day = date.fromisoformat(facts.retires)
        if day > today + NOTICE:
            continue
        what = f"retires on {facts.retires}" if day > today else f"retired on {facts.retires}"
        page = f"; {facts.url}" if facts.url else ""
        yield (
            f"{backend}: the model {what} ({facts.source}{page}); move to another model, or "
            "correct the date in capabilities"
        )
