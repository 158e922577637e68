"""What vendors refuse although their schemas allow it: `rules.toml`, a function for each rule."""

import re
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, cast

import msgspec
from msgspec import Struct

from tests.oracle.reading import Faults
from tests.oracle.sent import Api, Sent

FILE: Final = Path(__file__).with_name("rules.toml")
CHECKS: Final = "tests.oracle.checks"

Check = Callable[[Sent], Faults]


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the head of the file. check: the function, behind its module in `CHECKS`."""

    name: str
    apis: tuple[Api, ...]
    check: str
    says: str
    source: str
    edition: str
    vendors: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    models: str = ""

    def holds_for(self, api: Api, vendor: str) -> bool:
        """Whether it does for some model."""
        named = not self.vendors or vendor in self.vendors
        return api in self.apis and named and vendor not in self.but

    @property
    def function(self) -> Check:
        module, _, name = self.check.partition(".")
        return cast("Check", getattr(import_module(f"{CHECKS}.{module}"), name))


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules, as the file has them."""
    return tuple(msgspec.convert(tomllib.loads(FILE.read_text())["rule"], list[Rule]))


@cache
def rules_for(api: Api, vendor: str) -> tuple[tuple[Rule, Check], ...]:
    """Return those that hold for an API and vendor, whatever the model, with their functions."""
    return tuple((one, one.function) for one in rules() if one.holds_for(api, vendor))


def faults_of(sent: Sent) -> Iterator[tuple[str, str, str]]:
    """Yield rule, path and fault of everything in a request that a rule does not allow."""
    for rule, check in rules_for(sent.api, sent.vendor):
        if not rule.models or re.search(rule.models, sent.model):
            for at, fault in check(sent):
                yield rule.name, at, fault
