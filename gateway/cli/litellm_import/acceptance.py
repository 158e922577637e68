"""Which settings of a provider `strowger check` accepts, by its own checks."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from strowger_gateway.gateway.config.adapter_names import known_adapters
from strowger_gateway.gateway.config.checks.providers import check_providers
from strowger_gateway.gateway.config.decode import Decoder
from strowger_gateway.gateway.config.problems import Problems
from strowger_gateway.gateway.config.schema.config import Config, Provider
from strowger_gateway.gateway.config.yaml_document import Tree

_REFERENCE = re.compile(r"(?<!\$)\$\{")
_PLACE = ("providers", 0)


def accepts(settings: Mapping[str, object], *at: str) -> bool:
    """Return whether a provider with these settings has no fault at or below `at`.

    A value there that refers to the environment is accepted: `strowger check` sees what it is.
    """
    value: object = settings
    for name in at:
        value = cast("dict[str, object]", value).get(name)
    if isinstance(value, str) and _REFERENCE.search(value):
        return True
    tree = cast("Tree", _plain({"name": "provider", "base_url": "http://localhost/v1", **settings}))
    problems = Problems("")
    provider = Decoder(Path(), problems).struct(tree, Provider, _PLACE)
    check_providers(Config(providers=(provider,), models=()), problems, known_adapters())
    return not problems.under((*_PLACE, *at))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {name: _plain(one) for name, one in items}
    return value.replace("$${", "${") if isinstance(value, str) else value
