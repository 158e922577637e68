"""What the checks of an experiment remember in the store: the looks that were spent, and sums.

Several gateways may check an experiment, one after the other and by accident at once. A look is
spent in one transaction, before it is evaluated: no other process spends it again, and one that
stops in between loses it.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.experiments.guarding.circuit import (
    Sums,
    is_open,
    kept,
    sentence,
)
from strowger_gateway.gateway.statistics.looks import passed
from strowger_gateway.gateway.storage.sql.database import Database, Session
from strowger_gateway.gateway.storage.sql.experiments.exclusions import IN

MOST_UNITS = 20_000
"""Units that `unit_errors` reads."""


WATCHED_EPOCHS = 8
"""The last epochs that circuits watch: gateways with different files have one each."""


class ArmPast(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A treatment's sums at earlier checks of one epoch, oldest first.

    older:    a newer epoch had begun at all of these checks.
    requests: at the last check.
    """

    variant: str
    sums: tuple[Sums, ...]
    epoch: int = 0
    older: bool = False
    requests: int = 0


class GuardState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one experiment, as the store has it.

    resumed: the epoch of the last pause that was resumed: with another, looks start again.
    looks:   spent since then.
    exclusions: by operators, when `past` was kept, which has no requests of excluded units.
    stopped: the reason of the last pause by a circuit or a look.
    """

    resumed: int = 0
    looks: int = 0
    exclusions: int = 0
    past: tuple[ArmPast, ...] = ()
    stopped: str = ""


class Watched(Struct, frozen=True, kw_only=True):
    """What a check found.

    spent, due: the looks spent before, and now; equal if none is due. opened: why circuits are
    open, in words.
    """

    spent: int
    due: int
    opened: tuple[str, ...] = ()


_state: msgspec.json.Decoder[GuardState] = msgspec.json.Decoder(GuardState)
_SUMS = """SELECT epoch, variant, requests, errors FROM experiment_requests
    WHERE experiment = ? AND epoch > ? AND variant <> ''"""
_EXCLUSIONS = "SELECT COUNT(*) FROM experiment_exclusions WHERE experiment = ?"
_LEFT_OUT = """SELECT u.variant, CAST(SUM(u.count) AS BIGINT), CAST(SUM(u.total) AS BIGINT)
    FROM experiment_left_out x JOIN experiment_units u ON u.experiment = x.experiment
    AND u.metric = 'error' AND u.unit = x.unit
    WHERE x.experiment = ? AND u.epoch = ? GROUP BY u.variant"""
_UNITS = f"""SELECT variant, count, total FROM experiment_units a
    WHERE experiment = ? AND metric = ? AND epoch = ? AND variant IN (?, ?)
    AND {IN.format("a")} LIMIT ?"""
_SAVE = """INSERT INTO experiment_guards (experiment, state) VALUES (?, ?)
    ON CONFLICT (experiment) DO UPDATE SET state = excluded.state"""


def watch(database: Database, experiment: Experiment, *, resumed: int, epoch: int) -> Watched:
    """Spend the looks that are due, and check the circuits. Blocks. Raises StoreUnavailable.

    resumed: the epoch of the last pause that was resumed, 0 for none. epoch: the current one.
    """
    with database.writing() as session:
        state = before = _read(session, experiment.name)
        if state.resumed != resumed:
            state = GuardState(resumed=resumed)
        counts = {
            (number, variant): (requests, errors)
            for number, variant, requests, errors in session.rows(
                tuple[int, str, int, int], _SUMS, experiment.name, resumed
            )
        }
        spent = state.looks
        due = max(passed(sum(requests for requests, _ in counts.values())), spent)
        ((exclusions,),) = session.rows(tuple[int], _EXCLUSIONS, experiment.name)
        if state.exclusions != exclusions:
            state = replace(state, exclusions=exclusions, past=())
        epochs = sorted({epoch, *(number for number, _ in counts)})[-WATCHED_EPOCHS:]
        if exclusions:
            for number in epochs:
                _leave_out(session, experiment.name, number, counts)
        found, opened = _circuits(experiment, epochs, counts, state.past)
        state = replace(state, looks=due, past=found)
        if state != before:
            _save(session, experiment.name, state)
    return Watched(spent=spent, due=due, opened=opened)


def _leave_out(
    session: Session, experiment: str, epoch: int, counts: dict[tuple[int, str], tuple[int, int]]
) -> None:
    """Take the requests of excluded units off the sums of an epoch."""
    kind = tuple[str, int, int]
    for variant, requests, errors in session.rows(kind, _LEFT_OUT, experiment, epoch):
        known = counts.get((epoch, variant), (requests, errors))
        counts[epoch, variant] = known[0] - requests, known[1] - errors


def _circuits(
    experiment: Experiment,
    epochs: Sequence[int],
    counts: Mapping[tuple[int, str], tuple[int, int]],
    past: Sequence[ArmPast],
) -> tuple[tuple[ArmPast, ...], tuple[str, ...]]:
    """Return the sums to keep, and why circuits are open. epochs: to watch; the last is current.

    A gateway with an older file continues in an older epoch. Such an epoch is watched from the
    first check that finds a newer one, and only while requests come: what failed before the file
    was changed, or was not answered yet then, says nothing about the new one.
    """
    circuit, control = experiment.circuit_rule, experiment.control.name
    if circuit is None:
        return (), ()
    known = {(one.epoch, one.variant): one for one in past}
    found: list[ArmPast] = []
    opened: list[str] = []
    for epoch in epochs:
        base = counts.get((epoch, control), (0, 0))
        for variant in experiment.variants[1:]:
            own = counts.get((epoch, variant.name), (0, 0))
            now = Sums(
                requests=own[0],
                errors=own[1],
                control_requests=base[0],
                control_errors=base[1],
            )
            before, older = known.get((epoch, variant.name)), epoch != epochs[-1]
            sums = before.sums if before is not None and before.older == older else ()
            if not older or (sums and before is not None and now.requests > before.requests):
                last = is_open(circuit, sums, now)
                if last is not None:
                    opened.append(sentence(variant.name, control, last))
            found.append(
                ArmPast(
                    variant=variant.name,
                    sums=kept(circuit, sums, now) if sums or not older else (now,),
                    epoch=epoch,
                    older=older,
                    requests=now.requests,
                )
            )
    return tuple(found), tuple(opened)


def state_of(database: Database, experiment: str) -> GuardState:
    """Return the state as of the last check. Blocks. Raises StoreUnavailable."""
    with database.reading() as session:
        return _read(session, experiment)


def note_stop(database: Database, experiment: str, reason: str) -> None:
    """Record that a circuit or a look has paused the experiment. Raises StoreUnavailable."""
    with database.writing() as session:
        _save(session, experiment, replace(_read(session, experiment), stopped=reason))


def unit_errors(
    database: Database, experiment: str, metric: str, epoch: int, arms: tuple[str, str]
) -> Mapping[str, Sequence[tuple[int, float]]] | None:
    """Return by arm the requests of each unit in an epoch and their sum of a metric.

    `None`: more than MOST_UNITS. Blocks. Raises StoreUnavailable.
    """
    with database.reading() as session:
        kind = tuple[str, int, float]
        rows = session.rows(kind, _UNITS, experiment, metric, epoch, *arms, MOST_UNITS + 1)
    if len(rows) > MOST_UNITS:
        return None
    return {arm: [(count, total) for name, count, total in rows if name == arm] for arm in arms}


def _read(session: Session, experiment: str) -> GuardState:
    sql = "SELECT state FROM experiment_guards WHERE experiment = ?"
    for (state,) in session.rows(tuple[str], sql, experiment):
        return _state.decode(state)
    return GuardState()


def _save(session: Session, experiment: str, state: GuardState) -> None:
    session.run(_SAVE, experiment, msgspec.json.encode(state).decode())
