"""Check a feedback value against its metric's contract; a rejected value is not stored."""

from collections.abc import Iterable

from strowger_gateway.gateway.config.schema.experiment import Experiment
from strowger_gateway.gateway.config.schema.metric import MetricContract
from strowger_gateway.gateway.experiments.report_input import UNDECLARED
from strowger_gateway.schemas.errors import InvalidRequest

Value = bool | int | float


def checked_value(
    metric: str,
    value: Value,
    contracts: Iterable[MetricContract],
    experiments: Iterable[Experiment],
) -> tuple[float, float | None]:
    """Return the value as it counts, and the sent value if it is above the contract's cap.

    A metric without a contract accepts every number, unless it decides an experiment: because one
    wrong value could outweigh all others, it then accepts booleans and numbers from 0 to 1.

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
        fault = f"is {_kind(value)}, but metric {contract.name!r} takes {contract.kind}"
    elif not contract.bounds[0] <= value <= contract.bounds[1]:
        fault = f"is out of range, metric {contract.name!r} takes {contract.kind}"
    else:
        return
    raise InvalidRequest(f"value: {_shown(value)} {fault}", param="value")


def _check_undeclared(metric: str, value: Value) -> None:
    low, high = UNDECLARED
    if not low <= value <= high:
        raise InvalidRequest(
            f"value: {_shown(value)} is out of range, metric {metric!r} takes true, false or a "
            f"number from {low:g} to {high:g}, because it decides an experiment and has no "
            "contract; the operator can add one under `metrics` in the configuration",
            param="value",
        )


def _kind(value: Value) -> str:
    return "a boolean" if isinstance(value, bool) else "a number"


def _shown(value: Value) -> str:
    """Format a value as in JSON."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
