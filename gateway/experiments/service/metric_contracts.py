"""A value of feedback against what its metric may be; nothing that is refused is stored."""

from collections.abc import Iterable

from gateway.config.schema_experiment import Experiment
from gateway.config.schema_metric import MetricContract
from gateway.experiments.service.report_input import UNDECLARED
from schemas.errors import InvalidRequest

Value = bool | int | float


def checked_value(
    metric: str,
    value: Value,
    contracts: Iterable[MetricContract],
    experiments: Iterable[Experiment],
) -> tuple[float, float | None]:
    """The value as it counts, and as it was sent where its contract's cap makes it another.

    A metric without a contract takes every number, unless it decides an experiment: then one
    wrong value could outweigh all others, and it takes booleans and numbers from 0 to 1.

    Raises InvalidRequest.
    """
    contract = next((one for one in contracts if one.name == metric), None)
    if contract is None:
        if any(one.decided_by(metric) for one in experiments):
            _check_undeclared(metric, value)
        return float(value), None
    _check(value, contract)
    if contract.cap is not None and value > contract.cap:
        return contract.cap, float(value)
    return float(value), None


def _check(value: Value, contract: MetricContract) -> None:
    if isinstance(value, bool) != (contract.type == "boolean"):
        told = f"is {_kind(value)}, and metric {contract.name!r} takes {contract.kind}"
    elif not contract.bounds[0] <= value <= contract.bounds[1]:
        told = f"is outside of what metric {contract.name!r} takes: {contract.kind}"
    else:
        return
    raise InvalidRequest(f"value: {_shown(value)} {told}", param="value")


def _check_undeclared(metric: str, value: Value) -> None:
    low, high = UNDECLARED
    if not low <= value <= high:
        raise InvalidRequest(
            f"value: {_shown(value)} is {_kind(value)}, and metric {metric!r} takes true, false or "
            f"a number from {low:g} to {high:g}: it decides an experiment and has no contract; the "
            "operator can give it one, under `metrics` of the configuration",
            param="value",
        )


def _kind(value: Value) -> str:
    return "a boolean" if isinstance(value, bool) else "a number"


def _shown(value: Value) -> str:
    """As JSON has it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
