"""Find the settings that must be fixed before the data, and were changed after the start.

The store keeps each plan with the number of requests enrolled by then. An experiment starts with
the first request of an epoch in which several variants have a weight: the epochs before it compare
nothing, and may still change the plan.
"""

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.schema.experiment import Covariate, Decide, Experiment
from strowger_gateway.gateway.storage.sql.base import RequestCounts, Store
from strowger_gateway.gateway.storage.sql.experiments.plan_rows import add_plan, plans


class FixedSettings(Struct, frozen=True, kw_only=True):
    """The settings on which the intervals and the verdict depend; fields as of `Experiment`."""

    primary: str
    per: Literal["observation", "unit"]
    alpha: float
    planned: int
    smallest: float | None
    decide: Decide | None
    adjust: tuple[Covariate, ...]


_plan = msgspec.json.Decoder(FixedSettings)


def plan_of(experiment: Experiment) -> FixedSettings:
    return FixedSettings(
        primary=experiment.primary,
        per=experiment.per,
        alpha=experiment.alpha,
        planned=experiment.planned,
        smallest=experiment.smallest,
        decide=experiment.decide,
        adjust=experiment.adjust,
    )


def record_plan(store: Store, experiment: Experiment, now: float) -> None:
    """Store the plan if it is not the last one stored. now: Unix seconds. Blocks.

    Raises StoreUnavailable.
    """
    text = msgspec.json.encode(plan_of(experiment)).decode()
    with store.database.writing() as session:
        add_plan(session, experiment.name, text, now)


def plan_changes(
    experiment: Experiment,
    store: Store,
    answered: Sequence[RequestCounts],
    baseline: Collection[int],
) -> str:
    """Return a sentence about the settings that differ from those at the start; "" if none does.

    answered: the experiment's requests. baseline: the epochs before its start. Blocks.

    Raises StoreUnavailable.
    """
    with store.database.reading() as session:
        stored = plans(session, experiment.name)
    before = sum(one.requests for one in answered if one.variant and one.epoch in baseline)
    so_far = sum(one.requests for one in answered if one.variant)
    if so_far <= before or not stored:
        return ""
    started = max((place for place, one in enumerate(stored) if one.requests <= before), default=0)
    first, now = _read(stored[started].plan), plan_of(experiment)
    later = stored[started + 1 :]
    requests = later[0].requests if later else so_far
    if first is None:
        return ""
    names = [
        name
        for name in FixedSettings.__struct_fields__
        if getattr(first, name) != getattr(now, name)
    ]
    if not names:
        return ""
    changed = "; ".join(
        f"{name} was {_setting(first, name)} and is {_setting(now, name)}" for name in names
    )
    return (
        f"PLAN CHANGED after {requests:,} requests: {changed}. What is chosen when data have been"
        f" seen makes a verdict wrong more often than alpha, {now.alpha:g}, says"
    )


def _read(text: str) -> FixedSettings | None:
    """Decode a plan; `None` if another version wrote it."""
    try:
        return _plan.decode(text)
    except msgspec.DecodeError:
        return None


def _setting(plan: FixedSettings, name: str) -> str:
    if name == "adjust":
        return " and ".join(plan.adjust) or "none"
    return _shown(getattr(plan, name))


def _shown(value: object) -> str:
    if isinstance(value, Decide):
        clauses = [f"better {value.better}"]
        clauses += [f"{one.metric} not worse by {one.by:g}" for one in value.not_worse]
        return ", ".join(clauses)
    if isinstance(value, int):
        return f"{value:,}"
    return "none" if value is None else str(value)
