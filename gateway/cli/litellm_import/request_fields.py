"""Translates the request fields of a deployment, such as `temperature`, to `models[].defaults`."""

from collections.abc import Mapping

import msgspec

from strowger_gateway.gateway.cli.litellm_import.values import escaped
from strowger_gateway.gateway.config.checks.models import check_values
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.yaml_document import Tree
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.sampling import Sampling

_SAMPLING = frozenset(Sampling.__struct_fields__)
FIELDS = _SAMPLING | {"reasoning_effort", "parallel_tool_calls"}


def request_fields(params: Mapping[str, Tree]) -> dict[str, Tree]:
    """Return the fields that a deployment sets and that `models[].defaults` accepts."""
    found: dict[str, Tree] = {}
    for key, value in params.items():
        field: Tree = [value] if key == "stop" and isinstance(value, str) else value
        if _acceptable(key, field):
            found[key] = _escaped(field)
    return found


def _escaped(value: Tree) -> Tree:
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    return escaped(value) if isinstance(value, str) else value


def _acceptable(key: str, value: Tree) -> bool:
    if key in ("reasoning_effort", "parallel_tool_calls"):
        return isinstance(value, str if key == "reasoning_effort" else bool)
    if key not in _SAMPLING or isinstance(value, dict | None):
        return False
    problems = Problems("")
    try:
        check_values(msgspec.convert({key: value}, Sampling), (), problems)
        problems.raise_if_any()
    except (msgspec.ValidationError, InvalidConfig):
        return False
    return True
