"""Cross-checks of `metrics`: contracts must be possible."""

from strowger_gateway.gateway.config.checks.experiments import ALIKE
from strowger_gateway.gateway.config.problems import Found, Path, Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.config.schema.metric import MetricContract
from strowger_gateway.gateway.statistics.metrics import BUILT_IN, COMMENT, LARGEST, MEASURED
from strowger_gateway.schemas.close_names import close_names


def check_metrics(config: Config, problems: Problems) -> None:
    names: dict[str, int] = {}
    for index, contract in enumerate(config.metrics):
        path: Path = ("metrics", index)
        first = names.setdefault(contract.name, index)
        if first != index and contract.name and not problems.at((*path, "name")):
            problems.add((*path, "name"), Found(contract.name), f" is already in metrics[{first}]")
        _name(contract, (*path, "name"), problems)
        if not problems.under(path):
            _values(contract, path, problems)
    if not problems.under(("metrics",)):
        known = {contract.name: contract for contract in config.metrics}
        for index, experiment in enumerate(config.experiments):
            _differences(experiment, known, ("experiments", index), problems)
            _slips(experiment, known, ("experiments", index), problems)


def _name(contract: MetricContract, path: Path, problems: Problems) -> None:
    if contract.name in MEASURED:
        problems.add(
            path,
            Found(contract.name),
            " is measured by the gateway; contracts are for feedback metrics",
        )
    elif contract.name == COMMENT:
        problems.add(
            path, "a comment has no value, so it cannot have a contract; name another metric"
        )


def _values(contract: MetricContract, path: Path, problems: Problems) -> None:
    if contract.type == "boolean":
        for field, given in (("range", contract.range), ("cap", contract.cap)):
            if given not in ((), None):
                problems.add(
                    (*path, field), "is only for numbers, but the type is boolean; remove it"
                )
        return
    if not contract.range:
        problems.add(
            (*path, "range"),
            "is missing; give the minimum and maximum of the number, such as [1, 5]: "
            "without it one wrong value could decide an experiment",
        )
    elif len(contract.range) != 2 or not contract.range[0] < contract.range[1]:
        problems.add((*path, "range"), "expected [MINIMUM, MAXIMUM], such as [1, 5]")
    elif max(map(abs, contract.range)) > LARGEST:
        problems.add((*path, "range"), f"must be between -{LARGEST:g} and {LARGEST:g}")
    elif contract.cap is not None and not contract.range[0] < contract.cap < contract.range[1]:
        low, high = contract.range
        problems.add((*path, "cap"), f"has no effect outside the range, {low:g} to {high:g}")


def _differences(
    experiment: Experiment, known: dict[str, MetricContract], path: Path, problems: Problems
) -> None:
    """Warn of differences that are not possible within a metric's range."""
    limits: list[tuple[str, float, Path]] = [
        (harm_limit.metric, harm_limit.worse_by, (*path, "harm_limits", place, "worse_by"))
        for place, harm_limit in enumerate(experiment.harm_limits)
    ]
    if experiment.decide is not None:
        limits += [
            (one.metric, one.by, (*path, "decide", "not_worse", place, "by"))
            for place, one in enumerate(experiment.decide.not_worse)
        ]
    if experiment.smallest is not None:
        limits.append((experiment.primary, experiment.smallest, (*path, "smallest")))
    for name, value, where in limits:
        contract = known.get(name)
        if contract is not None and value >= contract.bounds[1] - contract.bounds[0]:
            problems.warn(
                where,
                f"{value:g} is impossible: {name} is {contract.kind}, so means differ by less",
            )


def _slips(
    experiment: Experiment, known: dict[str, MetricContract], path: Path, problems: Problems
) -> None:
    """Warn of a metric without a contract whose name resembles one that has a contract."""
    names: list[tuple[str, Path]] = [(experiment.primary, (*path, "primary"))]
    for place, harm_limit in enumerate(experiment.harm_limits):
        names.append((harm_limit.metric, (*path, "harm_limits", place, "metric")))
    if experiment.decide is not None:
        names.append((experiment.decide.better, (*path, "decide", "better")))
        for place, one in enumerate(experiment.decide.not_worse):
            names.append((one.metric, (*path, "decide", "not_worse", place, "metric")))
    for name, where in names:
        if name in known or name in BUILT_IN or problems.at(where):
            continue
        close = close_names(name, known, alike=ALIKE)
        if close:
            problems.warn(
                where,
                Found(name),
                " has no contract, but resembles ",
                Found(close[0]),
                ", which has one",
            )
