"""Names of models in rows of the database that config.yaml has no model for: `check` refuses them.

LiteLLM keeps the names of models that were removed, and those of its own, such as
`no-default-models`.
"""

from collections.abc import Sequence

import msgspec

from strowger_gateway.gateway.cli.litellm_import.database.found import People
from strowger_gateway.gateway.cli.litellm_import.ledger import Listed
from strowger_gateway.gateway.config.checks.models import matches

_Entry = dict[str, object]


class _Known:
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.listed: list[Listed] = []

    def team(self, team: _Entry) -> _Entry:
        whose, found = f"team {team['name']}", dict(team)
        if "models" in team:
            found["models"], gone = self._split(team["models"])
            if gone:
                left = "" if found["models"] else ", so its keys may use no model"
                self._list(f"{whose}.models", gone, f"add them, or their names{left}")
        for place in ("limits", "budgets"):
            if place in team:
                found[place] = self.rules(team[place], f"{whose}.{place}")
        return found

    def rules(self, rules: object, whose: str) -> list[_Entry]:
        """Return the rules without models that no request can name."""
        found: list[_Entry] = []
        for rule in msgspec.convert(rules, list[_Entry]):
            if "models" not in rule:
                found.append(rule)
                continue
            here, gone = self._split(rule["models"])
            if gone:
                self._list(whose, gone, "write the rule again with the model")
            if here:
                found.append({**rule, "models": here})
        return found

    def _split(self, models: object) -> tuple[list[str], list[str]]:
        """Return the names that are known, and those that are not."""
        here: list[str] = []
        gone: list[str] = []
        for name in msgspec.convert(models, list[str]):
            whole = name == "*" or any(
                matches(name, one) or matches(one, name) for one in self._names
            )
            (here if whole else gone).append(name)
        return here, gone

    def _list(self, path: str, gone: Sequence[str], remedy: str) -> None:
        shown = path if path.isprintable() else ascii(path)
        names = ", ".join(map(ascii, gone[:10]))
        more = f" and {len(gone) - 10:,} more" if len(gone) > 10 else ""
        self.listed.append(Listed(shown, f"there is no model {names}{more}", remedy))


def with_known_models(people: People, names: Sequence[str]) -> People:
    """Return the sections of config.yaml without other models than these; the others are listed."""
    known = _Known(names)
    return msgspec.structs.replace(
        people,
        teams=tuple(known.team(team) for team in people.teams),
        limits=tuple(known.rules(people.limits, "limits of users")),
        budgets=tuple(known.rules(people.budgets, "budgets of users")),
        listed=(*people.listed, *known.listed),
    )
